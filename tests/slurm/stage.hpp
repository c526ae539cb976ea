// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Many jobs side by side in one Slurm, each with its own story and its own test.

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "slurm/slurm_cluster.hpp"
#include "slurm/training_job.hpp"

namespace reprieve::test {

class Stage;

/// What happens to one job, and how it must end.
struct Scenario {
  std::string name;
  /// Returns the jobs, for their figures; throws where one does not go as it should.
  std::function<std::vector<TrainingJob>(Stage&)> play;

  friend std::ostream& operator<<(std::ostream& stream, const Scenario& scenario) { return stream << scenario.name; }
};

/// Plays scenarios, all at once.
class Stage {
 public:
  struct Outcome {
    std::string problem;  ///< empty if all went well
    std::vector<PreemptionFigures> figures;
  };

  Stage(const SlurmOptions& options, const std::vector<Scenario>& scenarios);

  [[nodiscard]] SlurmCluster& slurm() noexcept { return slurm_; }

  /// For scenarios: waits until every scenario has called this or has ended, and lets a job of the higher partition
  /// take the whole node: such a job cannot pick its victims.
  void preempt_together(const std::vector<TrainingJob*>& jobs);

  /// Waits for the end of the scenario. To be called once.
  Outcome outcome(const std::string& scenario) { return outcomes_.at(scenario).get(); }

 private:
  struct Preempt {
    Stage* stage;
    void operator()() noexcept { stage->preempt_all(); }
  };

  Outcome play(const Scenario& scenario);
  void preempt_all() noexcept;

  SlurmCluster slurm_;
  std::atomic<int> waiting_{0};
  std::chrono::steady_clock::time_point preempted_;  ///< the last time
  std::barrier<Preempt> barrier_;
  std::map<std::string, std::future<Outcome>> outcomes_;  // last: they use the members above
};

/// A test suite whose tests are the scenarios of one stage.
/// @tparam Suite  has `SlurmOptions options()` and `std::vector<Scenario> scenarios()`
template <class Suite>
class StageTest : public ::testing::TestWithParam<Scenario> {
 protected:
  static void SetUpTestSuite() {
    if (SlurmCluster::obstacle(Suite::options()).empty()) {
      stage_ = std::make_unique<Stage>(Suite::options(), chosen());
    }
  }
  static void TearDownTestSuite() { stage_.reset(); }
  void SetUp() override { REPRIEVE_NEEDS_SLURM(Suite::options()); }

  void expect_well() {
    const Stage::Outcome outcome = stage_->outcome(GetParam().name);
    for (std::size_t i = 0; i < outcome.figures.size(); ++i) {
      const std::string text = text_of(outcome.figures[i]);
      std::cout << "[  FIGURES ] " << GetParam().name << ": " << text << std::endl;
      RecordProperty("preemption_" + std::to_string(i + 1), text);
    }
    EXPECT_EQ(outcome.problem, "");
  }

 private:
  /// The scenarios of those tests that are to run.
  static std::vector<Scenario> chosen() {
    const std::vector<Scenario> all = Suite::scenarios();
    std::vector<Scenario> chosen;
    const ::testing::TestSuite* suite = ::testing::UnitTest::GetInstance()->current_test_suite();
    for (int i = 0; i < suite->total_test_count(); ++i) {
      if (suite->GetTestInfo(i)->should_run()) {
        chosen.push_back(all.at(static_cast<std::size_t>(i)));
      }
    }
    return chosen;
  }

  static inline std::unique_ptr<Stage> stage_;
};

}  // namespace reprieve::test

/// Defines the tests of a suite: one for each scenario of the class @p Suite, named @p Name.
#define REPRIEVE_STAGE_TEST(Name, Suite)                                         \
  using Name = StageTest<Suite>;                                                 \
  TEST_P(Name, EndsWell) { expect_well(); }                                      \
  INSTANTIATE_TEST_SUITE_P(Slurm, Name, ::testing::ValuesIn(Suite::scenarios()), \
                           [](const auto& scenario) { return scenario.param.name; })
