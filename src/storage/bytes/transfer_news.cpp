// SPDX-License-Identifier: BSD-3-Clause
#include "storage/bytes/transfer_news.hpp"

#include <new>

#include "core/log.hpp"
#include "core/text.hpp"

namespace reprieve::storage {

void TransferNews::add(std::uint64_t bytes) noexcept {
  done_ += bytes;
  const auto now = Clock::now();
  if (now < next_) {
    return;
  }
  next_ = now + kInterval;
  try {
    core::log::info("{}: {}", what_, core::transfer_text(done_, total_, now - begin_));
  } catch (const std::bad_alloc&) {
    // The transfer itself must not fail for it.
  }
}

}  // namespace reprieve::storage
