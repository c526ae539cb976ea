// SPDX-License-Identifier: BSD-3-Clause
// Death without notice: what was committed survives, and the next start resumes from there to the same end.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "trainer_test.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class TrainerDeath : public TrainerOnRanks {
 protected:
  /// Kills a rank in the moment in which a save has begun.
  void kill_in_save(const Options& options) {
    const auto job = start(ranks(), options);
    wait_for_events(*job, "start", events("start").size() + 1);
    const auto end = std::chrono::steady_clock::now() + kHang;
    // Without a pause between two looks, since a save lasts only some milliseconds.
    const auto victims = job->ranks();
    while (!save_has_begun() && std::chrono::steady_clock::now() < end) {
    }
    ::kill(victims.at(random_rank()), SIGKILL);
    EXPECT_EQ(finish(*job).code, 128 + SIGKILL);
  }

  /// Whether there is a checkpoint that is not committed.
  [[nodiscard]] bool save_has_begun() const {
    std::error_code none;
    const fs::directory_iterator entries(checkpoints_ / ".chieftemp", none);
    return std::any_of(begin(entries), end(entries),
                       [](const auto& entry) { return entry.path().extension() == ".h5"; });
  }
};
REPRIEVE_ON_RANKS(TrainerDeath);

TEST_P(TrainerDeath, OfARankAtRandomMoments) {
  for (int death = 0; death < 2; ++death) {
    const auto job = start(ranks(), {"--step-delay-ms", "25", "--checkpoint-every", "2"});
    ASSERT_TRUE(job->wait_for_ranks(kHang));
    std::this_thread::sleep_for(random_time(1500ms));  // not to wait for anything: the moment is to be another one
    ASSERT_TRUE(job->send_to_rank(random_rank(), SIGKILL)) << job->out() << job->err();
    EXPECT_EQ(finish(*job).code, 128 + SIGKILL);
    expect_sound_checkpoints();
  }
  expect_same_end(ranks());
}

TEST_P(TrainerDeath, OfARankInASave) {
  // A kill can come too late, when the save is just over: then the next one counts.
  for (int attempt = 0; attempt < 10 && !save_has_begun(); ++attempt) {
    kill_in_save({"--step-delay-ms", "25", "--checkpoint-every", "2"});
    expect_sound_checkpoints();
  }
  EXPECT_TRUE(save_has_begun()) << "never died within a save";
  expect_same_end(ranks());
}

TEST_P(TrainerDeath, OfMpirunWithARestartWhileTheRanksLiveOn) {
  const auto job = start_and_wait(ranks());
  job->send(SIGKILL);
  check_same_end(run(ranks()), ranks());
}

}  // namespace
}  // namespace reprieve::test
