#include "storage/bytes/guarded_mapping.hpp"

#include <signal.h>  // NOLINT: sigaction is POSIX, not in <csignal>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

namespace reprieve::storage {

namespace {

constexpr std::uintptr_t kPageBytes = 4096;

/// Whole pages of memory that stand for a file.
struct GuardedRange {
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};  ///< 0: there is none
  std::atomic<bool> lost{false};
};

// A handler of signals can know nothing but what is global.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::array<GuardedRange, 16> guarded;
std::mutex guard_mutex;
int guards = 0;
bool is_covered = false;  ///< somebody installed a handler while ours was there: it may call ours
struct sigaction before_guards;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// Only what may be called in a handler: the file's pages give way to zeros, and the access is repeated.
bool replace_lost_pages(std::uintptr_t place) noexcept {
  for (GuardedRange& range : guarded) {
    const std::uintptr_t begin = range.begin;
    const std::uintptr_t end = range.end;
    if (begin <= place && place < end) {
      range.lost = true;
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      return ::mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                    0) != MAP_FAILED;
    }
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error_number = errno;
  if (info->si_code <= 0 || !replace_lost_pages(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    if ((before_guards.sa_flags & SA_SIGINFO) != 0) {
      before_guards.sa_sigaction(signal, info, context);
    } else if (before_guards.sa_handler != SIG_DFL && before_guards.sa_handler != SIG_IGN) {
      before_guards.sa_handler(signal);
    } else {
      ::sigaction(signal, &before_guards, nullptr);
      ::raise(signal);  // comes when this handler returns
    }
  }
  errno = error_number;
}

bool is_ours(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_bus_error;
}

/// False if the handler cannot be installed, or another one came after it.
bool add_guard() noexcept {
  const std::scoped_lock lock(guard_mutex);
  struct sigaction present {};
  if (is_covered || ::sigaction(SIGBUS, nullptr, &present) != 0) {
    return false;
  }
  if (guards > 0) {
    is_covered = !is_ours(present);
    guards += is_covered ? 0 : 1;
    return !is_covered;
  }
  before_guards = present;
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  static_cast<void>(::sigemptyset(&action.sa_mask));
  guards = ::sigaction(SIGBUS, &action, nullptr) == 0 ? 1 : 0;
  return guards > 0;
}

void remove_guard() noexcept {
  const std::scoped_lock lock(guard_mutex);
  struct sigaction present {};
  if (--guards > 0 || ::sigaction(SIGBUS, nullptr, &present) != 0) {
    return;
  }
  is_covered = is_covered || !is_ours(present);
  if (!is_covered) {
    static_cast<void>(::sigaction(SIGBUS, &before_guards, nullptr));
  }
}

/// A thread that blocks SIGBUS is killed by one. @p was_blocked says whether this one did.
bool let_bus_errors_through(bool& was_blocked) noexcept {
  sigset_t bus_error;
  sigset_t before;
  static_cast<void>(::sigemptyset(&bus_error));
  static_cast<void>(::sigaddset(&bus_error, SIGBUS));
  if (::pthread_sigmask(SIG_UNBLOCK, &bus_error, &before) != 0) {
    return false;
  }
  was_blocked = ::sigismember(&before, SIGBUS) == 1;
  return true;
}

void block_bus_errors() noexcept {
  sigset_t bus_error;
  static_cast<void>(::sigemptyset(&bus_error));
  static_cast<void>(::sigaddset(&bus_error, SIGBUS));
  static_cast<void>(::pthread_sigmask(SIG_BLOCK, &bus_error, nullptr));
}

/// Null if as many as can be are in use.
GuardedRange* take_range() noexcept {
  for (GuardedRange& range : guarded) {
    if (!range.taken.exchange(true)) {
      range.lost = false;
      return &range;
    }
  }
  return nullptr;
}

}  // namespace

GuardedMapping::GuardedMapping(int descriptor, std::uint64_t offset, std::size_t size) noexcept {
  GuardedRange* const range = take_range();
  if (range == nullptr) {
    return;
  }
  const std::uint64_t skipped = offset % kPageBytes;
  const std::size_t whole = (static_cast<std::size_t>(skipped) + size + kPageBytes - 1) / kPageBytes * kPageBytes;
  void* const place =
      ::mmap(nullptr, whole, PROT_READ, MAP_SHARED | MAP_POPULATE, descriptor, static_cast<off_t>(offset - skipped));
  if (place == MAP_FAILED) {
    range->taken = false;
    return;
  }
  range->begin = reinterpret_cast<std::uintptr_t>(place);
  range->end = range->begin + whole;
  number_ = static_cast<std::size_t>(range - guarded.data());
  if (add_guard()) {
    if (let_bus_errors_through(was_blocked_)) {
      data_ = static_cast<const std::byte*>(place) + skipped;
      return;
    }
    remove_guard();
  }
  release();
}

GuardedMapping::~GuardedMapping() {
  if (data_ != nullptr) {
    if (was_blocked_) {
      block_bus_errors();
    }
    remove_guard();
    release();
  }
}

/// Gives the memory back.
void GuardedMapping::release() const noexcept {
  GuardedRange& range = guarded[number_];
  const std::uintptr_t begin = range.begin;
  const std::uintptr_t end = range.end.exchange(0);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  static_cast<void>(::munmap(reinterpret_cast<void*>(begin), end - begin));
  range.taken = false;
}

bool GuardedMapping::is_whole() const noexcept { return !guarded[number_].lost; }

}  // namespace reprieve::storage
