// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/mpi_round_channel.hpp"

#include <algorithm>
#include <vector>

#include "core/log.hpp"

namespace reprieve::cluster {

namespace {

constexpr int kWakeTag = 2;

/// Flat enough for a thousand ranks in four levels; each rank tells and hears no more than so many and one.
constexpr int kChildren = 8;

/// Whether ranks have given up is looked at so seldom: they wait for two seconds then.
constexpr std::int64_t kLooksPerPresencePoll = 50;

std::vector<int> neighbours_in_tree(int rank, int size) {
  std::vector<int> neighbours;
  if (rank > 0) {
    neighbours.push_back((rank - 1) / kChildren);
  }
  for (int child = kChildren * rank + 1; child <= kChildren * rank + kChildren && child < size; ++child) {
    neighbours.push_back(child);
  }
  return neighbours;
}

}  // namespace

struct MpiRoundChannel::Exchange {
  explicit Exchange(std::vector<int> ranks)
      : neighbours(std::move(ranks)), heard(neighbours.size()), requests(2 * neighbours.size() + 1, MPI_REQUEST_NULL) {}

  [[nodiscard]] MPI_Request& hearing(std::size_t neighbour) { return requests[neighbour]; }
  [[nodiscard]] MPI_Request& telling(std::size_t neighbour) { return requests[neighbours.size() + neighbour]; }
  [[nodiscard]] MPI_Request& reducing() { return requests.back(); }

  std::vector<int> neighbours;
  std::vector<std::int64_t> heard;    ///< numbers of rounds, one from each neighbour
  std::vector<MPI_Request> requests;  ///< in one row, so that one call drives them all: each call may yield the core
  bool woken = false;
  std::int64_t looks = 0;
  RoundVector mine{};
  RoundVector result{};
};

MpiRoundChannel::MpiRoundChannel(Communicator& comm)
    : comm_(comm), exchange_(std::make_unique<Exchange>(neighbours_in_tree(comm.rank(), comm.size()))) {}

MpiRoundChannel::~MpiRoundChannel() = default;

void MpiRoundChannel::listen() {
  Exchange& e = *exchange_;
  e.woken = false;
  for (std::size_t i = 0; i < e.neighbours.size(); ++i) {
    check_mpi(MPI_Irecv(&e.heard[i], 1, MPI_INT64_T, e.neighbours[i], kWakeTag, comm_.handle(), &e.hearing(i)),
              "MPI_Irecv");
  }
}

/// A neighbour's message completes its request, which is null from then on. Open MPI looks at the requests before it
/// fetches messages, so the second call sees what the first one fetched.
bool MpiRoundChannel::woken() {
  Exchange& e = *exchange_;
  for (int look = 0; look < 2 && !e.woken; ++look) {
    int which = MPI_UNDEFINED;
    int done = 0;
    check_mpi(MPI_Testany(static_cast<int>(e.neighbours.size()), e.requests.data(), &which, &done, MPI_STATUS_IGNORE),
              "MPI_Testany");
    e.woken = done != 0 && which != MPI_UNDEFINED;
  }
  return e.woken || others_gave_up();
}

void MpiRoundChannel::begin(const RoundVector& mine) {
  Exchange& e = *exchange_;
  e.mine = mine;
  began_ = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < e.neighbours.size(); ++i) {
    check_mpi(MPI_Isend(e.mine.data(), 1, MPI_INT64_T, e.neighbours[i], kWakeTag, comm_.handle(), &e.telling(i)),
              "MPI_Isend");
  }
  check_mpi(MPI_Iallreduce(e.mine.data(), e.result.data(), static_cast<int>(e.mine.size()), MPI_INT64_T, MPI_MAX,
                           comm_.handle(), &e.reducing()),
            "MPI_Iallreduce");
}

bool MpiRoundChannel::test(RoundVector& result) {
  Exchange& e = *exchange_;
  int done = 0;
  check_mpi(MPI_Testall(static_cast<int>(e.requests.size()), e.requests.data(), &done, MPI_STATUSES_IGNORE),
            "MPI_Testall");
  if (done == 0) {
    if (others_gave_up()) {
      give_up();
    }
    return false;
  }
  if (std::any_of(e.heard.begin(), e.heard.end(), [&](std::int64_t number) { return number != e.mine[0]; })) {
    throw Error(ErrorCode::internal, "a message of another round of the agreement by threads");
  }
  result = e.result;
  return true;
}

bool MpiRoundChannel::others_gave_up() {
  return ++exchange_->looks % kLooksPerPresencePoll == 0 && comm_.presence_check_seen();
}

void MpiRoundChannel::give_up() {
  const auto waited = std::chrono::steady_clock::now() - began_;
  comm_.report_missing_ranks("agreement on the next check",
                             std::chrono::duration_cast<std::chrono::milliseconds>(waited), comm_.timeout());
}

/// What was not told or reduced may still be: its memory is left to MPI, and the communicator with it.
void MpiRoundChannel::leave() noexcept {
  Exchange& e = *exchange_;
  int finalized = 0;
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) {
    static_cast<void>(exchange_.release());
    return;
  }
  bool is_quiet = true;
  for (std::size_t i = 0; i < e.requests.size(); ++i) {
    if (e.requests[i] != MPI_REQUEST_NULL) {
      is_quiet = i < e.neighbours.size() && MPI_Cancel(&e.requests[i]) == MPI_SUCCESS &&
                 MPI_Wait(&e.requests[i], MPI_STATUS_IGNORE) == MPI_SUCCESS && is_quiet;
    }
  }
  if (!is_quiet) {
    core::log::debug("a round of the agreement was left incomplete");
    static_cast<void>(exchange_.release());
    comm_.leave_mpi();
  }
}

bool any_thread_may_use_mpi() {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  return provided == MPI_THREAD_MULTIPLE;
}

}  // namespace reprieve::cluster
