// SPDX-License-Identifier: BSD-3-Clause
// A complete part goes to the partner by messages of the thread that calls MPI, between two steps of the program:
//
// 1. The sender offers its part: how many bytes, and which of the two slots. Or it says that there is none.
// 2. The partner makes its file of that slot void, takes the space, and accepts; or it refuses, if there is no room.
// 3. The bytes behind the commit record travel in pieces, from the memory of one part into that of the other, a few at
//    a time.
// 4. Then the commit record. The partner writes it when all else is there, and reports that. The sender is done.
//
// A sender sends nothing that its partner has not said it will receive. So once both have come to an end nothing is on
// its way, and while they work no other message is needed to end it.

#include "manager/local_transfer.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <new>
#include <sstream>
#include <thread>
#include <utility>

#include "core/log.hpp"
#include "manager/node_directory.hpp"
#include "reprieve/error.hpp"

namespace reprieve::manager {

namespace {

struct PairedHost {
  std::string name;
  std::string domain;
  std::vector<int> ranks;
};

std::vector<PairedHost> group_by_host(const std::vector<std::string>& hosts, const FailureDomains& domains) {
  std::vector<PairedHost> groups;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    auto group = std::ranges::find(groups, hosts[rank], &PairedHost::name);
    if (group == groups.end()) {
      const auto domain = domains.find(hosts[rank]);
      groups.push_back({hosts[rank], domain == domains.end() ? "host " + hosts[rank] : domain->second, {}});
      group = groups.end() - 1;
    }
    group->ranks.push_back(static_cast<int>(rank));
  }
  return groups;
}

const PairedHost& partner_host(const std::vector<PairedHost>& hosts, std::size_t of) {
  for (std::size_t i = 1; i < hosts.size(); ++i) {
    const PairedHost& other = hosts[(of + i) % hosts.size()];
    if (other.domain != hosts[of].domain) {
      return other;
    }
  }
  return hosts[(of + 1) % hosts.size()];
}

}  // namespace

FailureDomains parse_failure_domains(const std::string& text, const std::string& name) {
  FailureDomains domains;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host;
    std::string domain;
    std::string more;
    if (!(words >> host)) {
      continue;
    }
    if (!(words >> domain) || words >> more) {
      throw ConfigError(
          fmt::format("{}, line {}: a host and its failure domain are expected, as in `node17 rack3`", name, number));
    }
    domains[host] = domain;
  }
  return domains;
}

std::vector<int> choose_partners(const std::vector<std::string>& hosts, const FailureDomains& domains) {
  const std::vector<PairedHost> groups = group_by_host(hosts, domains);
  std::vector<int> partners(hosts.size(), -1);
  if (groups.size() < 2) {
    return partners;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::vector<int>& others = partner_host(groups, i).ranks;
    for (std::size_t k = 0; k < groups[i].ranks.size(); ++k) {
      partners[static_cast<std::size_t>(groups[i].ranks[k])] = others[k % others.size()];
    }
  }
  return partners;
}

namespace {

enum Tag : int { kOffer = 1, kAccept, kPiece, kCommitRecord, kCommitted };

constexpr std::size_t kTransferPiece = std::size_t{1} << 20U;
/// The share of the time that the program may lose.
constexpr double kShare = 0.04;
/// The share of that for a partner that comes to the same boundary a little later, and the longest wait for it. Without
/// a wait each of the messages that an offer needs takes a whole step.
constexpr double kShareOfWaiting = 0.25;
constexpr std::chrono::duration<double> kLongestWait{0.02};
/// About how long a piece takes, copied from one process to another.
constexpr double kSecondsForPiece = 250e-6;
constexpr std::size_t kMostOnTheWay = 256;

void start_send(const void* bytes, std::size_t size, int to, Tag tag, MPI_Comm comm, MPI_Request& request) {
  cluster::check_mpi(MPI_Isend(bytes, static_cast<int>(size), MPI_BYTE, to, tag, comm, &request), "MPI_Isend");
}

void start_receive(void* bytes, std::size_t size, int from, Tag tag, MPI_Comm comm, MPI_Request& request) {
  cluster::check_mpi(MPI_Irecv(bytes, static_cast<int>(size), MPI_BYTE, from, tag, comm, &request), "MPI_Irecv");
}

bool is_over(MPI_Request& request) {
  int flag = 0;
  cluster::check_mpi(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
  return flag != 0;
}

/// Of this thread: the time in which other processes had its core was not lost to the transfer.
std::chrono::nanoseconds cpu_time() {
  timespec time{};
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Until the process ends, and longer than anything that is destroyed then.
void keep_for_ever(std::shared_ptr<void> memory) {
  static auto* const kept = new std::vector<std::shared_ptr<void>>();
  kept->push_back(std::move(memory));
}

}  // namespace

LocalTransfer::LocalTransfer(cluster::Communicator& comm, const core::Directory& directory, std::string launch,
                             const std::vector<int>& partners)
    : comm_(comm.handle(), comm.timeout()),
      directory_(directory),
      launch_(std::move(launch)),
      partner_(partners.at(static_cast<std::size_t>(comm.rank()))) {
  for (std::size_t rank = 0; rank < partners.size(); ++rank) {
    if (partners[rank] == comm.rank()) {
      kept_.push_back(static_cast<int>(rank));
      incoming_.push_back(std::make_unique<Incoming>());
      incoming_.back()->from = kept_.back();
    }
  }
}

/// What is on its way keeps its memory for ever: MPI may still write there.
LocalTransfer::~LocalTransfer() {
  if (done()) {
    return;
  }
  try {
    keep_for_ever(std::shared_ptr<void>(std::move(outgoing_)));
    for (auto& incoming : incoming_) {
      keep_for_ever(std::shared_ptr<void>(std::move(incoming)));
    }
  } catch (const std::bad_alloc&) {
    static_cast<void>(outgoing_.release());
    for (auto& incoming : incoming_) {
      static_cast<void>(incoming.release());
    }
  }
}

void LocalTransfer::begin() {
  outgoing_->state = Sending::waiting;
  for (auto& incoming : incoming_) {
    incoming->state = Receiving::waiting;
    start_receive(incoming->offer.data(), sizeof(LocalMessage), incoming->from, kOffer, comm_.handle(),
                  incoming->request);
  }
  last_end_ = not_before_ = Clock::now();
}

void LocalTransfer::send(std::shared_ptr<storage::PartSlot> part, int slot) {
  outgoing_->part = std::move(part);
  outgoing_->file = outgoing_->part ? outgoing_->part->whole() : std::span<std::byte>();
  outgoing_->offer = {outgoing_->file.size(), static_cast<std::uint64_t>(slot)};
  start_receive(outgoing_->answer.data(), sizeof(LocalMessage), partner_, kAccept, comm_.handle(), outgoing_->request);
  MPI_Request offering = MPI_REQUEST_NULL;
  start_send(outgoing_->offer.data(), sizeof(LocalMessage), partner_, kOffer, comm_.handle(), offering);
  cluster::check_mpi(MPI_Request_free(&offering), "MPI_Request_free");  // the answer says that it has come
  outgoing_->state = Sending::offered;
}

bool LocalTransfer::done() const noexcept {
  const bool sends = outgoing_->state == Sending::waiting || outgoing_->state == Sending::offered ||
                     outgoing_->state == Sending::moving || outgoing_->state == Sending::committing;
  return !sends && std::ranges::all_of(incoming_, [](const auto& incoming) {
    return incoming->state == Receiving::idle && incoming->answering == MPI_REQUEST_NULL;
  });
}

void LocalTransfer::advance() {
  const auto start = Clock::now();
  if (start < not_before_) {
    return;
  }
  const auto allowed = std::chrono::duration<double>(start - last_end_) * kShare;
  window_ = std::clamp(static_cast<std::size_t>(allowed.count() / kSecondsForPiece), std::size_t{2}, kMostOnTheWay);
  const auto patience = std::min(allowed * kShareOfWaiting, kLongestWait);
  const auto used = cpu_time();
  auto now = start;
  auto moved_at = start;
  while (!done() && now - start < allowed && now - moved_at <= patience) {
    if (progress()) {
      moved_at = now;
    } else {
      std::this_thread::yield();
    }
    now = Clock::now();
  }
  last_end_ = Clock::now();
  not_before_ = last_end_ + std::chrono::duration_cast<Clock::duration>((cpu_time() - used) * (1 / kShare - 1));
}

bool LocalTransfer::progress() {
  bool moved = move_outgoing();
  for (auto& incoming : incoming_) {
    moved = move_incoming(*incoming) || moved;
  }
  return moved;
}

/// Whether anything has changed.
bool LocalTransfer::move(Pieces& pieces, int peer, bool sends) {
  bool moved = false;
  while (!pieces.requests.empty() && is_over(pieces.requests.front())) {
    pieces.requests.pop_front();
    moved = true;
  }
  while (pieces.next < pieces.size && pieces.requests.size() < window_) {
    const std::size_t size = std::min(kTransferPiece, pieces.size - pieces.next);
    std::byte* const bytes = pieces.bytes + pieces.next;
    MPI_Request& request = pieces.requests.emplace_back(MPI_REQUEST_NULL);
    if (sends) {
      start_send(bytes, size, peer, kPiece, comm_.handle(), request);
    } else {
      start_receive(bytes, size, peer, kPiece, comm_.handle(), request);
    }
    pieces.next += size;
    moved = true;
  }
  return moved;
}

bool LocalTransfer::move_outgoing() {
  Outgoing& out = *outgoing_;
  const auto is_through = [](const Pieces& pieces) { return pieces.next == pieces.size && pieces.requests.empty(); };
  switch (out.state) {
    case Sending::offered:
      if (!is_over(out.request)) {
        return false;
      }
      if (out.answer[0] == 0) {
        out.state = out.part ? Sending::refused : Sending::failed;
        return true;
      }
      out.pieces = {out.file.data() + storage::kPartDataOffset, out.file.size() - storage::kPartDataOffset, 0, {}};
      out.state = Sending::moving;
      return true;
    case Sending::moving: {
      const bool moved = move(out.pieces, partner_, true);
      if (is_through(out.pieces)) {
        start_receive(out.answer.data(), sizeof(LocalMessage), partner_, kCommitted, comm_.handle(), out.request);
        MPI_Request committing = MPI_REQUEST_NULL;
        start_send(out.file.data(), storage::kPartDataOffset, partner_, kCommitRecord, comm_.handle(), committing);
        out.pieces.requests.push_back(committing);
        out.state = Sending::committing;
      }
      return moved;
    }
    case Sending::committing:
      if (!is_over(out.request)) {
        return false;
      }
      cluster::check_mpi(MPI_Wait(&out.pieces.requests.front(), MPI_STATUS_IGNORE), "MPI_Wait");  // it has come
      out.state = out.answer[0] != 0 ? Sending::committed : Sending::refused;
      out.part.reset();
      out.file = {};
      return true;
    default:
      return false;
  }
}

/// Step 2.
void LocalTransfer::take_offer(Incoming& incoming) {
  const auto& [size, slot] = incoming.offer;
  if (size == 0) {
    answer(incoming, false);
    return;
  }
  try {
    auto& part = incoming.slots.at(static_cast<std::size_t>(slot));
    if (!part) {
      part.emplace(directory_, NodeDirectory::partner_part_name(launch_, incoming.from, static_cast<int>(slot)));
    }
    part->begin_receiving(static_cast<std::size_t>(size));
    incoming.commit_record.resize(storage::kPartDataOffset);
    incoming.target = &*part;
    incoming.pieces = {part->received().data(), part->received().size(), 0, {}};
    answer(incoming, true);
  } catch (const std::exception& error) {
    core::log::debug("the part of rank {} is not taken: {}", incoming.from, error.what());
    answer(incoming, false);
  }
}

void LocalTransfer::answer(Incoming& incoming, bool accepted) {
  incoming.answer = {accepted ? 1U : 0U, 0};
  start_send(incoming.answer.data(), sizeof(LocalMessage), incoming.from, kAccept, comm_.handle(), incoming.answering);
  incoming.state = accepted ? Receiving::moving : Receiving::idle;
}

bool LocalTransfer::move_incoming(Incoming& incoming) {
  if (incoming.answering != MPI_REQUEST_NULL && !is_over(incoming.answering)) {
    return false;
  }
  switch (incoming.state) {
    case Receiving::waiting:
      if (!is_over(incoming.request)) {
        return false;
      }
      take_offer(incoming);
      return true;
    case Receiving::moving: {
      const bool moved = move(incoming.pieces, incoming.from, false);
      if (incoming.pieces.next == incoming.pieces.size && incoming.pieces.requests.empty()) {
        start_receive(incoming.commit_record.data(), incoming.commit_record.size(), incoming.from, kCommitRecord,
                      comm_.handle(), incoming.request);
        incoming.state = Receiving::committing;
      }
      return moved;
    }
    case Receiving::committing:
      if (!is_over(incoming.request)) {
        return false;
      }
      incoming.answer = {1, 0};
      try {
        incoming.target->commit_received(incoming.commit_record);
      } catch (const Error& error) {
        core::log::debug("the part of rank {} is not committed: {}", incoming.from, error.what());
        incoming.answer = {0, 0};
      }
      start_send(incoming.answer.data(), sizeof(LocalMessage), incoming.from, kCommitted, comm_.handle(),
                 incoming.answering);
      incoming.state = Receiving::idle;
      return true;
    default:
      return false;
  }
}

bool LocalTransfer::wait(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  window_ = kMostOnTheWay;
  while (!done() && Clock::now() < end) {
    if (!progress()) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  return done();
}

}  // namespace reprieve::manager
