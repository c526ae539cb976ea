// SPDX-License-Identifier: BSD-3-Clause
// A preempted job comes back and ends as if nothing had happened, whatever the launcher and the way it is told.
//
// Every cell of the matrix is a job of its own; all jobs of a suite run side by side in one Slurm. As root Slurm kills
// by control group, otherwise by parent process: these differ in which processes get its signals.

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "slurm/slurm_cluster.hpp"
#include "slurm/training_job.hpp"

namespace reprieve::test {
namespace {

// Many jobs side by side in one Slurm, each with its own story and its own test.

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

  Stage(const SlurmOptions& options, const std::vector<Scenario>& scenarios)
      : slurm_(options), barrier_(static_cast<std::ptrdiff_t>(scenarios.size()), Preempt{this}) {
    for (const Scenario& scenario : scenarios) {
      outcomes_[scenario.name] = std::async(std::launch::async, [this, scenario] { return play(scenario); });
    }
  }

  [[nodiscard]] SlurmCluster& slurm() noexcept { return slurm_; }

  /// For scenarios: waits until every scenario has called this or has ended, and lets a job of the higher partition
  /// take the whole node: such a job cannot pick its victims.
  void preempt_together(const std::vector<TrainingJob*>& jobs) {
    ++waiting_;
    barrier_.arrive_and_wait();
    for (TrainingJob* job : jobs) {
      job->note_cause(preempted_);
    }
  }

  /// Waits for the end of the scenario. To be called once.
  Outcome outcome(const std::string& scenario) { return outcomes_.at(scenario).get(); }

 private:
  struct Preempt {
    Stage* stage;
    void operator()() noexcept { stage->preempt_all(); }
  };

  Outcome play(const Scenario& scenario) {
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

  void preempt_all() noexcept {
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

/// Defines the tests of a suite: one for each scenario of the class @p Suite, named @p Name.
#define REPRIEVE_STAGE_TEST(Name, Suite)                                         \
  using Name = StageTest<Suite>;                                                 \
  TEST_P(Name, EndsWell) { expect_well(); }                                      \
  INSTANTIATE_TEST_SUITE_P(Slurm, Name, ::testing::ValuesIn(Suite::scenarios()), \
                           [](const auto& scenario) { return scenario.param.name; })

constexpr int kRanksOfOneNode = 2;

enum class Cause {
  grace,           ///< a higher partition's job, with a grace period
  grace_at_start,  ///< the same while the batch script has not come to `reprieve run`
  no_grace,        ///< a higher partition's job, without a grace period
  time_limit,      ///< `--signal` before the end of the job's time
  cancel,          ///< scancel; the job must not come back
  requeue,         ///< scontrol requeue
  user_signal,     ///< scancel --signal=USR1 --batch
  at_start,        ///< the same before the ranks are ready
};

struct Cell {
  std::string launcher;
  Cause cause;
  int times;  ///< preemptions in a row
};

std::string name_of(const Cell& cell) {
  const std::map<Cause, std::string> names{{Cause::grace, "grace"},        {Cause::grace_at_start, "grace_at_start"},
                                           {Cause::no_grace, "no_grace"},  {Cause::time_limit, "time_limit"},
                                           {Cause::cancel, "cancel"},      {Cause::requeue, "requeue"},
                                           {Cause::user_signal, "signal"}, {Cause::at_start, "signal_at_start"}};
  return cell.launcher + "_" + names.at(cell.cause) + "_" + std::to_string(cell.times);
}

Training training_of(const Cell& cell) { return {.slow_starts = cell.times}; }

JobPlan plan_of(const Cell& cell) {
  JobPlan plan{name_of(cell), script_of_tree(cell.launcher + ".sbatch"), training_of(cell)};
  plan.arguments = {"--ntasks-per-node=" + std::to_string(kRanksOfOneNode),
                    cell.cause == Cause::no_grace ? "--partition=low0" : "--partition=low"};
  if (cell.cause == Cause::time_limit) {
    // Slurm looks every 30 s, and ahead by as much: the signal comes within 30 s of the start of a run of a minute, the
    // shortest that there is. The supervisor itself would speak up later.
    plan.arguments.insert(plan.arguments.end(), {"--time=1", "--signal=B:URG@30"});
    plan.script = with_run_options(plan.script, "--lead 20s");
  }
  if (cell.cause == Cause::grace_at_start) {
    plan.script = with_slow_modules(plan.script);
  }
  return plan;
}

/// Sees to it that the job is preempted, for the time after @p before others.
void preempt(Stage& stage, TrainingJob& job, Cause cause, int before) {
  switch (cause) {
    case Cause::grace_at_start:
      job.wait_until_running(before);
      break;
    case Cause::at_start:
      job.wait_until_started(before);
      break;
    case Cause::time_limit:
      return;  // whenever it comes
    default:
      job.wait_until_training(before);
  }
  const std::string id = std::to_string(job.id());
  if (cause == Cause::grace || cause == Cause::grace_at_start || cause == Cause::no_grace) {
    stage.preempt_together({&job});
    return;
  }
  job.note_cause();
  if (cause == Cause::cancel) {
    stage.slurm().command({"scancel", id});
  } else if (cause == Cause::requeue) {
    stage.slurm().command({"scontrol", "requeue", id});
  } else {
    stage.slurm().command({"scancel", "--signal=USR1", "--batch", id});
  }
}

/// Saved, cancelled, and not brought back to life: neither by Slurm nor by the supervisor, which has left.
void check_cancelled(TrainingJob& job, int saves) {
  job.wait_until_ended("CANCELLED");
  job.wait_until_said("not put back into the queue");
  check_equal("status", job.summary().at("status"), "preempted");
  check_equal("times saved", std::to_string(job.figures().size()), std::to_string(saves));
  check_equal("restarts", job.field("Restarts"), std::to_string(saves - 1));
  check_equal("state", job.field("JobState"), "CANCELLED");
}

std::vector<TrainingJob> play(Stage& stage, const Cell& cell) {
  const std::string digest = undisturbed_digest(training_of(cell), kRanksOfOneNode);
  TrainingJob job(stage.slurm(), plan_of(cell));
  for (int before = 0; before < cell.times; ++before) {
    const bool last = before + 1 == cell.times;
    preempt(stage, job, cell.cause == Cause::cancel && !last ? Cause::user_signal : cell.cause, before);
    if (cell.cause == Cause::cancel && last) {
      check_cancelled(job, cell.times);
      return {job};
    }
    job.wait_until_requeued(before + 1);
  }
  job.wait_until_ended("COMPLETED");
  if (cell.cause != Cause::time_limit) {  // which may have come once more
    job.check_restarts(cell.times);
  }
  check_equal("digest", job.summary().at("state_digest"), digest);
  return {job};
}

/// Twice in a row; but once where Slurm takes half a minute each time.
std::vector<Scenario> scenarios_of(const std::vector<Cause>& causes) {
  std::vector<Scenario> scenarios;
  for (const Cause cause : causes) {
    for (const auto* launcher : {"srun", "mpirun"}) {
      const Cell cell{launcher, cause, cause == Cause::time_limit ? 1 : 2};
      scenarios.push_back({name_of(cell), [cell](Stage& stage) { return play(stage, cell); }});
    }
  }
  return scenarios;
}

/// One node with room for all.
SlurmOptions options_for(std::size_t jobs) {
  SlurmOptions options{.cpus = kRanksOfOneNode * static_cast<int>(jobs), .control_groups = true};
  options.control_groups = SlurmCluster::obstacle(options).empty();
  return options;
}

struct ByAnotherJob {
  static std::vector<Scenario> scenarios() { return scenarios_of({Cause::grace, Cause::no_grace}); }
  static SlurmOptions options() { return options_for(scenarios().size()); }
};
struct ByAnotherJobAtStart {
  static std::vector<Scenario> scenarios() { return scenarios_of({Cause::grace_at_start}); }
  static SlurmOptions options() { return options_for(scenarios().size()); }
};
struct ByCommand {
  static std::vector<Scenario> scenarios() {
    return scenarios_of({Cause::time_limit, Cause::cancel, Cause::requeue, Cause::user_signal, Cause::at_start});
  }
  static SlurmOptions options() { return options_for(scenarios().size()); }
};

REPRIEVE_STAGE_TEST(OneNodePreempted, ByAnotherJob);
REPRIEVE_STAGE_TEST(OneNodePreemptedAtStart, ByAnotherJobAtStart);
REPRIEVE_STAGE_TEST(OneNodeKnows, ByCommand);

// Who decides on a requeue, and whether it happens: the job's own request, the user, the site's configuration.

constexpr int kRanks = 2;
const Training kUsual;
const Training kFast{.slow_starts = 0};

JobPlan plan_for(const std::string& name, const std::string& script, const Training& training = kUsual) {
  return {name, script, training, {"--ntasks-per-node=" + std::to_string(kRanks)}};
}

void tell(Stage& stage, TrainingJob& job) {
  job.note_cause();
  stage.slurm().command({"scancel", "--signal=URG", "--batch", job.name_in_slurm()});
}

/// Saved, left with the code that starts nothing again, and still able to continue.
void check_saved_but_not_again(TrainingJob& job, const std::string& reason, const std::string& state = "FAILED") {
  job.wait_until_ended(state);
  job.wait_until_said("not put back into the queue: " + reason);
  check_equal("exit code", job.field("ExitCode"), state == "FAILED" ? "75:0" : "0:0");
  check_equal("restarts", job.field("Restarts"), "0");
  check_equal("status", job.summary().at("status"), "preempted");
}

void check_cancelled(TrainingJob& job) {
  job.wait_until_ended("CANCELLED");
  job.wait_until_said("not put back into the queue");
  check_equal("state", job.field("JobState"), "CANCELLED");
  check_equal("restarts", job.field("Restarts"), "0");
}

/// One preemption in mid-training, and the same job comes back and ends right.
std::vector<TrainingJob> back_after(const std::function<void(Stage&, TrainingJob&)>& cause, Stage& stage,
                                    const JobPlan& plan) {
  const std::string digest = undisturbed_digest(plan.training, kRanks);
  TrainingJob job(stage.slurm(), plan);
  job.wait_until_training(0);
  cause(stage, job);
  job.wait_until_requeued(1);
  job.check_completed(digest, 1);
  return {job};
}

std::vector<TrainingJob> told_and_back(Stage& stage, const JobPlan& plan) { return back_after(tell, stage, plan); }

std::vector<TrainingJob> preempted(Stage& stage, const JobPlan& plan) {
  return back_after([](Stage& on, TrainingJob& job) { on.preempt_together({&job}); }, stage, plan);
}

/// An exit code alone would count as a launch that failed.
std::vector<TrainingJob> preempted_goes_back_by_scontrol(Stage& stage, const JobPlan& plan) {
  std::vector<TrainingJob> jobs = preempted(stage, plan);
  jobs.front().wait_until_said("is back in the queue");
  return jobs;
}

std::vector<TrainingJob> told_with_no_requeue(Stage& stage, JobPlan plan) {
  plan.arguments.emplace_back("--no-requeue");
  TrainingJob job(stage.slurm(), plan);
  job.wait_until_training(0);
  tell(stage, job);
  check_saved_but_not_again(job, "the job was submitted with --no-requeue");
  plan.training = kFast;
  TrainingJob again(stage.slurm(), plan);  // the user's own decision, in the same directory
  again.check_completed(undisturbed_digest(plan.training, kRanks), 0);
  check_equal("restored", again.summary().at("restored_from").is_null() ? "nothing" : "a checkpoint", "a checkpoint");
  return {job};
}

std::vector<TrainingJob> cancelled(Stage& stage, const JobPlan& plan) {
  TrainingJob job(stage.slurm(), plan);
  job.wait_until_training(0);
  job.note_cause();
  stage.slurm().command({"scancel", std::to_string(job.id())});
  check_cancelled(job);
  check_equal("status", job.summary().at("status"), "preempted");
  return {job};
}

/// The user changes his mind while the supervisor is about to put the job back.
std::vector<TrainingJob> cancelled_while_saving(Stage& stage) {
  TrainingJob job(stage.slurm(), plan_for("cancelled_while_saving", script_of_tree("srun.sbatch")));
  job.wait_until_training(0);
  // By one shell: the supervisor puts the job back within half a second.
  const std::string id = std::to_string(job.id());
  job.note_cause();
  stage.slurm().command({"sh", "-c", "scancel --signal=URG --batch " + id + " && exec scancel " + id});
  job.wait_until_ended("CANCELLED");
  job.wait_until_said(": the state is in ");
  check_equal("state", job.field("JobState"), "CANCELLED");
  return {job};
}

/// Nobody but `reprieve run` sees the end coming.
std::vector<TrainingJob> deadline_without_signal(Stage& stage, const std::string& launcher) {
  JobPlan plan = plan_for(launcher + "_deadline", without_signal(script_of_tree(launcher + ".sbatch")));
  plan.arguments.emplace_back("--time=1");
  const std::string digest = undisturbed_digest(plan.training, kRanks);
  TrainingJob job(stage.slurm(), plan);
  job.wait_until_requeued(1);
  job.wait_until_said("the job's end in Slurm is near");
  job.check_completed(digest, 1);
  return {job};
}

/// A controller that is busy, or being restarted, is asked again.
std::vector<TrainingJob> requeue_is_tried_again(Stage& stage) {
  const std::string name = "requeue_is_tried_again";
  const std::string script =
      replaced(script_of_tree("srun.sbatch"), "\n# module load ", "\nPATH=$PWD/broken:$PATH # module load ");
  const std::filesystem::path broken = stage.slurm().directory() / name / "broken";
  std::filesystem::create_directories(broken);
  write_program(broken / "scontrol", "#!/bin/sh\n[ \"$1\" != requeue ] || mkdir ../" + name +
                                         "/tried || { PATH=${PATH#*:}; exec scontrol \"$@\"; }\n"
                                         "[ \"$1\" = requeue ] && exit 1\nPATH=${PATH#*:}\nexec scontrol \"$@\"\n");
  return told_and_back(stage, plan_for(name, script));
}

/// What sometimes happens to one of many launches is no reason to be out of the queue.
std::vector<TrainingJob> launch_fails_once(Stage& stage) {
  JobPlan plan = plan_for("launch_fails_once", script_of_tree("srun.sbatch"), kFast);
  plan.program_start = "mkdir failed$SLURM_PROCID 2>/dev/null && exit 1";
  const std::string digest = undisturbed_digest(kUsual, kRanks);
  TrainingJob job(stage.slurm(), plan);
  job.check_completed(digest, 0);
  job.wait_until_said("start 2: srun");
  return {job};
}

/// Commands that name an array mean all of its tasks, and the array has the number of one of them.
std::vector<TrainingJob> array_task_alone(Stage& stage) {
  // The other task is slow to its end: that is to come long before a test has waited enough.
  const Training training{.steps = 200};
  const JobPlan plan{"array_task_alone",
                     script_of_tree("array.sbatch"),
                     training,
                     {"--array=0-1", "--ntasks-per-node=" + std::to_string(kRanks)}};
  const std::string digest = undisturbed_digest(training, kRanks);
  std::vector<TrainingJob> jobs = TrainingJob::array(stage.slurm(), plan, 2, files_of_task);
  for (TrainingJob& job : jobs) {
    job.wait_until_training(0);
  }
  const bool first = jobs[0].field("ArrayJobId") == std::to_string(jobs[0].id());
  TrainingJob& told = first ? jobs[0] : jobs[1];
  TrainingJob& other = first ? jobs[1] : jobs[0];
  check_equal("number of the array", told.field("ArrayJobId"), std::to_string(told.id()));
  tell(stage, told);
  told.wait_until_requeued(1);
  told.check_completed(digest, 1);
  other.check_completed(digest, 0);
  return {told};
}

/// Slurm sends SIGTERM to the shell of the batch script alone.
std::vector<TrainingJob> requeued_with_script(Stage& stage, const std::string& name, const std::string& launch) {
  const auto requeue = [](Stage& on, TrainingJob& job) {
    job.note_cause();
    on.slurm().command({"scontrol", "requeue", job.name_in_slurm()});
  };
  const std::string script = replaced(script_of_tree("srun.sbatch"), "\nexec reprieve run",
                                      "\nlaunch() {\n" + launch + "\n}\nlaunch reprieve run");
  std::vector<TrainingJob> jobs = back_after(requeue, stage, plan_for(name, script));
  check_equal("restored", jobs.front().summary().at("restored_from").is_null() ? "nothing" : "a checkpoint",
              "a checkpoint");
  return jobs;
}

struct Usual {
  static std::vector<Scenario> scenarios() {
    return {
        {"no_requeue",
         [](Stage& stage) {
           return told_with_no_requeue(stage, plan_for("no_requeue", script_of_tree("srun.sbatch")));
         }},
        {"cancelled_while_saving", cancelled_while_saving},
        {"srun_deadline", [](Stage& stage) { return deadline_without_signal(stage, "srun"); }},
        {"mpirun_deadline", [](Stage& stage) { return deadline_without_signal(stage, "mpirun"); }},
        {"requeue_is_tried_again", requeue_is_tried_again},
        {"launch_fails_once", launch_fails_once},
        {"array_task_alone", array_task_alone},
        {"background_trap_wait",
         [](Stage& stage) {
           return requeued_with_script(stage, "background_trap_wait",
                                       "\"$@\" & run=$!\n"
                                       "trap 'kill -TERM $run' TERM; trap 'kill -URG $run' URG\n"
                                       "while wait $run; code=$?; kill -0 $run 2>/dev/null; do :; done\n"
                                       "exit $code");
         }},
        {"a_line_after_it",
         [](Stage& stage) { return requeued_with_script(stage, "a_line_after_it", "\"$@\"\necho after it"); }},
        {"a_pipe", [](Stage& stage) { return requeued_with_script(stage, "a_pipe", "\"$@\" 2>&1 | cat"); }},
    };
  }
  static SlurmOptions options() { return {.cpus = kRanks * 8}; }
};
REPRIEVE_STAGE_TEST(JobRules, Usual);

/// The site has RequeueExit=42.
struct WithRequeueExit {
  static std::vector<Scenario> scenarios() {
    const std::string plain = script_of_tree("mpirun.sbatch");
    const std::string by_code = with_run_options(plain, "--requeue-exit");
    const auto scenario = [](const std::string& name, const std::string& script, const auto& play) {
      return Scenario{name, [=](Stage& stage) { return play(stage, plan_for(name, script)); }};
    };
    return {scenario("by_code", by_code, told_and_back),
            scenario("by_code_cancelled", by_code, cancelled),
            scenario("by_code_preempted", by_code, preempted_goes_back_by_scontrol),
            scenario("by_code_no_requeue", by_code, told_with_no_requeue),
            scenario("by_scontrol", plain, told_and_back),
            scenario("by_scontrol_cancelled", plain, cancelled),
            scenario("by_scontrol_no_requeue", plain, told_with_no_requeue)};
  }
  static SlurmOptions options() { return {.cpus = kRanks * 7, .requeue_exit = 42}; }
};
REPRIEVE_STAGE_TEST(RequeueExit, WithRequeueExit);

/// The site does not have preempt_send_user_signal: with mpirun, the supervisor alone finds out, by asking.
struct WithoutUserSignal {
  static std::vector<TrainingJob> preempted_by_asking(Stage& stage, const std::string& launcher) {
    return preempted(stage, plan_for(launcher + "_preempted",
                                     with_run_options(script_of_tree(launcher + ".sbatch"), "--slurm-poll 2s")));
  }
  static std::vector<TrainingJob> preempted_with_no_requeue(Stage& stage) {
    JobPlan plan = plan_for("preempted_no_requeue", with_run_options(script_of_tree("srun.sbatch"), "--slurm-poll 2s"));
    plan.arguments.emplace_back("--no-requeue");
    undisturbed_digest(kUsual, kRanks);  // the others wait for it: not to train while they do
    TrainingJob job(stage.slurm(), plan);
    job.wait_until_training(0);
    stage.preempt_together({&job});
    check_saved_but_not_again(job, "the job was submitted with --no-requeue",
                              stage.slurm().remembers_grace() ? "PREEMPTED" : "FAILED");
    return {job};
  }
  /// Slurm's SIGTERM to the ranks comes before they can know what it is.
  static std::vector<TrainingJob> killed_before_it_was_ready(Stage& stage) {
    JobPlan plan = plan_for("killed_before_it_was_ready", script_of_tree("srun.sbatch"));
    plan.program_start = "[ -n \"$SLURM_RESTART_COUNT\" ] || { touch started; sleep 1000; }";
    const std::string digest = undisturbed_digest(kUsual, kRanks);
    TrainingJob job(stage.slurm(), plan);
    job.wait_for_file("started");
    stage.preempt_together({&job});
    job.wait_until_requeued(1);
    job.wait_until_said("failed: the launcher ended with");
    job.check_completed(digest, 1);
    return {job};
  }
  static std::vector<Scenario> scenarios() {
    return {{"srun_preempted", [](Stage& stage) { return preempted_by_asking(stage, "srun"); }},
            {"mpirun_preempted", [](Stage& stage) { return preempted_by_asking(stage, "mpirun"); }},
            {"preempted_no_requeue", preempted_with_no_requeue},
            {"killed_before_it_was_ready", killed_before_it_was_ready}};
  }
  static SlurmOptions options() { return {.cpus = kRanks * 4, .preempt_send_user_signal = false}; }
};
REPRIEVE_STAGE_TEST(NoUserSignal, WithoutUserSignal);

// What a new user does: copies a batch script, or has one printed, puts his program beside it, and submits it as it is.

constexpr int kRanksOfScripts = 4;  // as the scripts have it
const Training kShortTraining{.steps = 400};

/// Whether all of the jobs survive one preemption.
void survive(Stage& stage, std::vector<TrainingJob>& jobs) {
  const std::string digest = undisturbed_digest(kShortTraining, kRanksOfScripts);
  std::vector<TrainingJob*> all;
  for (TrainingJob& job : jobs) {
    all.push_back(&job);
  }
  for_all(all, [](TrainingJob& job) { job.wait_until_training(0); });
  stage.preempt_together(all);
  for_all(all, [&](TrainingJob& job) {
    job.wait_until_requeued(1);
    job.check_completed(digest, 1);
  });
}

/// Made when the test begins.
using Script = std::function<std::string()>;

Script from_tree(const std::string& name) {
  return [=] { return script_of_tree(name); };
}
Script from_template(const std::vector<std::string>& options) {
  return [=] { return script_of_template(options); };
}

Scenario one_job(const std::string& name, const Script& script) {
  return {name, [=](Stage& stage) {
            std::vector<TrainingJob> jobs{TrainingJob(stage.slurm(), {name, script(), kShortTraining})};
            survive(stage, jobs);
            return jobs;
          }};
}

Scenario array(const std::string& name, const Script& script, int tasks, const TrainingJob::FilesOfTask& files_of) {
  return {name, [=](Stage& stage) {
            std::vector<TrainingJob> jobs =
                TrainingJob::array(stage.slurm(), {name, script(), kShortTraining}, tasks, files_of);
            survive(stage, jobs);
            return jobs;
          }};
}

struct Scripts {
  static std::vector<Scenario> scenarios() {
    const auto in_one_directory = [](const std::filesystem::path& directory, int task) {
      const std::string number = std::to_string(task);
      return TrainingJob::Files{directory / ("checkpoints-" + number), directory / ("summary" + number + ".json")};
    };
    return {one_job("srun", from_tree("srun.sbatch")), one_job("mpirun", from_tree("mpirun.sbatch")),
            array("array", from_tree("array.sbatch"), 4, files_of_task),
            one_job("template_srun", from_template({"--program", "./my-program"})),
            one_job("template_mpirun", from_template({"--program", "./my-program", "--launcher", "mpirun"})),
            // The program is told of its directory by `reprieve run` alone.
            array("template_array",
                  from_template({"--array", "0-1", "--directory", "checkpoints-$SLURM_ARRAY_TASK_ID", "--program",
                                 "./my-program"}),
                  2, in_one_directory)};
  }
  static SlurmOptions options() { return {.cpus = kRanksOfScripts * 10}; }
};
REPRIEVE_STAGE_TEST(NewUser, Scripts);

}  // namespace
}  // namespace reprieve::test
