// SPDX-License-Identifier: BSD-3-Clause
#include "faults/files/forked_reader.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace reprieve::test {

namespace {

using Clock = std::chrono::steady_clock;

#ifdef REPRIEVE_SANITIZED
constexpr bool kMayLimitMemory = false;  // sanitizers reserve terabytes
#else
constexpr bool kMayLimitMemory = true;
#endif

/// What parent and children share: where the child is, and what it found.
class Board {
 public:
  explicit Board(std::size_t count) : bytes_(sizeof(std::atomic<std::size_t>) + count) {
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), "mmap");
    }
    next_ = new (memory) std::atomic<std::size_t>(0);
    fates_ = static_cast<Fate*>(memory) + sizeof(std::atomic<std::size_t>);
  }
  ~Board() { ::munmap(next_, bytes_); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  std::atomic<std::size_t>& next() { return *next_; }
  Fate& fate(std::size_t i) { return fates_[i]; }

 private:
  std::size_t bytes_;
  std::atomic<std::size_t>* next_;
  Fate* fates_;
};

std::size_t address_space_now() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0;
  statm >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void limit_memory(std::size_t bytes) {
  if (kMayLimitMemory) {
    const rlimit limit{address_space_now() + bytes, RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
}

[[noreturn]] void run_child(Board& board, std::size_t count, const std::function<void()>& prepare,
                            const std::function<Fate(std::size_t)>& attempt, const ReaderLimits& limits) {
  try {
    limit_memory(limits.memory_bytes);
    prepare();
    for (std::size_t i = board.next(); i < count; board.next() = ++i) {
      board.fate(i) = attempt(i);
    }
    _exit(0);
  } catch (const std::exception& error) {
    static_cast<void>(::write(STDERR_FILENO, error.what(), std::strlen(error.what())));
    _exit(1);
  }
}

/// The end of a child, as waitpid tells it; kills one that stays in one try for too long and then tells nothing.
struct ChildEnd {
  bool hung = false;
  int status = 0;
};

ChildEnd watch(pid_t child, Board& board, int limit_seconds) {
  std::size_t seen = board.next();
  auto since = Clock::now();
  for (;;) {
    ChildEnd end;
    if (::waitpid(child, &end.status, WNOHANG) == child) {
      return end;
    }
    if (board.next() != seen) {
      seen = board.next();
      since = Clock::now();
    }
    if (Clock::now() - since > std::chrono::seconds(limit_seconds)) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &end.status, 0);
      return {true, end.status};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::string describe(std::size_t i, Fate fate, int status) {
  const std::string who = "try " + std::to_string(i) + ": ";
  switch (fate) {
    case Fate::hung:
      return who + "hung";
    case Fate::crashed:
      return who + "crashed (" +
             (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                  : "exit code " + std::to_string(WEXITSTATUS(status))) +
             ")";
    case Fate::wrong:
      return who + "a wrong value was read";
    default:
      return who + "an odd error";
  }
}

}  // namespace

std::size_t Tally::operator[](Fate fate) const {
  const auto found = counts.find(fate);
  return found == counts.end() ? 0 : found->second;
}

Tally try_all(std::size_t count, const std::function<void()>& prepare, const std::function<Fate(std::size_t)>& attempt,
              ReaderLimits limits) {
  Board board(count);
  Tally tally;
  while (board.next() < count) {
    const pid_t child = ::fork();
    if (child < 0) {
      throw std::system_error(errno, std::generic_category(), "fork");
    }
    if (child == 0) {
      run_child(board, count, prepare, attempt, limits);
    }
    const ChildEnd end = watch(child, board, limits.seconds);
    const std::size_t last = board.next();
    if (last < count) {
      const Fate fate = end.hung ? Fate::hung : Fate::crashed;
      board.fate(last) = fate;
      tally.bad.push_back(describe(last, fate, end.status));
      if (tally.bad.size() >= 20) {
        throw std::runtime_error("too many children died; the last: " + tally.bad.back());
      }
      board.next() = last + 1;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Fate fate = board.fate(i);
    ++tally.counts[fate];
    if ((fate == Fate::wrong || fate == Fate::odd) && tally.bad.size() < 20) {
      tally.bad.push_back(describe(i, fate, 0));
    }
  }
  return tally;
}

}  // namespace reprieve::test
