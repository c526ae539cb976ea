#pragma once

/// @file
/// A private communicator whose every operation is checked and has a time limit.

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/bytes.hpp"
#include "core/fork_guard.hpp"
#include "core/outcome.hpp"

namespace reprieve::cluster {

/// Throws MpiError with MPI's own text unless @p result is MPI_SUCCESS.
void check_mpi(int result, const char* call);

/// Bytes for all ranks, or from all ranks: one part after the other, by rank.
struct Parts {
  Bytes bytes;
  std::vector<std::size_t> sizes;
};

/// A duplicate of a user's communicator.
///
/// All collective members wait at most `timeout()` for the other ranks. Past it, the ranks that are there call the roll
/// with point-to-point messages (MPI collectives cannot tell who is missing), and each throws UnresponsiveError with
/// the names of the missing ranks; a rank that comes later finds the roll call and throws too. After that the
/// communicator is broken and every operation throws at once. `what` names the operation in messages: "save 12:
/// writing".
class Communicator {
 public:
  /// Collective over @p parent.
  explicit Communicator(MPI_Comm parent, std::chrono::milliseconds timeout);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] MPI_Comm handle() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] bool is_chief() const noexcept { return rank_ == 0; }
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  [[nodiscard]] const std::string& host() const noexcept { return hosts_[static_cast<std::size_t>(rank_)]; }
  [[nodiscard]] const std::string& host_of(int rank) const { return hosts_.at(static_cast<std::size_t>(rank)); }

  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept { return timeout_; }
  void set_timeout(std::chrono::milliseconds timeout) noexcept { timeout_ = timeout; }

  /// Where all ranks were last known to be ("step boundary 17"); shown when ranks are missing.
  void set_last_seen(std::string where) { last_seen_ = std::move(where); }

  /// Whether this rank is the lowest of those that share its memory. Collective, without a time limit: MPI has no
  /// other form of it.
  [[nodiscard]] bool is_node_leader() const;

  void barrier(std::string_view what);
  /// @p bytes of @p root replaces that of the others, whatever its size.
  void broadcast(Bytes& bytes, int root, std::string_view what);
  /// All ranks' bytes on the chief, by rank; empty on the others.
  std::vector<Bytes> gather(std::span<const std::byte> mine, std::string_view what);
  /// The chief's element r goes to rank r; the others pass nothing.
  Bytes scatter(const std::vector<Bytes>& parts, std::string_view what);
  /// Each rank's parts for all of them against theirs for this one. What is in @p theirs is replaced; its memory, like
  /// that of @p mine, serves again in the next exchange.
  void exchange(Parts& mine, Parts& theirs, std::string_view what);
  std::int64_t max(std::int64_t value, std::string_view what);
  std::int64_t sum(std::int64_t value, std::string_view what);

  /// If any rank has a failure, throws that of the lowest such rank, on every rank, with that rank as the origin.
  void agree(const core::Outcome& mine, std::string_view what);

  /// Runs @p operation on the chief alone, then agrees.
  template <class Operation>
  void on_chief(Operation&& operation, std::string_view what) {
    agree(is_chief() ? core::capture(std::forward<Operation>(operation)) : core::Outcome{}, what);
  }

  /// Completes @p request, or throws UnresponsiveError after @p limit.
  void wait(MPI_Request& request, std::string_view what, std::chrono::milliseconds limit);
  void wait(MPI_Request& request, std::string_view what) { wait(request, what, timeout_); }

  /// Throws if ranks were missing before (UnresponsiveError), or in a forked child (UsageError).
  void check_usable(std::string_view what) const;

 private:
  void exchange_hosts();
  std::int64_t reduce(std::int64_t value, MPI_Op operation, std::string_view what);
  [[nodiscard]] bool roll_call_seen() const;
  [[noreturn]] void call_the_roll(std::string_view what, std::chrono::milliseconds waited);

  core::OwnerProcess owner_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool broken_ = false;
  std::chrono::milliseconds timeout_;
  std::vector<std::string> hosts_;
  std::string last_seen_;
};

}  // namespace reprieve::cluster
