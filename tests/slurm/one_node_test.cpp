// A preempted job comes back and ends as if nothing had happened, whatever the launcher and the way it is told.
//
// Every cell of the matrix is a job of its own; all jobs of a suite run side by side in one Slurm. As root Slurm kills
// by control group, otherwise by parent process: these differ in which processes get its signals.

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <future>
#include <iostream>
#include <map>

#include "slurm/slurm_cluster.hpp"
#include "slurm/training_job.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 2;

enum class Cause {
  grace,        ///< a higher partition's job, with a grace period
  no_grace,     ///< the same without
  time_limit,   ///< `--signal` before the end of the job's time
  cancel,       ///< scancel; the job must not come back
  requeue,      ///< scontrol requeue
  user_signal,  ///< scancel --signal=USR1 --batch
  at_start,     ///< the same before the ranks are ready
};

struct Cell {
  std::string launcher;
  Cause cause;
  int times;  ///< preemptions in a row

  friend std::ostream& operator<<(std::ostream& stream, const Cell& cell) { return stream << cell.name(); }

  [[nodiscard]] std::string name() const {
    const std::map<Cause, std::string> names{{Cause::grace, "grace"},           {Cause::no_grace, "no_grace"},
                                             {Cause::time_limit, "time_limit"}, {Cause::cancel, "cancel"},
                                             {Cause::requeue, "requeue"},       {Cause::user_signal, "user_signal"},
                                             {Cause::at_start, "at_start"}};
    return launcher + "_" + names.at(cause) + "_" + std::to_string(times);
  }
};

std::vector<Cell> cells_of(const std::vector<Cause>& causes) {
  std::vector<Cell> cells;
  for (const Cause cause : causes) {
    for (const int times : {2, 1}) {
      for (const auto* launcher : {"srun", "mpirun"}) {
        cells.push_back({launcher, cause, times});
      }
    }
  }
  return cells;
}

/// Preempts jobs together: a job that needs the whole node cannot pick its victims.
class Waves {
 public:
  Waves(SlurmCluster& slurm, std::size_t jobs)
      : slurm_(slurm), barrier_(static_cast<std::ptrdiff_t>(jobs), Preempt{this}) {}

  /// Waits until every job has called this or has left, and preempts all. @p job is told the time.
  void preempt(TrainingJob& job) {
    ++waiting_;
    barrier_.arrive_and_wait();
    job.note_cause();
  }
  void leave() { barrier_.arrive_and_drop(); }

 private:
  struct Preempt {
    Waves* waves;
    void operator()() noexcept { waves->preempt_all(); }
  };

  void preempt_all() noexcept {
    if (waiting_.exchange(0) == 0) {
      return;  // the last one has left
    }
    try {
      static_cast<void>(
          slurm_.submit({"--partition=high", "--exclusive", "--nodes=1", "--output=/dev/null", "--wrap", "sleep 1"}));
    } catch (const std::exception& error) {
      std::cerr << "cannot preempt: " << error.what() << '\n';
    }
  }

  SlurmCluster& slurm_;
  std::atomic<int> waiting_{0};
  std::barrier<Preempt> barrier_;
};

/// The jobs of one suite, side by side.
class Matrix {
 public:
  Matrix(const SlurmOptions& options, const std::vector<Cell>& cells) : slurm_(options), waves_(slurm_, cells.size()) {
    for (const Cell& cell : cells) {
      if (!digests_.contains(steps_of(cell))) {
        digests_[steps_of(cell)] = undisturbed_digest(training(steps_of(cell)), kRanks);
      }
    }
    for (const Cell& cell : cells) {
      results_[cell.name()] = std::async(std::launch::async, [this, cell] { return run(cell); });
    }
  }

  /// What is wrong with the cell; empty if nothing is.
  std::string result(const Cell& cell) { return results_.at(cell.name()).get(); }

 private:
  static int steps_of(const Cell& cell) {
    if (cell.cause == Cause::time_limit) {
      return 400 * cell.times;  // outlasts as many notices
    }
    // Those that are preempted twice are still there when the others are done: only then they are preempted again.
    return cell.times == 1 ? 100 : 400;
  }

  /// Few steps, and long ones, so that many jobs at once do not slow each other down.
  static Training training(int steps) { return {.epochs = steps / 10, .steps_per_epoch = 10, .step_delay_ms = 100}; }

  std::string run(const Cell& cell) {
    std::string problem;
    try {
      preempt_and_check(cell);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    waves_.leave();
    return problem;
  }

  void preempt_and_check(const Cell& cell) {
    // The usual lead is longer than the shortest limit that Slurm has, a minute.
    const std::string run_options = cell.cause == Cause::time_limit ? " --lead 20s" : "";
    TrainingJob job(slurm_, cell.name(), cell.launcher + ".sbatch", training(steps_of(cell)), arguments(cell),
                    run_options);
    for (int i = 0; i < cell.times; ++i) {
      const bool is_last = i + 1 == cell.times;
      preempt(job, cell.cause == Cause::cancel && !is_last ? Cause::user_signal : cell.cause, i);
      if (cell.cause == Cause::cancel && is_last) {
        check_cancelled(job, cell);
        return;
      }
      job.wait_until_requeued(i + 1);
    }
    job.wait_until_ended("COMPLETED");
    report(cell, job);
    check_equal("digest", job.summary().at("state_digest"), digests_.at(steps_of(cell)));
  }

  static std::vector<std::string> arguments(const Cell& cell) {
    std::vector<std::string> arguments{"--ntasks=" + std::to_string(kRanks),
                                       "--ntasks-per-node=" + std::to_string(kRanks)};
    arguments.push_back(cell.cause == Cause::no_grace ? "--partition=low0" : "--partition=low");
    if (cell.cause == Cause::time_limit) {
      // Slurm looks every 30 s, and ahead by as much: the signal comes within 30 s of the start.
      arguments.insert(arguments.end(), {"--time=1", "--signal=B:USR1@30"});
    } else {
      arguments.emplace_back("--time=10");
    }
    return arguments;
  }

  void preempt(TrainingJob& job, Cause cause, int start) {
    if (cause == Cause::at_start) {
      job.wait_until_started(start);
    } else {
      job.wait_until_training(start);
    }
    if (cause == Cause::grace || cause == Cause::no_grace) {
      waves_.preempt(job);
      return;
    }
    job.note_cause();
    const std::string id = std::to_string(job.id());
    if (cause == Cause::cancel) {
      slurm_.command({"scancel", id});
    } else if (cause == Cause::requeue) {
      slurm_.command({"scontrol", "requeue", id});
    } else if (cause != Cause::time_limit) {
      slurm_.command({"scancel", "--signal=USR1", "--batch", id});
    }
  }

  /// Saved, cancelled, and not brought back to life.
  void check_cancelled(TrainingJob& job, const Cell& cell) {
    job.wait_until_ended("CANCELLED");
    report(cell, job);
    check_equal("status", job.summary().at("status"), "preempted");
    check_equal("times saved", std::to_string(job.figures().size()), std::to_string(cell.times));
    std::this_thread::sleep_for(8s);  // a requeued job would be back by now
    check_equal("state", slurm_.job(job.id())["JobState"], "CANCELLED");
    check_equal("restarts", slurm_.job(job.id())["Restarts"], std::to_string(cell.times - 1));
  }

  static void check_equal(const std::string& what, const std::string& is, const std::string& should) {
    if (is != should) {
      throw std::runtime_error(what + " is " + is + ", should be " + should);
    }
  }

  static void report(const Cell& cell, const TrainingJob& job) {
    std::string text;
    for (const PreemptionFigures& figures : job.figures()) {
      text += "[  FIGURES ] " + cell.name() + ": " + figures.text() + "\n";
    }
    std::cout << text << std::flush;
  }

  SlurmCluster slurm_;
  std::map<int, std::string> digests_;  ///< by number of steps
  Waves waves_;
  std::map<std::string, std::future<std::string>> results_;  // last: they use the members above
};

/// @tparam Causes  tells suites apart, since each has a Matrix
template <class Causes>
class MatrixTest : public ::testing::TestWithParam<Cell> {
 protected:
  static SlurmOptions options() {
    SlurmOptions options{.cpus = 2 * static_cast<int>(Causes::cells().size()), .control_groups = true};
    options.control_groups = SlurmCluster::obstacle(options).empty();
    return options;
  }

  /// Starts the jobs of those tests that are to run.
  static void SetUpTestSuite() {
    if (!SlurmCluster::obstacle(options()).empty()) {
      return;
    }
    const std::vector<Cell> all = Causes::cells();
    std::vector<Cell> chosen;
    const ::testing::TestSuite* suite = ::testing::UnitTest::GetInstance()->current_test_suite();
    for (int i = 0; i < suite->total_test_count(); ++i) {
      if (suite->GetTestInfo(i)->should_run()) {
        chosen.push_back(all.at(static_cast<std::size_t>(i)));
      }
    }
    matrix_ = std::make_unique<Matrix>(options(), chosen);
  }
  static void TearDownTestSuite() { matrix_.reset(); }

  void SetUp() override { REPRIEVE_NEEDS_SLURM(options()); }

  static inline std::unique_ptr<Matrix> matrix_;
};

struct ByAnotherJob {
  static std::vector<Cell> cells() { return cells_of({Cause::grace, Cause::no_grace}); }
};
struct ByACommand {
  static std::vector<Cell> cells() {
    return cells_of({Cause::time_limit, Cause::cancel, Cause::requeue, Cause::user_signal, Cause::at_start});
  }
};

const auto kCellName = [](const ::testing::TestParamInfo<Cell>& info) { return info.param.name(); };

using OneNodePreempted = MatrixTest<ByAnotherJob>;
TEST_P(OneNodePreempted, EndsAsIfUndisturbed) { EXPECT_EQ(matrix_->result(GetParam()), ""); }
INSTANTIATE_TEST_SUITE_P(Slurm, OneNodePreempted, ::testing::ValuesIn(ByAnotherJob::cells()), kCellName);

using OneNodeTold = MatrixTest<ByACommand>;
TEST_P(OneNodeTold, EndsAsIfUndisturbed) { EXPECT_EQ(matrix_->result(GetParam()), ""); }
INSTANTIATE_TEST_SUITE_P(Slurm, OneNodeTold, ::testing::ValuesIn(ByACommand::cells()), kCellName);

}  // namespace
}  // namespace reprieve::test
