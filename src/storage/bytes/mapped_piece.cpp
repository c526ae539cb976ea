// SPDX-License-Identifier: BSD-3-Clause
#include "storage/bytes/mapped_piece.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

namespace reprieve::storage {

namespace {

constexpr std::size_t kPage = 4096;
#if defined(MADV_POPULATE_READ)
constexpr int kPopulate = MADV_POPULATE_READ;
#else
constexpr int kPopulate = 22;  // Linux 5.14
#endif

/// Brings the pages into the process's tables at once: to take each at its first use would cost more than its copy. An
/// older kernel does not know it, and does just that.
bool populate(std::span<std::byte> pages) noexcept {
  return ::madvise(pages.data(), pages.size(), kPopulate) == 0 || errno == EINVAL || errno == ENOSYS;
}

}  // namespace

/// The handler of SIGBUS, while a piece needs it.
class MappedPiece::Handler {
 public:
  static bool begin(MappedPiece& piece) noexcept {
    const std::lock_guard lock(mutex);
    if (users == 0) {
      struct sigaction action = {};
      action.sa_sigaction = on_bus_error;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&action.sa_mask);
      if (::sigaction(SIGBUS, &action, &of_program) != 0) {
        return false;
      }
    }
    ++users;
    own_piece = &piece;
    return true;
  }

  static void end() noexcept {
    own_piece = nullptr;
    const std::lock_guard lock(mutex);
    struct sigaction now = {};
    // Somebody may have put another one there, which stays.
    if (--users == 0 && ::sigaction(SIGBUS, nullptr, &now) == 0 && now.sa_sigaction == on_bus_error) {
      static_cast<void>(::sigaction(SIGBUS, &of_program, nullptr));  // as it was
    }
  }

 private:
  static void on_bus_error(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    if (own_piece != nullptr && put_zeros(*own_piece, static_cast<const std::byte*>(info->si_addr))) {
      errno = error;
      return;
    }
    if ((of_program.sa_flags & SA_SIGINFO) != 0 && of_program.sa_sigaction != nullptr) {
      of_program.sa_sigaction(signal, info, context);
    } else if (of_program.sa_handler != SIG_DFL && of_program.sa_handler != SIG_IGN) {
      of_program.sa_handler(signal);
    } else {
      // The system ends the process when the instruction is tried again. A signal that was sent has none: it comes
      // again.
      static_cast<void>(::sigaction(SIGBUS, &of_program, nullptr));
      if (info->si_code <= 0) {
        static_cast<void>(::raise(signal));
      }
    }
    errno = error;
  }

  static bool put_zeros(MappedPiece& piece, const std::byte* address) noexcept {
    const std::span<std::byte> pages = piece.pages_.bytes();
    if (address < pages.data() || address >= pages.data() + pages.size()) {
      return false;
    }
    piece.lost_ = 1;
    return ::mmap(pages.data(), pages.size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }

  static inline std::mutex mutex;
  static inline int users = 0;
  static inline struct sigaction of_program = {};
  static inline thread_local MappedPiece* own_piece = nullptr;  ///< of each thread
};

MappedPiece::MappedPiece(const PosixFile& file, std::uint64_t offset, std::size_t size) noexcept {
  const std::uint64_t begin = offset / kPage * kPage;
  const std::size_t before = offset - begin;
  pages_ = core::Mapping::find(before + size, PROT_READ, MAP_SHARED, file.descriptor(), begin);
  if (pages_.bytes().empty() || !populate(pages_.bytes())) {
    return;
  }
  sigset_t bus_error;
  sigemptyset(&bus_error);
  sigaddset(&bus_error, SIGBUS);
  if (::pthread_sigmask(SIG_UNBLOCK, &bus_error, &blocked_before_) != 0) {
    return;
  }
  guarded_ = Handler::begin(*this);
  if (guarded_) {
    bytes_ = pages_.bytes().subspan(before, size);
  }
}

MappedPiece::~MappedPiece() {
  if (guarded_) {
    Handler::end();
    static_cast<void>(::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr));
  }
}

}  // namespace reprieve::storage
