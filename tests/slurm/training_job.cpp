#include "slurm/training_job.hpp"

#include <fstream>
#include <iomanip>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace reprieve::test {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

/// Much longer than anything takes: a test that waits so long has failed.
constexpr auto kLimit = 100s;

/// As the monotonic times of the record; one clock for all processes of the machine.
double monotonic_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

/// A script of the folder slurm, with the trainer in place of the user's program, and more options for `reprieve run`.
std::string adapted_script(const std::string& name, const std::string& command, const std::string& run_options) {
  const std::string text = read_text(fs::path(REPRIEVE_SOURCE_DIR) / "slurm" / name);
  const std::regex start(R"((\nexec reprieve run --slurm)( -- .*)\.\.?/my-program\n)");
  if (!std::regex_search(text, start)) {
    throw std::runtime_error("slurm/" + name + " does not start ./my-program");
  }
  return std::regex_replace(text, start, "$1" + run_options + "$2" + command + "\n");
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

}  // namespace

std::vector<std::string> Training::command() const {
  return {program("reprieve-trainer"),
          "--epochs",
          std::to_string(epochs),
          "--steps-per-epoch",
          std::to_string(steps_per_epoch),
          "--step-delay-ms",
          std::to_string(step_delay_ms),
          "--summary",
          "summary.json"};
}

std::string undisturbed_digest(Training training, int ranks) {
  const TemporaryDirectory directory;
  training.step_delay_ms = 0;
  Mpirun run({.ranks = ranks, .arguments = training.command(), .directory = directory.path()});
  if (run.wait(kLimit) != 0) {
    throw std::runtime_error("the undisturbed run failed:\n" + run.out() + run.err());
  }
  return json::parse(read_text(directory / "summary.json")).at("state_digest");
}

std::string PreemptionFigures::text() const {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << "cause to notice " << to_notice << " s, notice to commit "
       << std::setprecision(3) << to_commit << " s, grace used " << std::setprecision(2) << to_release
       << " s, requeue delay " << to_restart << " s";
  return text.str();
}

TrainingJob::TrainingJob(SlurmCluster& slurm, const std::string& name, const std::string& script,
                         const Training& training, std::vector<std::string> arguments, const std::string& run_options)
    : slurm_(slurm), directory_(slurm.directory() / name) {
  fs::create_directories(directory_);
  std::ofstream(directory_ / script) << adapted_script(script, joined(training.command()), run_options);
  arguments.insert(arguments.begin(), {"--chdir=" + directory_.string(), "--output=output.txt", "--job-name=" + name});
  arguments.push_back((directory_ / script).string());
  id_ = slurm.submit(arguments);
}

void TrainingJob::wait(const std::string& what, const std::function<bool()>& happened) {
  const auto happened_or_ended = [&] { return happened() || has_ended(slurm_.job(id_)); };
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!happened_or_ended() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(50ms);
  }
  if (!happened()) {
    throw std::runtime_error("waited in vain until " + what + "; the job is " + slurm_.job(id_)["JobState"] +
                             " after " + slurm_.job(id_)["Restarts"] + " restarts, exit code " +
                             slurm_.job(id_)["ExitCode"] + ":\n" + without_progress(output()) + slurm_.logs_of(id_) +
                             slurm_.command({"squeue", "--Format=JobID,State,Reason,NodeList,NumNodes,NumCPUs"}));
  }
}

void TrainingJob::wait_until_started(int start) {
  wait("start " + std::to_string(start) + " began", [&] {
    const std::string text = output();
    int begun = 0;
    for (std::size_t place = 0; (place = text.find("] start 1:", place)) != std::string::npos; ++place) {
      ++begun;
    }
    return begun > start;
  });
}

void TrainingJob::wait_until_training(int start) {
  wait("start " + std::to_string(start) + " was ready",
       [&] { return std::cmp_greater(events("ready").size(), start); });
  std::this_thread::sleep_for(1s);
}

void TrainingJob::wait_until_requeued(int times) {
  wait("the job was requeued", [&] {
    const JobFields fields = slurm_.job(id_);
    return restarts(fields) >= times && fields.at("JobState") == "PENDING";
  });
  releases_.push_back(monotonic_now());
}

void TrainingJob::wait_until_ended(const std::string& state) {
  wait("the job was " + state, [&] { return slurm_.job(id_)["JobState"] == state; });
}

void TrainingJob::note_cause() { causes_.push_back(monotonic_now()); }

std::vector<PreemptionFigures> TrainingJob::figures() const {
  const std::vector<json> notices = events("notice"), exits = events("exit"), ready = events("ready");
  std::vector<PreemptionFigures> all;
  for (std::size_t i = 0; i < notices.size() && i < exits.size(); ++i) {
    const double age = notices[i].value("age_s", 0.0);
    const double notice = notices[i].at("monotonic_s").get<double>() - age;
    PreemptionFigures figures;
    figures.to_notice = i < causes_.size() ? notice - causes_[i] : 0;
    figures.to_commit = exits[i].at("seconds_from_notice");
    figures.to_release = i < releases_.size() ? releases_[i] - notice : 0;
    if (i < releases_.size() && i + 1 < ready.size()) {
      figures.to_restart = ready[i + 1].at("monotonic_s").get<double>() - releases_[i];
    }
    all.push_back(figures);
  }
  return all;
}

json TrainingJob::summary() const { return json::parse(read_text(directory_ / "summary.json")); }

std::string TrainingJob::output() const { return read_text(directory_ / "output.txt"); }

std::vector<json> TrainingJob::events() const {
  std::vector<json> all;
  std::istringstream lines(read_text(directory_ / "checkpoints" / "events.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    if (json event = json::parse(line, nullptr, false); event.is_object()) {
      all.push_back(std::move(event));
    }
  }
  return all;
}

std::vector<json> TrainingJob::events(const std::string& kind) const {
  std::vector<json> all = events();
  std::erase_if(all, [&](const json& event) { return event.value("event", "") != kind; });
  return all;
}

}  // namespace reprieve::test
