// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/first_meeting.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/communicator.hpp"
#include "cluster/pause.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long an answer of rank 0 may be under way.
constexpr milliseconds kAnswerTime{2000};
constexpr int kNamedRanks = 6;

/// What a rank tells; 0 where nobody has told anything.
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

/// What MPI reads and writes. It may go on with that after the meeting was left, so it is given back only when all is
/// complete.
class Memory {
 public:
  explicit Memory(int size) : answers_(zeros<Answer>(size + 1)), told_(zeros<int>(size + 1)) {}
  ~Memory() {
    if (!is_complete_) {
      static_cast<void>(answers_.release());
      static_cast<void>(told_.release());
    }
  }  // NOLINT(clang-analyzer-unix.Malloc): MPI may write there still
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] int* mine() const noexcept { return told_.get(); }
  [[nodiscard]] int* told() const noexcept { return told_.get() + 1; }
  [[nodiscard]] Answer* received() const noexcept { return answers_.get(); }
  [[nodiscard]] Answer* answers() const noexcept { return answers_.get() + 1; }

  void all_is_complete() noexcept { is_complete_ = true; }

 private:
  std::unique_ptr<Answer[], Free> answers_;  ///< to each rank, behind the one that this rank gets
  std::unique_ptr<int[], Free> told_;        ///< by each rank, behind what this rank tells
  bool is_complete_ = false;
};

/// False if the requests are not complete after @p limit.
bool complete(std::span<MPI_Request> requests, milliseconds limit) {
  const auto start = Clock::now();
  for (;;) {
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    const auto waited = Clock::now() - start;
    if (done != 0 || waited >= limit) {
      return done != 0;
    }
    pause(waited);
  }
}

Answer answer_to(const int* told, int size) {
  Answer answer;
  for (int rank = 0; rank < size; ++rank) {
    if (told[rank] == 0) {
      if (answer.missing < kNamedRanks) {
        answer.names.at(static_cast<std::size_t>(answer.missing)) = rank;
      }
      ++answer.missing;
    } else if (told[rank] == kWithoutMemory && answer.without_memory == 0) {
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
                  core::seconds_text(timeout), names),
      missing, rank);
}

/// Rank 0: hears the others, and answers. @returns what it has answered
Answer hear_all(MPI_Comm parent, int size, Memory& memory, milliseconds timeout) {
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  check_mpi(MPI_Igather(memory.mine(), 1, MPI_INT, memory.told(), 1, MPI_INT, 0, parent, requests.data()),
            "MPI_Igather");
  static_cast<void>(complete({requests.data(), 1}, timeout));
  const Answer answer = answer_to(memory.told(), size);
  std::fill_n(memory.answers(), size, answer);
  check_mpi(MPI_Iscatter(memory.answers(), kAnswerInts, MPI_INT, memory.received(), kAnswerInts, MPI_INT, 0, parent,
                         &requests[1]),
            "MPI_Iscatter");
  if (complete(requests, kAnswerTime)) {
    memory.all_is_complete();
  }
  return answer;
}

/// The others. @returns the answer of rank 0
Answer be_heard(MPI_Comm parent, Memory& memory, milliseconds timeout) {
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  check_mpi(MPI_Igather(memory.mine(), 1, MPI_INT, nullptr, 0, MPI_INT, 0, parent, requests.data()), "MPI_Igather");
  check_mpi(MPI_Iscatter(nullptr, 0, MPI_INT, memory.received(), kAnswerInts, MPI_INT, 0, parent, &requests[1]),
            "MPI_Iscatter");
  Answer answer;
  if (!complete({&requests[1], 1}, 2 * timeout + kAnswerTime)) {
    answer.missing = 1;  // rank 0
    return answer;
  }
  answer = *memory.received();
  if (complete({requests.data(), 1}, answer.missing > 0 ? milliseconds(0) : kAnswerTime)) {
    memory.all_is_complete();
  }
  return answer;
}

}  // namespace

void meet_first(MPI_Comm parent, bool has_memory, milliseconds timeout) {
  int rank = 0;
  int size = 0;
  check_mpi(MPI_Comm_rank(parent, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(parent, &size), "MPI_Comm_size");
  Memory memory(rank == 0 ? size : 1);
  *memory.mine() = has_memory ? kHere : kWithoutMemory;
  const Answer answer = rank == 0 ? hear_all(parent, size, memory, timeout) : be_heard(parent, memory, timeout);
  if (answer.missing > 0) {
    report_missing(answer, rank, timeout);
  }
  // What ranks told before they gave up is still heard by a rank 0 that comes after that.
  MPI_Request confirmation = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(parent, &confirmation), "MPI_Ibarrier");
  if (!complete({&confirmation, 1}, timeout)) {
    report_late(rank);
  }
  if (answer.without_memory > 0) {
    report_no_memory(answer.without_memory - 1);
  }
}

}  // namespace reprieve::cluster
