// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/write_queue.hpp"

#ifdef REPRIEVE_HAVE_LIBURING

#include <liburing.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "core/log.hpp"

namespace reprieve::storage {

namespace {

class RingQueue final : public WriteQueue {
 public:
  explicit RingQueue(const PosixFile& file)
      : file_(file), error_(-io_uring_queue_init(kMaxPendingWrites, &ring_, IORING_SETUP_CLAMP)) {}

  ~RingQueue() override {
    if (error_ != 0) {
      return;
    }
    io_uring_cqe* entry = nullptr;
    while (under_way_ > 0 && next_completion(&entry) == 0) {  // the kernel must not read memory that is gone
      io_uring_cqe_seen(&ring_, entry);
      --under_way_;
    }
    io_uring_queue_exit(&ring_);
  }
  RingQueue(const RingQueue&) = delete;
  RingQueue& operator=(const RingQueue&) = delete;

  /// An error number; 0 if the ring is there.
  [[nodiscard]] int error() const noexcept { return error_; }

  void submit(const PendingWrite& write) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {
      throw Error(ErrorCode::internal, "too many writes under way");
    }
    writes_.at(write.tag) = write;
    io_uring_prep_write(entry, file_.descriptor(), write.bytes.data(), static_cast<unsigned>(write.bytes.size()),
                        write.offset);
    io_uring_sqe_set_data64(entry, write.tag);
    int result = 0;
    do {
      result = io_uring_submit(&ring_);
    } while (result == -EINTR || result == -EAGAIN);
    if (result < 0) {
      throw storage_error("write", file_.path(), -result);
    }
    ++under_way_;
  }

  std::size_t wait() override {
    io_uring_cqe* entry = nullptr;
    const int result = next_completion(&entry);
    if (result < 0) {
      throw storage_error("wait for writes to", file_.path(), -result);
    }
    const int written = entry->res;
    const auto tag = static_cast<std::size_t>(io_uring_cqe_get_data64(entry));
    io_uring_cqe_seen(&ring_, entry);
    --under_way_;
    finish(writes_.at(tag), written);
    return tag;
  }

 private:
  int next_completion(io_uring_cqe** entry) {
    int result = 0;
    do {
      result = io_uring_wait_cqe(&ring_, entry);
    } while (result == -EINTR);
    return result;
  }

  /// What a short write left, and what was interrupted or refused, is written the plain way. Cancelled is what the
  /// kernel had no thread for: its own threads count for the limits of the process, too.
  void finish(const PendingWrite& write, int written) const {
    if (written < 0 && written != -EINTR && written != -EAGAIN && written != -EINVAL && written != -ECANCELED) {
      throw storage_error("write", file_.path(), -written);
    }
    const std::size_t done = written < 0 ? 0 : static_cast<std::size_t>(written);
    if (done < write.bytes.size()) {
      file_.write_all(write.bytes.subspan(done), write.offset + done);
    }
  }

  const PosixFile& file_;
  io_uring ring_ = {};
  int error_;
  std::array<PendingWrite, kMaxPendingWrites> writes_ = {};
  std::size_t under_way_ = 0;
};

}  // namespace

std::unique_ptr<WriteQueue> make_ring_queue(const PosixFile& file) {
  auto queue = std::make_unique<RingQueue>(file);
  if (queue->error() != 0) {
    core::log::debug("no io_uring here: {}", std::generic_category().message(queue->error()));
    return nullptr;
  }
  return queue;
}

}  // namespace reprieve::storage

#else

namespace reprieve::storage {

std::unique_ptr<WriteQueue> make_ring_queue(const PosixFile& /*file*/) { return nullptr; }

}  // namespace reprieve::storage

#endif
