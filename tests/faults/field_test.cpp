// SPDX-License-Identifier: BSD-3-Clause
#include "faults/field_test.hpp"

#include <signal.h>

#include <thread>

#include "storage/read/inspect_file.hpp"

namespace reprieve::test {

namespace {

using namespace std::chrono_literals;

bool is_checkpoint(const std::filesystem::path& file) {
  return file.extension() == ".h5" && file.filename().string().starts_with("ckpt-");
}

}  // namespace

MpiCommand FieldTest::command(int ranks, int steps, int step_ms, const Options& options) const {
  MpiCommand command{
      .ranks = ranks,
      .arguments = {program("faults_field"), checkpoints().string(), std::to_string(steps), std::to_string(step_ms)},
      .directory = directory_.path()};
  command.arguments.insert(command.arguments.end(), options.begin(), options.end());
  return command;
}

void FieldTest::wait_for_step(Mpirun& job, int step) {
  const std::string line = "step " + std::to_string(step) + "\n";
  const bool seen = wait_until([&] { return job.out().find(line) != std::string::npos || !job.running(); }, kLimit);
  ASSERT_TRUE(seen && job.out().find(line) != std::string::npos) << job.out() << job.err();
}

int FieldTest::end_of(Mpirun& job) {
  bool started = false;
  const auto is_over = [&] {
    const bool lives = !job.ranks().empty();
    started = started || lives;
    return !job.running() || (started && !lives);
  };
  const bool ended = wait_until(is_over, kLimit);
  EXPECT_TRUE(ended) << "still running\n" << job.err();
  if (ended && !job.wait(20s)) {
    job.send(SIGKILL);
  }
  const auto code = job.wait(20s);
  EXPECT_TRUE(job.wait_for_descendants(20s)) << "processes are left";
  return code.value_or(-1);
}

int FieldTest::expect_sound_checkpoints() const {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints())) {
    if (is_checkpoint(entry.path())) {
      ++count;
      for (const storage::Corruption& corruption : storage::verify_file(entry.path())) {
        ADD_FAILURE() << entry.path() << ": " << corruption.problem;
      }
    }
  }
  return count;
}

std::vector<nlohmann::json> FieldTest::events(const std::string& name) const {
  std::vector<nlohmann::json> found;
  for (const auto& logged : core::read_events(checkpoints() / "events.jsonl")) {
    if (nlohmann::json event = core::to_json(logged); event.at("event") == name) {
      found.push_back(std::move(event));
    }
  }
  return found;
}

std::string FieldTest::digest_in(const std::string& output) {
  const auto begin = output.find("digest ");
  return begin == std::string::npos ? "no digest" : output.substr(begin, output.find('\n', begin) - begin);
}

std::string FieldTest::digest_of(int steps, const Options& options) {
  const TemporaryDirectory directory;
  MpiCommand command{.ranks = 1,
                     .arguments = {program("faults_field"), directory / "c", std::to_string(steps), "0"},
                     .directory = directory.path()};
  for (const std::string& option : options) {
    if (option.starts_with("elements=")) {
      command.arguments.push_back(option);
    }
  }
  Mpirun job(command);
  EXPECT_EQ(job.wait(kLimit), 0) << job.err();
  return digest_in(job.out());
}

void FieldTest::expect_same_end(int ranks, int steps, const Options& options) const {
  const std::size_t restored = events("restore").size();
  const auto job = start(ranks, steps, 0, options);
  EXPECT_EQ(job->wait(kLimit), 0) << job->err();
  EXPECT_GT(events("restore").size(), restored) << "began again";
  EXPECT_EQ(digest_in(job->out()), digest_of(steps, options));
}

}  // namespace reprieve::test
