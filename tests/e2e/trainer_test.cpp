// SPDX-License-Identifier: BSD-3-Clause
#include "trainer_test.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>

#include "support/run_directory.hpp"

namespace reprieve::test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

/// 200 steps: enough for an accuracy that a broken state would not reach.
const Options kTraining{"--epochs", "10", "--steps-per-epoch", "20"};

MpiCommand training_command(int ranks, const fs::path& checkpoints, const fs::path& summary, const Options& options) {
  const Options paths{"--checkpoint-dir", checkpoints.string(), "--summary", summary.string()};
  return {.ranks = ranks,
          .arguments = joined({program("reprieve-trainer")}, joined(kTraining, joined(paths, options)))};
}

/// Names the digest of this build of the trainer on so many ranks.
fs::path digest_file(int ranks) {
  const fs::path trainer = program("reprieve-trainer");
  std::ostringstream build;
  build << fs::file_size(trainer) << ' ' << fs::last_write_time(trainer).time_since_epoch().count();
  for (const std::string& option : kTraining) {
    build << ' ' << option;
  }
  const std::size_t key = std::hash<std::string>{}(build.str());
  return fs::path(REPRIEVE_CACHE_DIR) / ("digest-" + std::to_string(key) + "-" + std::to_string(ranks));
}

std::string train_undisturbed(int ranks) {
  const TemporaryDirectory directory;
  const fs::path summary = directory / "summary.json";
  Mpirun job(training_command(ranks, directory / "checkpoints", summary, {}));
  if (job.wait(kHang) != 0) {
    throw std::runtime_error("the undisturbed training failed: " + job.err());
  }
  return Json::parse(read_text(summary)).at("state_digest");
}

std::uint64_t number_of(const fs::path& checkpoint) {
  const std::string name = checkpoint.stem().string();
  std::uint64_t number = 0;
  std::from_chars(name.data() + name.rfind('-') + 1, name.data() + name.size(), number);
  return number;
}

/// Whether a process has a handler of its own for a signal.
bool handles(pid_t pid, int signal) {
  std::istringstream status(read_text("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) {
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1U) != 0;
    }
  }
  return false;
}

void wait_for(Mpirun& job, const std::string& what, const std::function<bool()>& happened) {
  static_cast<void>(wait_until([&] { return happened() || !job.running(); }, kHang));
  if (!happened()) {
    throw std::runtime_error("waited in vain for " + what + "; the job's output:\n" + job.out() + job.err());
  }
}

}  // namespace

Options slow(const Options& more) { return joined({"--step-delay-ms", "100"}, more); }

MpiCommand TrainerTest::command(int ranks, const Options& options) const {
  return training_command(ranks, checkpoints_, summary_, options);
}

std::unique_ptr<Mpirun> TrainerTest::start(const MpiCommand& command) const {
  fs::remove(summary_);
  return std::make_unique<Mpirun>(command);
}

std::unique_ptr<Mpirun> TrainerTest::start(int ranks, const Options& options) const {
  return start(command(ranks, options));
}

std::unique_ptr<Mpirun> TrainerTest::start_and_wait(int ranks, std::size_t saves) const {
  const std::size_t before = events("save_finished").size();
  auto job = start(ranks, slow({"--checkpoint-every", "4"}));
  wait_for_events(*job, "save_finished", before + saves);
  return job;
}

/// Open MPI 4.1.4 hangs at its end, with no rank left, now and then when a rank was killed while it connected to
/// mpirun (apps/reprieve/supervisor/processes.hpp); a person would kill it.
void TrainerTest::wait_for_end(Mpirun& job) {
  const auto end = std::chrono::steady_clock::now() + kHang;
  while (!job.wait(kHungLauncher) && std::chrono::steady_clock::now() < end) {
    // Ranks that have ended this moment leave mpirun its time.
    if (job.descendants().empty() && !job.wait(kHungLauncher)) {
      job.send(SIGKILL);
    }
  }
}

TrainerTest::Result TrainerTest::finish(Mpirun& job) const {
  wait_for_end(job);
  const int code = job.exit_code().value_or(-1);
  const std::string summary = read_text(summary_);
  return {code, job.out(), job.err(), summary.empty() ? Json() : Json::parse(summary)};
}

TrainerTest::Result TrainerTest::expect_preempted(Mpirun& job) const {
  Result result = finish(job);
  EXPECT_EQ(result.code, 42) << result.out << result.err;
  if (result.summary.is_null()) {
    ADD_FAILURE() << "no summary";
    return result;
  }
  EXPECT_EQ(result.summary["status"], "preempted");
  const fs::path saved = checkpoints_ / ("ckpt-" + result.summary["run_calls"].dump() + ".h5");
  EXPECT_EQ(result.summary["preemption"]["checkpoint"], saved.string());
  EXPECT_EQ(checkpoint_files().back(), saved);
  expect_tidy_directory();
  return result;
}

TrainerTest::Result TrainerTest::expect_same_end(int ranks, const Options& options) const {
  const auto checkpoints = checkpoint_files();
  const Json newest = checkpoints.empty() ? Json() : Json(checkpoints.back().filename().string());
  Result result = run(ranks, options);
  check_same_end(result, ranks);
  EXPECT_EQ(result.summary.value("restored_from", Json("no summary")), newest);
  return result;
}

void TrainerTest::check_same_end(const Result& result, int ranks) const {
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  ASSERT_FALSE(result.summary.is_null());
  EXPECT_EQ(result.summary["status"], "finished");
  EXPECT_EQ(result.summary["run_calls"], 200);
  EXPECT_EQ(result.summary["state_digest"], undisturbed_digest(ranks)) << result.out << result.err;
  expect_tidy_directory();
}

std::string TrainerTest::undisturbed_digest(int ranks) {
  const fs::path file = digest_file(ranks);
  std::string digest = read_text(file);
  if (digest.empty()) {
    digest = train_undisturbed(ranks);
    // Tests that run at the same time write the same; the rename keeps them from reading half of it.
    const TemporaryDirectory temporary(file.parent_path());
    std::ofstream(temporary / "digest") << digest;
    fs::rename(temporary / "digest", file);
  }
  return digest;
}

std::vector<Json> TrainerTest::events(const std::string& name) const {
  return events_of(read_text(checkpoints_ / "events.jsonl"), name);
}

void TrainerTest::wait_for_events(Mpirun& job, const std::string& name, std::size_t count) const {
  wait_for(job, "event " + name, [&] { return events(name).size() >= count; });
}

void TrainerTest::wait_for_handler(Mpirun& job, int rank, int signal) {
  wait_for(job, "a signal handler", [&] {
    const auto ranks = job.ranks();
    const auto found = ranks.find(rank);
    return found != ranks.end() && handles(found->second, signal);
  });
}

std::vector<fs::path> TrainerTest::checkpoint_files() const {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(checkpoints_, none)) {
    if (entry.path().extension() == ".h5") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return number_of(a) < number_of(b); });
  return files;
}

void TrainerTest::expect_sound_checkpoints() const {
  if (!checkpoint_files().empty()) {
    Process tool({{program("reprieve"), "verify", checkpoints_.string()}});
    EXPECT_EQ(tool.wait(kHang), 0) << tool.out() << tool.err();
  }
}

void TrainerTest::expect_tidy_directory() const {
  expect_sound_checkpoints();
  for (const auto& entry : fs::directory_iterator(checkpoints_)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "events.jsonl" || name == ".reprieve.lock" || name == ".reprieve.directory" ||
                name == ".reprieve.recycled" || name == ".reprieve.workers" || name.ends_with(".h5") ||
                name.find(".corrupt") != std::string::npos)
        << name;
  }
}

std::chrono::milliseconds TrainerOnRanks::random_time(std::chrono::milliseconds longest) {
  return std::chrono::milliseconds(std::uniform_int_distribution<std::int64_t>(0, longest.count())(random_));
}

}  // namespace reprieve::test
