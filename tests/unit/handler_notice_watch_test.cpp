// SPDX-License-Identifier: BSD-3-Clause
// The thread that acts when a notice has stood for too long.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "handler/notice_watch.hpp"

namespace reprieve::handler {
namespace {

using std::chrono::milliseconds;

struct Watched {
  std::atomic<bool> notice{false};
  std::atomic<int> looks{0};
  std::atomic<int> acts{0};

  [[nodiscard]] NoticeWatch watch(milliseconds after) {
    return {[this] {
              ++looks;
              return notice.load();
            },
            after, [this] { ++acts; }};
  }
  void wait_for_looks(int more) const {
    for (const int before = looks; looks < before + more;) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
};

TEST(NoticeWatch, ActsOnceForEachNotice) {
  Watched watched;
  const NoticeWatch watch = watched.watch(milliseconds(0));
  watched.wait_for_looks(2);
  EXPECT_EQ(watched.acts, 0) << "there is no notice yet";
  for (int notices = 1; notices <= 2; ++notices) {
    watched.notice = true;
    watched.wait_for_looks(4);
    EXPECT_EQ(watched.acts, notices);
    watched.notice = false;
    watched.wait_for_looks(2);
  }
  EXPECT_EQ(watched.acts, 2);
}

TEST(NoticeWatch, LeavesANoticeAloneThatHasNotStoodForLong) {
  Watched watched;
  const NoticeWatch watch = watched.watch(std::chrono::hours(1));
  watched.notice = true;
  watched.wait_for_looks(4);
  EXPECT_EQ(watched.acts, 0);
}

}  // namespace
}  // namespace reprieve::handler
