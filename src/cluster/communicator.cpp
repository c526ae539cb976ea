// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/communicator.hpp"

#include <algorithm>
#include <map>
#include <new>

#include "core/log.hpp"
#include "core/threads.hpp"
#include "reprieve/error.hpp"
#include "reprieve/version_details.hpp"

namespace reprieve::cluster {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPresenceTag = 1;
/// How long ranks collect each other's answers after one has given up.
constexpr std::chrono::milliseconds kPresenceWindow{2000};
/// How often a waiting rank looks for a presence check.
constexpr std::chrono::milliseconds kPresencePoll{5};

/// While it lives, failures on the program's communicator come back as codes, whatever the program wants for its own.
class ErrorsReturned {
 public:
  explicit ErrorsReturned(MPI_Comm comm) : comm_(comm) {
    check_mpi(MPI_Comm_get_errhandler(comm_, &before_), "MPI_Comm_get_errhandler");
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  ~ErrorsReturned() {
    if (MPI_Comm_set_errhandler(comm_, before_) != MPI_SUCCESS || MPI_Errhandler_free(&before_) != MPI_SUCCESS) {
      core::log::warning("the error handler of the program's communicator could not be set again");
    }
  }
  ErrorsReturned(const ErrorsReturned&) = delete;
  ErrorsReturned& operator=(const ErrorsReturned&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

/// A communicator that ranks can be compared in. @throws UsageError, on this rank
void check_parent(MPI_Comm parent) {
  int initialized = 0;
  int finalized = 0;
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  check_mpi(MPI_Finalized(&finalized), "MPI_Finalized");
  if (initialized == 0 || finalized != 0) {
    throw UsageError(initialized == 0
                         ? "MPI is not initialised: call MPI_Init before this; a session of MPI 4 is not enough"
                         : "MPI is finalised already");
  }
  if (parent == MPI_COMM_NULL) {
    throw UsageError("the communicator is MPI_COMM_NULL: pass that of all ranks that save together");
  }
  int is_intercommunicator = 0;
  check_mpi(MPI_Comm_test_inter(parent, &is_intercommunicator), "MPI_Comm_test_inter");
  if (is_intercommunicator != 0) {
    throw UsageError("the communicator is an intercommunicator: pass that of all ranks that save together");
  }
}

template <class Operation>
bool has_memory_for(Operation&& operation) {
  try {
    operation();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

/// The first line of it: MPICH continues with how it was configured.
std::string running_mpi() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) {
    return "unknown";
  }
  const std::string whole(text.data());  // Open MPI counts the zero at its end in the length
  return whole.substr(0, whole.find_first_of("\r\n"));
}

}  // namespace

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) {
    return;
  }
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(result, text, &length) != MPI_SUCCESS) {
    length = 0;
  }
  if (is_loss(result)) {
    throw UnresponsiveError(fmt::format("{}: ranks have died", call), {});
  }
  throw MpiError(fmt::format("{} failed: {}", call, std::string(text, static_cast<std::size_t>(length))));
}

Communicator::Communicator(MPI_Comm parent, std::chrono::milliseconds timeout) : Communicator(timeout) {
  check_parent(parent);
  connect(parent);
}

std::shared_ptr<Communicator> Communicator::make(MPI_Comm parent, std::chrono::milliseconds timeout) {
  check_parent(parent);
  std::shared_ptr<Communicator> made;
  const bool has_memory = has_memory_for([&] { made.reset(new Communicator(timeout)); });
  const ErrorsReturned returned(parent);
  check_first_entry(parent, has_memory, timeout);
  made->connect(parent);
  return made;
}

void Communicator::connect(MPI_Comm parent) {
  const ErrorsReturned returned(parent);
  check_mpi(MPI_Comm_rank(parent, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(parent, &size_), "MPI_Comm_size");
  check_first_entry(parent, has_memory_for([this] { prepare(); }), timeout_);
  MPI_Comm made = MPI_COMM_NULL;  // after an error it can be anything
  make_communicator([&] { check_mpi(MPI_Comm_dup(parent, &made), "MPI_Comm_dup"); });
  comm_ = made;
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  learn_hosts();
}

/// All that entry checks need.
void Communicator::prepare() {
  const auto ranks = static_cast<std::size_t>(size_);
  hosts_.resize(ranks);
  host_names_.resize(1);
  prepared_ = std::make_unique<Prepared>();
  prepared_->sizes_out.resize(ranks);
  prepared_->sizes_in.resize(ranks);
  prepared_->hosts.resize((ranks + 1) * MPI_MAX_PROCESSOR_NAME);
  no_memory_for_text_ = std::make_exception_ptr(
      Error(ErrorCode::no_memory, fmt::format("rank {} has no memory left, not even for the text of an error", rank_),
            rank_));
}

Communicator::~Communicator() {
  const bool is_broken = broken();
  if (is_broken) {
    static_cast<void>(prepared_.release());  // MPI may still write there
    static_cast<void>(nodes_.release());
  }
  int finalized = 0;
  if (comm_ == MPI_COMM_NULL || is_broken || left_mpi_ || !owner_.is_here() ||
      MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) {
    return;  // freeing a communicator with missing ranks could wait for them
  }
  MPI_Comm none = MPI_COMM_NULL;
  for (MPI_Comm* comm : {nodes_ ? &nodes_->leaders : &none, nodes_ ? &nodes_->node : &none, &comm_}) {
    if (*comm != MPI_COMM_NULL && MPI_Comm_free(comm) != MPI_SUCCESS) {
      core::log::warning("MPI_Comm_free failed");
    }
  }
}

void Communicator::learn_hosts() {
  std::vector<char>& names = prepared_->hosts;  // this rank's, then all ranks'
  char* all = names.data() + MPI_MAX_PROCESSOR_NAME;
  int length = 0;
  check_mpi(MPI_Get_processor_name(names.data(), &length), "MPI_Get_processor_name");
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(names.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, all, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, comm_,
                           &request),
            "MPI_Iallgather");
  wait(request, "start");
  agree(core::capture([&] {
          std::map<std::string_view, std::uint32_t> places;
          std::vector<std::string> found;
          auto hosts = hosts_;  // both change at once: an error names the host of its rank
          for (std::size_t rank = 0; rank < hosts_.size(); ++rank) {
            const std::string_view name = all + rank * MPI_MAX_PROCESSOR_NAME;
            const auto [place, is_new] = places.try_emplace(name, static_cast<std::uint32_t>(found.size()));
            if (is_new) {
              found.emplace_back(name);
            }
            hosts[rank] = place->second;
          }
          host_names_ = std::move(found);
          hosts_ = std::move(hosts);
        }),
        "start");
  std::vector<char>().swap(names);
}

void Communicator::check_usable(std::string_view what) const {
  if (broken_) {
    throw UnresponsiveError(fmt::format("{}: ranks were missing before; the communicator can no longer be used", what),
                            {}, rank_);
  }
  if (!owner_.is_here()) {
    throw UsageError(fmt::format("{}: called in a child that rank {} forked; only the rank itself can", what, rank_));
  }
  if (left_mpi_) {
    throw UsageError(fmt::format("{}: called after MPI_Finalize", what));
  }
}

void Communicator::wait(std::span<MPI_Request> requests, std::string_view what, std::chrono::milliseconds limit) {
  check_usable(what);
  core::RunningTime time;
  Clock::duration next_presence_poll = kPresencePoll;
  for (;;) {
    int done = 0;
    const int result = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    const Clock::duration waited = time.elapsed();
    if (is_loss(result)) {
      report_lost_ranks(what);
    }
    check_mpi(result, "MPI_Testall");
    // Also if it is done: a rank that comes late may still complete, with messages that the others sent before they
    // gave up.
    const bool polls_presence = done != 0 || waited >= next_presence_poll;
    if ((done == 0 && waited >= limit) || (polls_presence && presence_check_seen())) {
      report_missing_ranks(what, std::chrono::duration_cast<std::chrono::milliseconds>(waited), limit);
    }
    if (done != 0) {
      return;
    }
    next_presence_poll = polls_presence ? waited + kPresencePoll : next_presence_poll;
    pause(waited);
  }
}

bool Communicator::presence_check_seen() const {
  int seen = 0;
  if (has_lost_ranks(comm_)) {
    return true;
  }
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kPresenceTag, comm_, &seen, MPI_STATUS_IGNORE), "MPI_Iprobe");
  return seen != 0;
}

/// Reports to all ranks that this one has stopped waiting. @returns the ranks that reported the same meanwhile
std::vector<int> Communicator::check_presence() {
  // Empty messages: nothing that MPI could still touch after this function was left.
  std::vector<MPI_Request> sends(static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) {
      check_mpi(MPI_Isend(nullptr, 0, MPI_BYTE, rank, kPresenceTag, comm_, &sends[static_cast<std::size_t>(rank)]),
                "MPI_Isend");
    }
  }
  std::vector<int> present;
  const auto others = static_cast<std::size_t>(size_) - 1;
  const auto start = Clock::now();
  while (Clock::now() - start < kPresenceWindow && present.size() < others) {
    int seen = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kPresenceTag, comm_, &seen, &status), "MPI_Iprobe");
    if (seen != 0) {
      check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kPresenceTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
      present.push_back(status.MPI_SOURCE);
    } else {
      pause(std::chrono::milliseconds(10));
    }
  }
  return present;
}

void Communicator::report_missing_ranks(std::string_view what, std::chrono::milliseconds waited,
                                        std::chrono::milliseconds limit) {
  if (has_lost_ranks(comm_)) {
    report_lost_ranks(what);
  }
  broken_ = true;
  const std::vector<int> present = check_presence();
  std::vector<int> missing;
  std::vector<std::string> names;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && std::find(present.begin(), present.end(), rank) == present.end()) {
      missing.push_back(rank);
      names.push_back(name_of(rank));
    }
  }
  const std::string last_seen = last_seen_.empty() ? "" : fmt::format("; all ranks were last seen at {}", last_seen_);
  if (!missing.empty()) {
    throw UnresponsiveError(fmt::format("{}: no answer within {} from {}{}", what,
                                        core::seconds_text(std::chrono::duration<double>(waited).count()),
                                        fmt::join(names, ", "), last_seen),
                            missing, rank_);
  }
  if (present.empty() || waited < limit / 2) {
    throw UnresponsiveError(
        fmt::format("{}: the other ranks had stopped waiting when {} came{}", what, name_of(rank_), last_seen), {},
        rank_);
  }
  throw UnresponsiveError(fmt::format("{}: no answer within {} from all ranks; the last to come, too late, was {}{}",
                                      what, core::seconds_text(std::chrono::duration<double>(waited).count()),
                                      name_of(present.back()), last_seen),
                          {}, rank_);
}

/// Others may wait for this rank, which leaves.
void Communicator::report_lost_ranks(std::string_view what) {
  broken_ = true;
  revoke(comm_);
  const std::vector<int> lost = lost_ranks(comm_);
  std::vector<std::string> names(lost.size());
  std::transform(lost.begin(), lost.end(), names.begin(), [this](int rank) { return name_of(rank); });
  throw UnresponsiveError(
      names.empty() ? fmt::format("{}: ranks have died", what)
                    : fmt::format("{}: {} {} died", what, fmt::join(names, ", "), names.size() == 1 ? "has" : "have"),
      lost, rank_);
}

std::string Communicator::name_of(int rank) const { return fmt::format("rank {} ({})", rank, host_of(rank)); }

}  // namespace reprieve::cluster

namespace reprieve {

VersionDetails version_details() {
  VersionDetails details = core::built_details();
  details.mpi = cluster::running_mpi();
  return details;
}

}  // namespace reprieve
