// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/round_thread.hpp"

#include <new>
#include <vector>

#include "core/log.hpp"
#include "core/threads.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

namespace {

/// The interval between two polls of a round under way.
constexpr std::chrono::microseconds kRoundPoll{50};

/// A main thread that a round holds looks without a pause at first: most rounds take less.
constexpr std::chrono::microseconds kPollWithoutPause{300};

/// With the shortest steps, main threads check at least after so many of them.
constexpr std::int64_t kLongestGlanceStride = 1024;

constexpr const char* kWhat = "agreement on the next check";

constexpr int kWakeTag = 2;

/// Flat enough for a thousand ranks in four levels; each rank has messages with at most so many and one.
constexpr int kChildren = 8;

/// Polls between two checks for ranks that have given up: these wait for two seconds.
constexpr std::int64_t kPollsPerPresenceCheck = 50;

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

RoundThread::RoundThread(RoundChannel& channel, RoundOptions options, std::function<bool()> has_news)
    : channel_(channel), options_(options), has_news_(std::move(has_news)) {}

RoundThread::~RoundThread() { abandon(); }

// ---------------------------------------------------------------------------------------------------------------------
// The main thread.

void RoundThread::start() {
  const core::SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

void RoundThread::resume() {
  {
    const std::lock_guard lock(mutex_);
    resting_ = false;
  }
  changed_.notify_all();
}

void RoundThread::rest(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (resting_ || abandoned_) {
    return;
  }
  closing_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, limit, [this] { return resting_ || failure_; });
  if (resting_) {
    return;
  }
  if (!failure_) {
    failure_ =
        std::make_exception_ptr(UnresponsiveError("not all ranks came to the end of the agreement by threads", {}));
  }
  const std::exception_ptr failure = failure_;
  lock.unlock();
  abandon();
  std::rethrow_exception(failure);
}

void RoundThread::abandon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    phase_ = Phase::broken;
    gate_.close();
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

BoundaryIndex RoundThread::next_check() {
  const auto start = Clock::now();
  for (;;) {
    drive(std::unique_lock(channel_mutex_));
    std::unique_lock lock(mutex_);
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    if (abandoned_) {
      throw UnresponsiveError(fmt::format("{}: the agreement by threads has ended", kWhat), {});
    }
    if (phase_ != Phase::running) {
      return phase_ == Phase::decided ? check_at_ : kNever;
    }
    if (Clock::now() - start > kPollWithoutPause) {
      changed_.wait_for(lock, kRoundPoll);
    }
  }
}

/// As often as the options say, whatever the steps take; with steps that are longer, at every boundary.
void RoundThread::glance() {
  const auto now = Clock::now();
  const auto since = std::max<Clock::duration>(now - glanced_at_, std::chrono::microseconds(1));
  const auto fitting = static_cast<std::int64_t>(static_cast<double>(glance_stride_) *
                                                 std::chrono::duration<double>(options_.glance_interval) / since);
  glance_stride_ = std::clamp<std::int64_t>(fitting, 1, std::min(2 * glance_stride_, kLongestGlanceStride));
  boundaries_until_glance_ = glance_stride_;
  glanced_at_ = now;
  drive(std::unique_lock(channel_mutex_, std::try_to_lock));
}

void RoundThread::exchanged(BoundaryIndex index) {
  const std::lock_guard lock(mutex_);
  requested_ = has_notice_ = false;
  pause_ended_ = true;
  alarm_.reset();
  if (phase_ == Phase::decided && index >= check_at_) {
    phase_ = Phase::idle;
    gate_.open();
    *notice_waits_ = false;
  }
}

void RoundThread::request(bool has_notice) {
  {
    const std::lock_guard lock(mutex_);
    requested_ = true;
    has_notice_ = has_notice_ || has_notice;
  }
  drive(std::unique_lock(channel_mutex_));
}

void RoundThread::set_alarm(std::optional<Clock::time_point> time) {
  const std::lock_guard lock(mutex_);
  alarm_ = time;
}

/// If there is a check to come, the others get the failure there.
void RoundThread::announce_failure(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  failed_ = true;
  requested_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, limit, [this] { return phase_ == Phase::decided || failure_ || resting_ || abandoned_; });
}

void RoundThread::restart_step_clock() {
  const std::lock_guard lock(mutex_);
  pause_ended_ = true;
}

std::chrono::nanoseconds RoundThread::longest_step() const {
  const std::lock_guard lock(mutex_);
  return watch_.longest_until(Clock::now());
}

std::chrono::nanoseconds RoundThread::take_longest_step() {
  const std::lock_guard lock(mutex_);
  return watch_.take_longest();
}

std::chrono::nanoseconds RoundThread::longest_step_of_all() const {
  const std::lock_guard lock(mutex_);
  return std::max(longest_of_all_, watch_.longest());
}

bool RoundThread::broken() const {
  const std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

// ---------------------------------------------------------------------------------------------------------------------
// The thread.

void RoundThread::run() noexcept {
  try {
    while (wait_for_check()) {
      const bool has_news = may_have_news() && ask_for_news();
      drive(std::unique_lock(channel_mutex_, std::try_to_lock), has_news);  // or the main thread has it
    }
  } catch (...) {
    break_down(std::current_exception());
  }
  const std::lock_guard channel_lock(channel_mutex_);
  channel_.leave();
}

/// False if the thread must end.
bool RoundThread::wait_for_check() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return abandoned_ || failure_ || !resting_; });
  if (phase_ == Phase::running) {
    changed_.wait_for(lock, kRoundPoll, [this] { return abandoned_; });
  } else {
    changed_.wait_for(lock, options_.poll_interval, [this] { return abandoned_ || (may_begin() && is_asked()); });
  }
  watch_steps();
  return !abandoned_ && !failure_;
}

/// Without the memory to find out, it is found out a little later.
bool RoundThread::ask_for_news() const {
  try {
    return has_news_();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool RoundThread::may_have_news() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::idle && !closing_;
}

// ---------------------------------------------------------------------------------------------------------------------
// Both.

/// Makes progress once, if the caller has the channel. An error is known before the other thread can have it, and is
/// thrown by `next_check`.
void RoundThread::drive(const std::unique_lock<std::mutex>& channel_lock, bool has_news) noexcept {
  if (!channel_lock) {
    return;
  }
  try {
    progress(has_news);
  } catch (...) {
    break_down(std::current_exception());
  }
}

/// Begins, tests or ends the round that the ranks agree in.
void RoundThread::progress(bool has_news) {
  if (!is_at_work()) {
    return;
  }
  if (!listening_) {
    channel_.listen();
    listening_ = true;
  }
  if (!in_round_) {
    if (!is_occasion(has_news)) {
      return;
    }
    begin_round(has_news);
  }
  RoundVector result{};
  if (channel_.test(result)) {
    end_round(decode(result));
  } else if (in_round_since_.elapsed() >= options_.peer_timeout) {
    channel_.give_up();
  }
}

bool RoundThread::is_at_work() const {
  const std::lock_guard lock(mutex_);
  return !abandoned_ && !failure_ && !resting_;
}

bool RoundThread::is_occasion(bool has_news) {
  {
    const std::lock_guard lock(mutex_);
    if (!may_begin()) {
      return false;
    }
    if (is_asked() || alarm_rings()) {
      return true;
    }
  }
  return has_news || channel_.woken();
}

void RoundThread::watch_steps() {
  if (std::exchange(pause_ended_, false)) {
    watch_.restart(gate_.count(), Clock::now());
  } else {
    watch_.observe(gate_.count(), Clock::now());
  }
}

/// From here on the main thread does not pass the next boundary.
void RoundThread::begin_round(bool has_news) {
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::running;
    mine_ = {++number_, gate_.close() + 1, failed_, closing_, watch_.longest(), has_news || has_notice_};
  }
  in_round_ = true;
  in_round_since_ = core::RunningTime();
  channel_.begin(encode(mine_));
}

/// Where a rank failed nobody need come further than to the next boundary: all will throw there.
void RoundThread::end_round(const RoundResult& check_result) {
  in_round_ = false;
  listening_ = false;
  if (!check_result.numbers_agree) {
    throw Error(ErrorCode::internal, fmt::format("{}: not all ranks are in round {}", kWhat, mine_.number));
  }
  {
    const std::lock_guard lock(mutex_);
    longest_of_all_ = check_result.longest_step;
    *notice_waits_ = check_result.any_notice;
    if (check_result.all_closing) {
      phase_ = Phase::idle;
      gate_.open();
      requested_ = closing_ = closing_is_sent_ = false;
      alarm_.reset();
      resting_ = true;
    } else {
      closing_is_sent_ = mine_.closing;
      check_at_ = check_result.any_failed ? mine_.limit : check_result.limit;
      phase_ = Phase::decided;
    }
  }
  changed_.notify_all();
}

/// The main thread finds out at its next boundary.
void RoundThread::break_down(std::exception_ptr error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(error);
    phase_ = Phase::broken;
    gate_.close();
  }
  changed_.notify_all();
}

struct MpiRoundChannel::Exchange {
  explicit Exchange(std::vector<int> ranks)
      : neighbours(std::move(ranks)),
        received(neighbours.size()),
        requests(2 * neighbours.size() + 1, MPI_REQUEST_NULL) {}

  [[nodiscard]] MPI_Request& receiving(std::size_t neighbour) { return requests[neighbour]; }
  [[nodiscard]] MPI_Request& outgoing(std::size_t neighbour) { return requests[neighbours.size() + neighbour]; }
  [[nodiscard]] MPI_Request& reducing() { return requests.back(); }

  std::vector<int> neighbours;
  std::vector<std::int64_t> received;  ///< numbers of rounds, one from each neighbour
  std::vector<MPI_Request> requests;   ///< in one row, so that one call drives them all: each call may yield the core
  bool woken = false;
  std::int64_t polls = 0;
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
    check_mpi(MPI_Irecv(&e.received[i], 1, MPI_INT64_T, e.neighbours[i], kWakeTag, comm_.handle(), &e.receiving(i)),
              "MPI_Irecv");
  }
}

/// A neighbour's message completes its request, which is null from then on. Open MPI checks the requests before it
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
    check_mpi(MPI_Isend(e.mine.data(), 1, MPI_INT64_T, e.neighbours[i], kWakeTag, comm_.handle(), &e.outgoing(i)),
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
  if (std::any_of(e.received.begin(), e.received.end(), [&](std::int64_t number) { return number != e.mine[0]; })) {
    throw Error(ErrorCode::internal, "a message of another round of the agreement by threads");
  }
  result = e.result;
  return true;
}

bool MpiRoundChannel::others_gave_up() {
  return ++exchange_->polls % kPollsPerPresenceCheck == 0 && comm_.presence_check_seen();
}

void MpiRoundChannel::give_up() {
  const auto waited = std::chrono::steady_clock::now() - began_;
  comm_.report_missing_ranks("agreement on the next check",
                             std::chrono::duration_cast<std::chrono::milliseconds>(waited), comm_.timeout());
}

/// Messages and reductions may still be under way: their memory is left to MPI, and the communicator with it.
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
