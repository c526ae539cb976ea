// SPDX-License-Identifier: BSD-3-Clause
#include "slurm/stage.hpp"

#include <iostream>

namespace reprieve::test {

Stage::Stage(const SlurmOptions& options, const std::vector<Scenario>& scenarios)
    : slurm_(options), barrier_(static_cast<std::ptrdiff_t>(scenarios.size()), Preempt{this}) {
  for (const Scenario& scenario : scenarios) {
    outcomes_[scenario.name] = std::async(std::launch::async, [this, scenario] { return play(scenario); });
  }
}

Stage::Outcome Stage::play(const Scenario& scenario) {
  Outcome outcome;
  try {
    for (const TrainingJob& job : scenario.play(*this)) {
      const std::vector<PreemptionFigures> figures = job.figures();
      outcome.figures.insert(outcome.figures.end(), figures.begin(), figures.end());
    }
  } catch (const std::exception& error) {
    outcome.problem = error.what();
  }
  barrier_.arrive_and_drop();
  return outcome;
}

void Stage::preempt_together(const std::vector<TrainingJob*>& jobs) {
  ++waiting_;
  barrier_.arrive_and_wait();
  for (TrainingJob* job : jobs) {
    job->note_cause(preempted_);
  }
}

void Stage::preempt_all() noexcept {
  if (waiting_.exchange(0) == 0) {
    return;  // the last one has left
  }
  preempted_ = std::chrono::steady_clock::now();
  try {
    static_cast<void>(
        slurm_.submit({"--partition=high", "--exclusive", "--nodes=1", "--output=/dev/null", "--wrap", "sleep 1"}));
  } catch (const std::exception& error) {
    std::cerr << "cannot preempt: " << error.what() << '\n';
  }
}

}  // namespace reprieve::test
