// SPDX-License-Identifier: BSD-3-Clause
// Entry checks: how every operation of a communicator begins, and how ranks learn of each other's failures. Nothing in
// here needs memory, but for the text of an error; where there is none for that, the text is shorter.
//
// The first one comes when there is no communicator of our own yet. Ranks must not wait for ever for a rank that never
// comes, and the error must name it. Our own messages must not get into the receives of the program. So each rank
// reports to rank 0 by a collective call that does not block. Rank 0 answers each of them: continue, or who is missing.
// The entries of missing ranks in the gather are still empty. MPI promises nothing of them before it is complete, but
// writes nothing else there. Where an MPI gathers by a tree (MPICH), the ranks behind a missing one look as if they
// were missing too.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long an answer of rank 0 may be under way.
constexpr milliseconds kAnswerTime{2000};
constexpr int kNamedRanks = 6;

/// What a rank sends; 0 where nothing has arrived.
enum : int { kHere = 1, kWithoutMemory = 2 };

/// What rank 0 answers: as many words on each rank.
struct Answer {
  int without_memory = 0;  ///< 1 + the lowest such rank
  int missing = 0;
  std::array<int, kNamedRanks> names{};  ///< the first of the missing ones
};
constexpr int kAnswerInts = sizeof(Answer) / sizeof(int);
static_assert(sizeof(Answer) == sizeof(int) * (2 + kNamedRanks));

struct Free {
  void operator()(void* memory) const noexcept { std::free(memory); }  // NOLINT(cppcoreguidelines-no-malloc)
};

/// Zeros. Not by `new`: a rank whose memory for objects has ended can still take part.
template <class T>
std::unique_ptr<T[], Free> zeros(int count) {
  std::unique_ptr<T[], Free> memory(
      static_cast<T*>(std::calloc(static_cast<std::size_t>(count), sizeof(T))));  // NOLINT(cppcoreguidelines-no-malloc)
  return memory ? std::move(memory) : throw std::bad_alloc();
}

/// What MPI reads and writes. It may continue with that after the entry check was left, so it is given back only when
/// all is complete.
class Memory {
 public:
  explicit Memory(int size) : answers_(zeros<Answer>(size + 1)), entries_(zeros<int>(size + 1)) {}
  ~Memory() {
    if (!is_complete_) {
      static_cast<void>(answers_.release());
      static_cast<void>(entries_.release());
    }
  }  // NOLINT(clang-analyzer-unix.Malloc): MPI may write there still
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] int* mine() const noexcept { return entries_.get(); }
  [[nodiscard]] int* entries() const noexcept { return entries_.get() + 1; }
  [[nodiscard]] Answer* received() const noexcept { return answers_.get(); }
  [[nodiscard]] Answer* answers() const noexcept { return answers_.get() + 1; }

  void all_is_complete() noexcept { is_complete_ = true; }

 private:
  std::unique_ptr<Answer[], Free> answers_;  ///< to each rank, behind the one that this rank gets
  std::unique_ptr<int[], Free> entries_;     ///< by each rank, behind what this rank sends
  bool is_complete_ = false;
};

/// False if the requests are not complete after @p limit.
bool complete(MPI_Comm parent, std::span<MPI_Request> requests, milliseconds limit) {
  const auto start = Clock::now();
  for (;;) {
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    const auto waited = Clock::now() - start;
    if (done != 0 || waited >= limit) {
      return done != 0;
    }
    if (has_lost_ranks(parent)) {
      throw UnresponsiveError(fmt::format("{}: ranks have died", "start"), lost_ranks(parent));
    }
    pause(waited);
  }
}

Answer answer_to(const int* entries, int size) {
  Answer answer;
  for (int rank = 0; rank < size; ++rank) {
    if (entries[rank] == 0) {
      if (answer.missing < kNamedRanks) {
        answer.names.at(static_cast<std::size_t>(answer.missing)) = rank;
      }
      ++answer.missing;
    } else if (entries[rank] == kWithoutMemory && answer.without_memory == 0) {
      answer.without_memory = 1 + rank;
    }
  }
  return answer;
}

[[noreturn]] void report_no_memory(int origin) {
  try {
    throw Error(ErrorCode::no_memory, fmt::format("rank {} ran out of memory for a communicator", origin), origin);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::no_memory, {}, origin);  // an empty text needs none
  }
}

[[noreturn]] void report_late(int rank) {
  throw UnresponsiveError(fmt::format("start: the other ranks had stopped waiting when rank {} came", rank), {}, rank);
}

[[noreturn]] void report_missing(const Answer& answer, int rank, milliseconds timeout) {
  const auto named = std::min(answer.missing, kNamedRanks);
  std::vector<int> missing(answer.names.begin(), answer.names.begin() + named);
  if (std::find(missing.begin(), missing.end(), rank) != missing.end()) {
    report_late(rank);
  }
  std::string names;
  for (const int each : missing) {
    names += fmt::format("{}rank {}", names.empty() ? "" : ", ", each);
  }
  if (answer.missing > named) {
    names += fmt::format(" and {} others", answer.missing - named);
  }
  throw UnresponsiveError(
      fmt::format("start: no answer within {} from {}: all ranks of the communicator have to open it together",
                  core::seconds_text(std::chrono::duration<double>(timeout).count()), names),
      missing, rank);
}

/// Rank 0: receives from the others, and answers. @returns its answer
Answer receive_from_all(MPI_Comm parent, int size, Memory& memory, milliseconds timeout) {
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  check_mpi(MPI_Igather(memory.mine(), 1, MPI_INT, memory.entries(), 1, MPI_INT, 0, parent, requests.data()),
            "MPI_Igather");
  static_cast<void>(complete(parent, {requests.data(), 1}, timeout));
  const Answer answer = answer_to(memory.entries(), size);
  std::fill_n(memory.answers(), size, answer);
  check_mpi(MPI_Iscatter(memory.answers(), kAnswerInts, MPI_INT, memory.received(), kAnswerInts, MPI_INT, 0, parent,
                         &requests[1]),
            "MPI_Iscatter");
  if (complete(parent, requests, kAnswerTime)) {
    memory.all_is_complete();
  }
  return answer;
}

/// The others. @returns the answer of rank 0
Answer send_to_rank_0(MPI_Comm parent, Memory& memory, milliseconds timeout) {
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  check_mpi(MPI_Igather(memory.mine(), 1, MPI_INT, nullptr, 0, MPI_INT, 0, parent, requests.data()), "MPI_Igather");
  check_mpi(MPI_Iscatter(nullptr, 0, MPI_INT, memory.received(), kAnswerInts, MPI_INT, 0, parent, &requests[1]),
            "MPI_Iscatter");
  Answer answer;
  if (!complete(parent, {&requests[1], 1}, 2 * timeout + kAnswerTime)) {
    answer.missing = 1;  // rank 0
    return answer;
  }
  answer = *memory.received();
  if (complete(parent, {requests.data(), 1}, answer.missing > 0 ? milliseconds(0) : kAnswerTime)) {
    memory.all_is_complete();
  }
  return answer;
}

/// True if there was memory for it.
bool append_if_possible(std::string& text, const char* more, std::size_t size) noexcept {
  try {
    text.append(more, size);
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void check_first_entry(MPI_Comm parent, bool has_memory, milliseconds timeout) {
  int rank = 0;
  int size = 0;
  check_mpi(MPI_Comm_rank(parent, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(parent, &size), "MPI_Comm_size");
  Memory memory(rank == 0 ? size : 1);
  *memory.mine() = has_memory ? kHere : kWithoutMemory;
  const Answer answer =
      rank == 0 ? receive_from_all(parent, size, memory, timeout) : send_to_rank_0(parent, memory, timeout);
  if (answer.missing > 0) {
    report_missing(answer, rank, timeout);
  }
  // A rank 0 that comes late still receives what ranks sent before they gave up.
  MPI_Request confirmation = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(parent, &confirmation), "MPI_Ibarrier");
  if (!complete(parent, {&confirmation, 1}, timeout)) {
    report_late(rank);
  }
  if (answer.without_memory > 0) {
    report_no_memory(answer.without_memory - 1);
  }
}

Communicator::Entered Communicator::check_entry_for(Kind kind, std::int64_t value, const core::Failure* mine,
                                                    std::string_view what) {
  check_usable(what);
  Prepared& p = *prepared_;
  // The lowest failing rank has the greatest mark.
  p.mine[Prepared::kFailing] = mine != nullptr ? size_ - rank_ : 0;
  p.mine[Prepared::kKind] = static_cast<std::int64_t>(kind);
  p.mine[Prepared::kNegatedKind] = -static_cast<std::int64_t>(kind);
  p.mine[Prepared::kValue] = value;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(p.mine.data(), p.all.data(), Prepared::kSlots, MPI_INT64_T, MPI_MAX, comm_, &request),
            "MPI_Iallreduce");
  wait(request, what);
  Entered entered;
  entered.failing_rank = p.all[Prepared::kFailing] == 0 ? -1 : size_ - static_cast<int>(p.all[Prepared::kFailing]);
  entered.all_of_kind = p.all[Prepared::kKind] == -p.all[Prepared::kNegatedKind];
  entered.value = p.all[Prepared::kValue];
  return entered;
}

std::int64_t Communicator::check_entry(Kind kind, std::int64_t value, const core::Outcome& mine,
                                       std::string_view what) {
  const core::Failure* failure = mine ? &*mine : nullptr;
  const Entered entered = check_entry_for(kind, value, failure, what);
  if (entered.failing_rank >= 0) {
    throw_received(receive_failure(entered.failing_rank, failure, what));
  }
  if (!entered.all_of_kind) {
    throw Error(ErrorCode::internal, "the ranks are in different operations; this one is in " + std::string(what));
  }
  return entered.value;
}

void Communicator::write_note(const core::Failure& mine, std::string_view what) noexcept {
  Prepared::Note& note = prepared_->note;
  note.code = static_cast<std::int32_t>(mine.code);
  note.origin_rank = mine.origin_rank < 0 ? rank_ : mine.origin_rank;
  note.asked_bytes = mine.asked_bytes;
  note.text_size = mine.message.size();
  if (mine.code != ErrorCode::no_memory || mine.origin_rank >= 0) {
    std::memcpy(note.text.data(), mine.message.data(), std::min(mine.message.size(), note.text.size()));
    return;
  }
  const int what_size = static_cast<int>(std::min<std::size_t>(what.size(), 500));
  int size = std::snprintf(note.text.data(), note.text.size(), "%.*s: rank %d on host %.200s ran out of memory",
                           what_size, what.data(), rank_, host().c_str());
  if (mine.asked_bytes > 0 && size > 0) {
    const auto end = static_cast<std::size_t>(size);
    size += std::snprintf(note.text.data() + end, note.text.size() - end, ": it asked for %llu bytes",
                          static_cast<unsigned long long>(mine.asked_bytes));
  }
  note.text_size = static_cast<std::uint64_t>(std::max(size, 0));
}

core::Failure Communicator::receive_failure(int origin, const core::Failure* mine, std::string_view what) {
  Prepared::Note& note = prepared_->note;
  const bool is_mine = rank_ == origin && mine != nullptr;
  if (is_mine) {
    write_note(*mine, what);
  }
  const auto spread = [&](void* bytes, std::size_t size) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(bytes, static_cast<int>(size), MPI_BYTE, origin, comm_, &request), "MPI_Ibcast");
    wait(request, what);
  };
  spread(&note, sizeof note);
  core::Failure received{static_cast<ErrorCode>(note.code), {}, note.origin_rank, note.asked_bytes};
  bool has_room = true;
  for (std::uint64_t done = 0; done < note.text_size; done += note.text.size()) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(note.text_size - done, note.text.size()));
    if (done > 0) {
      if (is_mine) {
        std::memcpy(note.text.data(), mine->message.data() + done, size);
      }
      spread(note.text.data(), size);
    }
    has_room = has_room && append_if_possible(received.message, note.text.data(), size);
  }
  return received;
}

void Communicator::throw_received(const core::Failure& failure) const {
  try {
    throw_error(failure.code, failure.message, failure.origin_rank);
  } catch (const std::bad_alloc&) {
    std::rethrow_exception(no_memory_for_text_);
  }
}

/// Ranks that are still inside the operation get the failure in their next entry check, leave the operation with an
/// error, and come here. So this continues until all are here.
void Communicator::end_together(core::Outcome mine, std::string_view what) {
  for (;;) {
    const Entered entered = check_entry_for(Kind::end, 0, mine ? &*mine : nullptr, what);
    std::optional<core::Failure> received;
    if (entered.failing_rank >= 0) {
      received = receive_failure(entered.failing_rank, mine ? &*mine : nullptr, what);
    }
    if (entered.all_of_kind) {
      if (received) {
        throw_received(*received);
      }
      return;
    }
    if (!mine) {
      mine = received ? std::move(received)
                      : core::Failure{ErrorCode::internal, "ranks left an operation while others were still in it"};
    }
  }
}

void Communicator::barrier(std::string_view what) { check_entry(Kind::barrier, 0, {}, what); }

std::int64_t Communicator::max(std::int64_t value, std::string_view what) {
  return check_entry(Kind::max, value, {}, what);
}

/// The greatest complement is that of the smallest digest.
Communicator::DigestComparison Communicator::compare(std::uint64_t digest, std::int64_t value, std::string_view what) {
  Prepared& p = *prepared_;
  p.mine[Prepared::kDigest] = static_cast<std::int64_t>(digest);
  p.mine[Prepared::kDigestComplement] = ~p.mine[Prepared::kDigest];
  const std::int64_t greatest = check_entry(Kind::compare, value, {}, what);
  return {p.all[Prepared::kDigest] == ~p.all[Prepared::kDigestComplement], greatest};
}

void Communicator::agree(const core::Outcome& mine, std::string_view what) { check_entry(Kind::agree, 0, mine, what); }

}  // namespace reprieve::cluster
