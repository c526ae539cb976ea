// SPDX-License-Identifier: BSD-3-Clause
#include "slurm/training_job.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <iomanip>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "support/run_directory.hpp"

namespace reprieve::test {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

/// Much longer than anything takes: a test that waits so long has failed.
constexpr auto kLimit = 240s;

/// As the monotonic times of the record; one clock for all processes of the machine.
double seconds_of(std::chrono::steady_clock::time_point when) {
  return std::chrono::duration<double>(when.time_since_epoch()).count();
}

std::vector<std::string> training_command(const Training& training) {
  return {program("reprieve-trainer"), "--epochs", std::to_string(training.steps / kStepsPerEpoch), "--steps-per-epoch",
          std::to_string(kStepsPerEpoch)};
}

std::string run_undisturbed(const Training& training, int ranks) {
  const TemporaryDirectory directory;
  std::vector<std::string> command = training_command(training);
  command.insert(command.end(), {"--summary", "summary.json"});
  Mpirun run({.ranks = ranks,
              .arguments = command,
              .environment = {{"TMPDIR", directory.path().string()}},  // as for jobs, see below
              .directory = directory.path()});
  if (run.wait(kLimit) != 0) {
    throw std::runtime_error("the undisturbed run failed:\n" + run.out() + run.err());
  }
  return json::parse(read_text(directory / "summary.json")).at("state_digest");
}

/// A directory with what a user has there: the script, and ./my-program. Submits the script.
int submit(SlurmCluster& slurm, const JobPlan& plan) {
  const fs::path directory = slurm.directory() / plan.name;
  // Its own, as Open MPI's directory for sessions is one for all jobs of a user: one that ends can remove it under one
  // that starts.
  const fs::path temporary = directory / "tmp";
  fs::create_directories(temporary);
  std::ofstream(directory / "job.sbatch") << plan.script;
  std::ostringstream program;
  program << "#!/bin/sh\n"
          << plan.program_start << "\ndelay=400\n[ \"${SLURM_RESTART_COUNT:-0}\" -lt " << plan.training.slow_starts
          << " ] || delay=1\nexec";
  for (const std::string& word : training_command(plan.training)) {
    program << " '" << word << "'";
  }
  program << " --step-delay-ms $delay --summary \"summary$SLURM_ARRAY_TASK_ID.json\" \"$@\"\n";
  write_program(directory / "my-program", program.str());
  std::vector<std::string> arguments = plan.arguments;
  arguments.insert(arguments.begin(), "--chdir=" + directory.string());
  arguments.push_back(directory / "job.sbatch");
  return slurm.submit(arguments, {{"TMPDIR", temporary.string()}});
}

/// The trainer's line for each epoch left out.
std::string without_progress(const std::string& output) {
  std::string kept;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    kept += line.starts_with("epoch ") ? "" : line + "\n";
  }
  return kept;
}

/// Slurm shows some other states while a job is signalled, requeued or ended; a new job it may not know yet.
bool has_ended(const JobFields& fields) {
  const std::set<std::string> ends{"COMPLETED", "FAILED",    "CANCELLED", "TIMEOUT",
                                   "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"};
  const auto state = fields.find("JobState");
  return state != fields.end() && ends.contains(state->second);
}

int restarts(const JobFields& fields) {
  const auto found = fields.find("Restarts");
  return found == fields.end() ? 0 : std::stoi(found->second);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t place = 0; (place = text.find(part, place)) != std::string::npos; ++place) {
    ++found;
  }
  return found;
}

}  // namespace

void write_program(const fs::path& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
  const bool is_written = file >= 0 && ::write(file, text.data(), text.size()) == std::ssize(text);
  if (file < 0 || ::close(file) != 0 || !is_written) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

std::string undisturbed_digest(const Training& training, int ranks) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, std::string> known;
  const std::scoped_lock lock(mutex);
  std::string& digest = known[{training.steps, ranks}];
  if (digest.empty()) {
    digest = run_undisturbed(training, ranks);
  }
  return digest;
}

std::string script_of_tree(const std::string& name) {
  const std::string text = read_text(fs::path(REPRIEVE_SOURCE_DIR) / "slurm" / name);
  if (text.empty()) {
    throw std::runtime_error("there is no slurm/" + name);
  }
  return text;
}

std::string script_of_template(const std::vector<std::string>& options) {
  std::vector<std::string> command{program("reprieve"), "sbatch-template"};
  command.insert(command.end(), options.begin(), options.end());
  Process process({command});
  if (process.wait(kLimit) != 0) {
    throw std::runtime_error("reprieve sbatch-template: " + process.err());
  }
  return process.out();
}

std::string replaced(const std::string& script, const std::string& part, const std::string& replacement) {
  if (count(script, part) != 1) {
    throw std::runtime_error("the script does not have once: " + part + "\n" + script);
  }
  return std::string(script).replace(script.find(part), part.size(), replacement);
}

std::string with_run_options(const std::string& script, const std::string& options) {
  return replaced(script, "\nexec reprieve run --slurm ", "\nexec reprieve run --slurm " + options + " ");
}

std::string with_slow_modules(const std::string& script) {
  return replaced(script, "\n# module load ", "\nsleep 5 # ");
}

std::string without_signal(const std::string& script) { return replaced(script, "\n#SBATCH --signal=", "\n# "); }

std::string text_of(const PreemptionFigures& figures) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(3);
  const auto show = [&](const char* what, const std::optional<double>& seconds) -> std::ostream& {
    text << what;
    return seconds ? text << *seconds << " s" : text << "- s";
  };
  show("cause to notice ", figures.to_notice);
  show(", notice to commit ", figures.to_commit);
  show(", grace used ", figures.to_release);
  show(", requeue delay ", figures.to_restart);
  return text.str();
}

TrainingJob::TrainingJob(SlurmCluster& slurm, const JobPlan& plan)
    : TrainingJob(slurm, submit(slurm, plan),
                  {slurm.directory() / plan.name / "checkpoints", slurm.directory() / plan.name / "summary.json"}) {}

std::vector<TrainingJob> TrainingJob::array(SlurmCluster& slurm, const JobPlan& plan, int tasks,
                                            const FilesOfTask& files_of) {
  const int array = submit(slurm, plan);
  std::vector<TrainingJob> jobs;
  for (int task = 0; task < tasks; ++task) {
    std::optional<int> id;
    if (!wait_until([&] { return (id = slurm.array_task(array, task)).has_value(); }, kLimit)) {
      throw std::runtime_error("task " + std::to_string(task) + " of " + plan.name + " did not start\n" + slurm.logs());
    }
    jobs.push_back(TrainingJob(slurm, *id, files_of(slurm.directory() / plan.name, task)));
  }
  return jobs;
}

std::string TrainingJob::name_in_slurm() const {
  const std::string array = field("ArrayJobId");
  return array.empty() ? std::to_string(id_) : array + "_" + field("ArrayTaskId");
}

void TrainingJob::wait(const std::string& what, const std::function<bool()>& happened) const {
  const auto happened_or_ended = [&] { return happened() || has_ended(slurm_->job(id_)); };
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!happened_or_ended() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(100ms);
  }
  if (!happened()) {
    throw std::runtime_error("waited in vain until " + what + "; the job is " + field("JobState") + " after " +
                             field("Restarts") + " restarts, exit code " + field("ExitCode") + ":\n" +
                             without_progress(output()) + slurm_->logs_of(id_) +
                             slurm_->command({"squeue", "--Format=JobID,State,Reason,NodeList,NumNodes,NumCPUs"}));
  }
}

void TrainingJob::wait_until_running(int start) {
  wait("Slurm had started it " + std::to_string(start + 1) + " times", [&] {
    const JobFields fields = slurm_->job(id_);
    return restarts(fields) >= start && fields.contains("JobState") && fields.at("JobState") == "RUNNING";
  });
}

void TrainingJob::wait_until_started(int start) {
  wait("start " + std::to_string(start) + " began",
       [&] { return std::cmp_greater(count(output(), "] start 1:"), start); });
}

void TrainingJob::wait_until_training(int start) {
  wait("start " + std::to_string(start) + " was training", [&] {
    const std::string text = output();
    const std::string ready = "] the ranks are ready";
    return std::cmp_greater(count(text, ready), start) && text.find("\nepoch ", text.rfind(ready)) != std::string::npos;
  });
}

void TrainingJob::wait_until_requeued(int times) {
  wait("the job was requeued", [&] {
    const JobFields fields = slurm_->job(id_);
    // One that is still being ended counts its restart already.
    return restarts(fields) >= times && (fields.at("JobState") == "PENDING" || fields.at("JobState") == "RUNNING");
  });
  releases_.push_back(std::chrono::steady_clock::now());
}

void TrainingJob::wait_for_file(const std::string& name) {
  wait("there was a file " + name, [&] { return fs::exists(files_.summary.parent_path() / name); });
}

void TrainingJob::wait_until_said(const std::string& text) {
  const auto said = [&] { return output().find(text) != std::string::npos; };
  if (!wait_until(said, kLimit)) {  // also after the end of the job
    throw std::runtime_error("the job never said \"" + text + "\":\n" + without_progress(output()));
  }
}

void TrainingJob::wait_until_ended(const std::string& state) {
  wait("the job was " + state, [&] { return field("JobState") == state; });
}

void TrainingJob::check_restarts(int times) const {
  const std::size_t ends = count(output(), "] finished: ");
  const bool again = ends == 2 && slurm_->remembers_grace();
  check_equal("ends", std::to_string(ends), again ? "2" : "1");
  check_equal("restarts", field("Restarts"), std::to_string(again ? times + 1 : times));
}

void TrainingJob::check_completed(const std::string& digest, int restarts) {
  wait_until_ended("COMPLETED");
  check_restarts(restarts);
  check_equal("digest", summary().at("state_digest"), digest);
}

void TrainingJob::note_cause(std::chrono::steady_clock::time_point when) { causes_.push_back(when); }

std::vector<PreemptionFigures> TrainingJob::figures() const {
  const std::vector<json> notices = events("notice"), exits = events("exit"), ready = events("ready");
  std::vector<PreemptionFigures> all;
  for (std::size_t i = 0; i < notices.size() && i < exits.size(); ++i) {
    const double age = notices[i].value("age_s", 0.0);
    const double notice = notices[i].at("monotonic_s").get<double>() - age;
    PreemptionFigures figures;
    figures.to_commit = exits[i].at("seconds_from_notice");
    if (i < causes_.size()) {
      figures.to_notice = notice - seconds_of(causes_[i]);
    }
    if (i < releases_.size()) {
      figures.to_release = seconds_of(releases_[i]) - notice;
    }
    if (i < releases_.size() && i + 1 < ready.size()) {
      figures.to_restart = ready[i + 1].at("monotonic_s").get<double>() - seconds_of(releases_[i]);
    }
    all.push_back(figures);
  }
  return all;
}

json TrainingJob::summary() const { return json::parse(read_text(files_.summary)); }

std::vector<json> TrainingJob::events(const std::string& kind) const {
  return events_of(read_text(files_.checkpoints / "events.jsonl"), kind);
}

void for_all(const std::vector<TrainingJob*>& jobs, const std::function<void(TrainingJob&)>& call) {
  std::vector<std::future<void>> calls;
  for (TrainingJob* job : jobs) {
    calls.push_back(std::async(std::launch::async, [&call, job] { call(*job); }));
  }
  for (std::future<void>& each : calls) {
    each.get();
  }
}

TrainingJob::Files files_of_task(const fs::path& directory, int task) {
  const std::string number = std::to_string(task);
  const fs::path own = directory / ("task-" + number);
  return {own / "checkpoints", own / ("summary" + number + ".json")};
}

void check_equal(const std::string& what, const std::string& is, const std::string& should) {
  if (is != should) {
    throw std::runtime_error(what + " is " + is + ", should be " + should);
  }
}

}  // namespace reprieve::test
