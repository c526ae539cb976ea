// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A private communicator whose every operation is checked and has a time limit.
///
/// Every operation begins with an entry check: one small reduction, in memory that was taken when the communicator was
/// made. In it each rank says what it came for, and whether it has failed. So a rank that ran out of memory, or failed
/// in any other way, can take part in whatever the others do next: it says so in their entry check, and all ranks throw
/// its error. `together` makes use of that for all that lies between two operations. Data are sent after an entry check
/// in which all ranks said that they have the memory for them, in pieces, so that there is no limit on their size.

#include <mpi.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cluster/lost_ranks.hpp"
#include "core/error.hpp"
#include "core/message.hpp"
#include "core/process.hpp"
#include "core/values.hpp"

namespace reprieve::cluster {

using core::Bytes;
using core::to_bytes;
using core::to_text;

/// Throws MpiError with MPI's own text unless @p result is MPI_SUCCESS; UnresponsiveError if ranks have died.
void check_mpi(int result, const char* call);

/// Bytes for all ranks, or from all ranks: one part after the other, by rank.
struct Parts {
  Bytes bytes;
  std::vector<std::size_t> sizes;
};

/// Bytes that are the same on all ranks and that no rank changes, in memory that is one for all ranks of a node where
/// that can be. They lie as 64-bit words should, and stay as long as their owner does, also after MPI.
struct CommonBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  bool is_first = true;  ///< of the ranks that read this memory: this one checks whether the bytes are right
};

/// When ranks share memory, and whether they can.
struct Sharing {
  std::size_t least_bytes = std::size_t{1} << 20U;  ///< less is copied to all; the same on all ranks
  bool possible = true;
};

/// A duplicate of a user's communicator.
///
/// All collective members wait at most `timeout()` for the other ranks. Past it, the ranks that are there find the
/// missing ranks with point-to-point messages (MPI collectives cannot report them). Each throws UnresponsiveError with
/// the names of the missing ranks; a rank that comes later finds the presence check and throws too. After that the
/// communicator is broken and every operation throws at once. `what` names the operation in messages: "save 12:
/// writing".
class Communicator {
 public:
  /// The most that is sent in one message.
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 30U;

  /// Collective over @p parent. If a rank has no memory for it, all ranks throw.
  explicit Communicator(MPI_Comm parent, std::chrono::milliseconds timeout);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// The same in memory of its own, for which the ranks agree as well. Collective over @p parent.
  static std::shared_ptr<Communicator> make(MPI_Comm parent, std::chrono::milliseconds timeout);

  [[nodiscard]] MPI_Comm handle() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] bool is_rank_0() const noexcept { return rank_ == 0; }
  /// Ranks were missing, or have died.
  [[nodiscard]] bool broken() const noexcept { return broken_ || has_lost_ranks(comm_); }
  [[nodiscard]] const std::string& host() const noexcept {
    return host_names_[hosts_[static_cast<std::size_t>(rank_)]];
  }
  [[nodiscard]] const std::string& host_of(int rank) const {
    return host_names_[hosts_.at(static_cast<std::size_t>(rank))];
  }

  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept { return timeout_; }
  void set_timeout(std::chrono::milliseconds timeout) noexcept { timeout_ = timeout; }

  /// For tests: the most that is sent in one message, the same on all ranks, at least 1.
  void set_piece_bytes(std::size_t bytes) noexcept { piece_bytes_ = bytes; }

  /// For tests.
  void set_sharing(Sharing sharing) noexcept { sharing_ = sharing; }

  /// Where all ranks were last known to be ("step boundary 17"); shown when ranks are missing.
  void set_last_seen(std::string where) { last_seen_ = std::move(where); }

  /// Whether this rank is the lowest of those that share its memory. Collective; the first time it has no time limit
  /// once all ranks have come: MPI has no other form of it.
  [[nodiscard]] bool is_node_leader();

  void barrier(std::string_view what);
  /// @p bytes of @p root replaces that of the others, whatever its size.
  void broadcast(Bytes& bytes, int root, std::string_view what);
  /// The same for large tables: ranks of one node read one copy. @p root makes the bytes by @p fill; all ranks know
  /// their @p size. The first time it has no time limit once all ranks have come, as `is_node_leader`.
  [[nodiscard]] CommonBytes broadcast_common(std::size_t size, const std::function<void(std::span<std::byte>)>& fill,
                                             int root, std::string_view what);
  /// All ranks' bytes on rank 0, by rank; empty on the others.
  std::vector<Bytes> gather(std::span<const std::byte> mine, std::string_view what);
  /// Rank 0's element r goes to rank r; the others pass nothing.
  Bytes scatter(const std::vector<Bytes>& parts, std::string_view what);
  /// Each rank's parts for all of them against theirs for this one. What is in @p theirs is replaced; its memory, like
  /// that of @p mine, serves again in the next exchange. A rank that failed before says so, and all throw its failure.
  void exchange(Parts& mine, Parts& theirs, std::string_view what, const core::Outcome& failure = {});

  // The same with values of any type that has messages (core/message.hpp).

  /// @p root's value, on every rank.
  template <class T>
  [[nodiscard]] T from_root(const T& mine, int root, std::string_view what) {
    Bytes bytes = rank_ == root ? core::to_message(mine) : Bytes();
    broadcast(bytes, root, what);
    return core::from_message<T>(bytes);
  }
  /// What @p make returns on rank 0, on every rank. If it throws there, all throw.
  template <class Make>
  [[nodiscard]] auto from_rank_0(Make&& make, std::string_view what) -> std::invoke_result_t<Make&> {
    Bytes bytes;
    on_rank_0([&] { bytes = core::to_message(make()); }, what);
    broadcast(bytes, 0, what);
    return core::from_message<std::invoke_result_t<Make&>>(bytes);
  }
  /// All ranks' values on rank 0, by rank; empty on the others. A rank with an empty container sends nothing.
  template <class T>
  [[nodiscard]] std::vector<T> gather_values(const T& mine, std::string_view what) {
    bool is_empty = false;
    if constexpr (requires { mine.empty(); }) {
      is_empty = mine.empty();
    }
    std::vector<T> values;
    for (const Bytes& bytes : gather(is_empty ? Bytes() : core::to_message(mine), what)) {
      values.push_back(bytes.empty() ? T() : core::from_message<T>(bytes));
    }
    return values;
  }

  std::int64_t max(std::int64_t value, std::string_view what);
  /// The result of one reduction of the digests and the values of all ranks.
  struct DigestComparison {
    bool is_equal = true;       ///< the digests are
    std::int64_t greatest = 0;  ///< of the values
  };
  DigestComparison compare(std::uint64_t digest, std::int64_t value, std::string_view what);

  /// If any rank has a failure, throws that of the lowest such rank, on every rank, with that rank as the origin.
  void agree(const core::Outcome& mine, std::string_view what);

  /// Runs @p operation on rank 0 alone, then agrees.
  template <class Operation>
  void on_rank_0(Operation&& operation, std::string_view what) {
    agree(is_rank_0() ? core::capture(std::forward<Operation>(operation)) : core::Outcome{}, what);
  }

  /// Runs @p operation, which may be made of any number of operations of this communicator with anything between them,
  /// and agrees on its outcome: whatever it throws on some rank, and wherever, all ranks throw. A rank that has left it
  /// with an error meets the others in their next operation, whichever that is. Inside of another one it only runs.
  template <class Operation>
  auto together(Operation&& operation, std::string_view what) -> std::invoke_result_t<Operation&> {
    using Result = std::invoke_result_t<Operation&>;
    if (is_together_) {
      return operation();
    }
    check_usable(what);
    if constexpr (std::is_void_v<Result>) {
      end_together(run_together(operation), what);
    } else {
      std::optional<Result> result;
      end_together(run_together([&] { result.emplace(operation()); }), what);
      return std::move(*result);
    }
  }

  /// Completes @p request, or throws UnresponsiveError after @p limit.
  void wait(MPI_Request& request, std::string_view what, std::chrono::milliseconds limit) {
    wait(std::span(&request, 1), what, limit);
  }
  void wait(MPI_Request& request, std::string_view what) { wait(request, what, timeout_); }
  /// The same for all of them.
  void wait(std::span<MPI_Request> requests, std::string_view what, std::chrono::milliseconds limit);

  /// Other ranks have given up, and look who is there; or ranks have died. Not collective.
  [[nodiscard]] bool presence_check_seen() const;
  /// Gives up: finds out which ranks are there, in two seconds. A rank that has waited for less than half of @p limit
  /// is taken for one that came late. @throws UnresponsiveError that names the others, or the last that came
  [[noreturn]] void report_missing_ranks(std::string_view what, std::chrono::milliseconds waited,
                                         std::chrono::milliseconds limit);

  /// MPI is about to end: every later operation throws a UsageError.
  void leave_mpi() noexcept { left_mpi_ = true; }

  /// Throws if ranks were missing before (UnresponsiveError), or in a forked child or after MPI (UsageError).
  void check_usable(std::string_view what) const;

 private:
  enum class Kind : std::int64_t;
  struct Prepared;
  struct Nodes;
  struct CommonMemory;
  /// What all ranks know after an entry check.
  struct Entered {
    int failing_rank = -1;    ///< the lowest one, or -1
    bool all_of_kind = true;  ///< all came for the same
    std::int64_t value = 0;   ///< the greatest of all ranks'
  };
  /// Bytes that go to, or come from, one rank.
  struct Stream {
    int peer = 0;
    std::byte* bytes = nullptr;
    std::size_t size = 0;
    std::size_t done = 0;
  };
  /// One rank's parts for the others, or theirs for it, on their way. They are left to MPI if it fails.
  struct PartBuffers {
    Bytes mine;
    std::vector<Bytes> parts;
    Parts out;
    Parts in;
    std::vector<Stream> sends;
    std::vector<Stream> receives;
    std::vector<MPI_Request> requests;
  };
  explicit Communicator(std::chrono::milliseconds timeout) noexcept : timeout_(timeout) {}

  void connect(MPI_Comm parent);
  void prepare();
  std::vector<int> check_presence();
  [[noreturn]] void report_lost_ranks(std::string_view what);
  [[nodiscard]] std::string name_of(int rank) const;
  void learn_hosts();

  // entry_check.cpp
  Entered check_entry_for(Kind kind, std::int64_t value, const core::Failure* mine, std::string_view what);
  /// The same, and throws if a rank failed.
  std::int64_t check_entry(Kind kind, std::int64_t value, const core::Outcome& mine, std::string_view what);
  /// The failure of rank @p origin, on every rank. Takes no memory but for its message, which is cut if there is none.
  core::Failure receive_failure(int origin, const core::Failure* mine, std::string_view what);
  void write_note(const core::Failure& mine, std::string_view what) noexcept;
  [[noreturn]] void throw_received(const core::Failure& failure) const;
  void end_together(core::Outcome mine, std::string_view what);

  template <class Operation>
  core::Outcome run_together(Operation&& operation) {
    is_together_ = true;
    const struct Left {
      bool& flag;
      ~Left() { flag = false; }
    } left{is_together_};
    // Where MPI itself has failed there is no way to the other ranks.
    std::exception_ptr of_mpi;
    core::Outcome outcome = core::capture([&] {
      try {
        operation();
      } catch (const MpiError&) {
        of_mpi = std::current_exception();
      }
    });
    if (of_mpi) {
      std::rethrow_exception(of_mpi);
    }
    return outcome;
  }

  // collectives.cpp
  /// Sends and receives whole streams, piece by piece. @p buffers  own their memory, and are left to MPI if it fails
  void transfer(std::unique_ptr<PartBuffers>& buffers, std::string_view what);
  [[nodiscard]] std::vector<Stream> streams_of(Parts& parts) const;
  const Nodes& nodes(std::string_view what);
  template <class Send>
  void in_pieces(std::uint64_t total, std::string_view what, Send&& send);
  /// @param root  the rank that has the bytes, @p first_leader the number of its node's leader
  void bring_to_leaders(const Nodes& nodes, CommonMemory& memory, std::uint64_t total, int root, int first_leader,
                        std::string_view what);
  /// False if the ranks of this node have copies of their own.
  bool share_on_node(const Nodes& nodes, CommonMemory& memory, std::uint64_t total, std::string_view what);

  core::OwnerProcess owner_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool broken_ = false;
  bool left_mpi_ = false;
  bool is_together_ = false;
  std::chrono::milliseconds timeout_;
  std::size_t piece_bytes_ = kPieceBytes;
  Sharing sharing_;
  std::vector<std::uint32_t> hosts_;  ///< of each rank, as an index into the names: ranks are many, hosts are few
  std::vector<std::string> host_names_;
  std::string last_seen_;
  std::unique_ptr<Prepared> prepared_;
  std::unique_ptr<Nodes> nodes_;
  std::exception_ptr no_memory_for_text_;  ///< thrown where there is no memory to make an exception with its text
};

// Which ranks of a communicator run on one machine. Internal to it.

/// The ranks that can share memory with this one, and one rank of each such node, its leader. Made once, when it is
/// needed first.
struct Communicator::Nodes {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm leaders = MPI_COMM_NULL;  ///< null on ranks that lead no node
  int rank = 0;                      ///< in the node
  int size = 1;                      ///< of the node
  /// The leader of this rank's node, for MPI to send as it is.
  struct Leader {
    int rank = 0;    ///< in the whole communicator
    int number = 0;  ///< among the leaders
  } leader;

  [[nodiscard]] bool leads() const noexcept { return rank == 0; }
  /// Every rank counts as a node of its own.
  [[nodiscard]] bool is_alone() const noexcept { return node == MPI_COMM_SELF; }
};

// Memory of a communicator that is taken when it is made. Internal to it.

/// What a rank came for. With it, ranks that are in different operations find out.
enum class Communicator::Kind : std::int64_t { agree, barrier, broadcast, gather, exchange, max, compare, end };

struct Communicator::Prepared {
  /// A failure on its way to all ranks. Longer texts follow in parts.
  struct Note {
    std::int32_t code = 0;
    std::int32_t origin_rank = -1;
    std::uint64_t asked_bytes = 0;
    std::uint64_t text_size = 0;
    std::array<char, 1000> text{};
  };
  enum Slot : std::size_t { kFailing, kKind, kNegatedKind, kValue, kDigest, kDigestComplement, kSlots };

  std::array<std::int64_t, kSlots> mine{};
  std::array<std::int64_t, kSlots> all{};
  Note note;
  std::vector<std::uint64_t> sizes_out;  ///< one for each rank
  std::vector<std::uint64_t> sizes_in;
  std::vector<char> hosts;
};

/// The first entry check: all ranks of a program's communicator are there, and have the memory that they need
/// (entry_check.cpp). Collective over @p parent, whose errors come back as codes. Rank 0 waits for @p timeout, the
/// others for twice that time and two seconds, as it may have come late.
/// @throws UnresponsiveError  that names ranks that did not come: the same on all that did
/// @throws Error (no_memory)  on all ranks, if one has none
void check_first_entry(MPI_Comm parent, bool has_memory, std::chrono::milliseconds timeout);

// What a rank does between two checks of something that it waits for.

/// Gives the processor away, the longer the wait the more of it: ranks may share cores.
inline void pause(std::chrono::steady_clock::duration waited) {
  using namespace std::chrono_literals;
  if (waited < 50us) {
    return;
  }
  if (waited < 5ms) {
    sched_yield();
    return;
  }
  const timespec nap{0, waited < 1s ? 50'000 : 500'000};
  nanosleep(&nap, nullptr);  // an early end by a signal only means one more look
}

}  // namespace reprieve::cluster
