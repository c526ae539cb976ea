// SPDX-License-Identifier: BSD-3-Clause
#include "faults/lives.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "faults/valid_checkpoints.hpp"
#include "manager/node_directory.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

/// More steps than any life has.
constexpr std::uint64_t kForEver = 1'000'000;
/// A killed job is gone within some seconds, on a loaded machine too.
constexpr auto kDeath = 30s;

/// One rank needs no mpirun, and starts much faster without it.
std::unique_ptr<Process> start_alone(const MpiCommand& what) {
  Command command{.arguments = what.arguments, .environment = what.environment};
  command.environment["OMPI_MCA_ess_singleton_isolated"] = "1";
  return std::make_unique<Process>(command);
}

std::vector<nlohmann::json> events_in(const fs::path& directory) {
  return events_of(read_text(directory / "events.jsonl"));
}

/// The newest step of which a part is complete.
std::uint64_t newest_copy_in(const fs::path& local) {
  std::uint64_t newest = 0;
  for (const manager::LocalFolder& folder : manager::local_folders(local)) {
    for (const manager::FoundPart& part : folder.parts) {
      newest = std::max(newest, part.name.copy.number);
    }
  }
  return newest;
}

/// The newest step of which all parts are complete, whatever copy they are of the same rank's.
std::uint64_t newest_whole_copy_in(const fs::path& local) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::set<int>> ranks_of;  // by run and save
  std::uint64_t newest = 0;
  for (const manager::LocalFolder& folder : manager::local_folders(local)) {
    for (const manager::FoundPart& part : folder.parts) {
      const storage::LocalCopy& copy = part.name.copy;
      std::set<int>& ranks = ranks_of[{copy.save.run, copy.save.save}];
      ranks.insert(part.name.rank);
      if (ranks.size() == static_cast<std::size_t>(copy.ranks)) {
        newest = std::max(newest, copy.number);
      }
    }
  }
  return newest;
}

/// What the newest start in the log has restored; nothing if it had not come so far.
std::optional<std::uint64_t> restored_by_newest(const fs::path& directory) {
  std::optional<std::uint64_t> number;
  for (const auto& event : events_in(directory)) {
    if (event.at("event") == "start") {
      number.reset();
    } else if (event.at("event") == "restore") {
      number = event.at("number").get<std::uint64_t>();
    }
  }
  return number;
}

}  // namespace

MpiCommand Lives::command(const fs::path& directory, std::uint64_t steps, const std::string& mode) const {
  static const std::map<std::string, std::vector<std::string>> kModes{
      {"recycle", {"keep=1", "save_every=1"}},
      {"files", {"keep=1", "save_every=1", "files=1"}},
      {"pieces", {"keep=1", "save_every=1", "pieces=1"}},
      {"background", {"keep=2", "save_every=1", "background=1"}},
      {"preempt", {"keep=1", "save_every=1", "notice_at_begin=1"}},
      {"local", {"keep=1", "save_every=16"}},
      {"far", {"keep=1", "partner=1", "hosts=1"}},
      {"long", {"keep=1", "emergency_ms=20"}},
      {"none", {}}};
  MpiCommand what{.ranks = ranks_,
                  .arguments = {program("e2e_field"), directory, std::to_string(steps), mode == "long" ? "2" : "0"},
                  // Without the option, a launcher gives the survivors of a dead rank a second to clean up.
                  .mpirun_options = {"--mca", "odls_base_sigkill_timeout", "0"}};
  // 0.5 MiB a rank, not a whole number of pages; of both ranks enough for an exchange.
  what.arguments =
      joined(what.arguments, {"elements=" + std::to_string(251 * 262 * ranks_), "columns=262", "own=1", "io=direct"});
  what.arguments = joined(what.arguments, kModes.at(mode));
  if (mode == "local" || mode == "far" || mode == "long") {
    what.arguments.push_back("local=" + local_.path().string());
  }
  if (mode == "far") {  // another piece in each second life, so that what a rank needs lies on another host
    what.arguments.push_back("turn=" + std::to_string(restarts_ % 2));
  }
  return what;
}

Life Lives::start(const std::string& mode, const Environment& environment, const std::vector<std::string>& options) {
  ++restarts_;
  MpiCommand what = command(run_, kForEver, mode);
  what.arguments = joined(what.arguments, options);
  what.environment.insert(environment.begin(), environment.end());
  if (ranks_ == 1) {
    return {nullptr, start_alone(what)};
  }
  return {std::make_unique<Mpirun>(what), nullptr};
}

int Lives::wait_for_death(const Life& life) {
  Process& job = life.job();
  const auto code = job.wait(kDeath);
  if (!code) {
    EXPECT_TRUE(life.mpirun && life.mpirun->ranks().empty()) << "hangs\n" << job.out() << job.err();
    return -1;
  }
  EXPECT_TRUE(job.wait_for_descendants(kDeath));
  return *code;
}

void Lives::live_for_copies(const std::string& mode) {
  const std::uint64_t before = std::max(newest_checkpoint_in(run_), newest_copy_in(local_.path()));
  const Life life = start(mode);
  EXPECT_TRUE(wait_until([&] { return newest_whole_copy_in(local_.path()) > before || !life.job().running(); }, 120s));
  EXPECT_TRUE(life.job().running()) << life.job().out() << life.job().err();
  if (life.mpirun) {
    life.mpirun->send_to_ranks(SIGKILL);
  } else {
    life.job().send(SIGKILL);
  }
  wait_for_death(life);
}

std::string Lives::digest_of(const fs::path& directory, std::uint64_t steps, const std::string& mode) const {
  Mpirun job(command(directory, steps, mode));
  const auto code = job.wait(120s);
  EXPECT_EQ(code, 0) << job.out() << job.err();
  const std::string out = job.out();
  const auto at = out.find("digest ");
  EXPECT_NE(at, std::string::npos) << out << job.err();
  return at == std::string::npos ? "" : out.substr(at);
}

std::uint64_t Lives::newest_whole() const {
  return std::max(newest_checkpoint_in(run_), newest_whole_copy_in(local_.path()));
}

void Lives::expect_one_copy_under_way() const {
  const std::uint64_t whole = newest_whole();
  std::map<std::pair<std::uint64_t, int>, std::set<std::uint64_t>> newer;  // by run and rank
  for (const manager::LocalFolder& folder : manager::local_folders(local_.path())) {
    for (const manager::FoundPart& part : folder.parts) {
      if (part.name.copy.number > whole) {
        newer[{part.name.copy.save.run, part.name.rank}].insert(part.name.copy.number);
      }
    }
  }
  for (const auto& [place, numbers] : newer) {
    EXPECT_LE(numbers.size(), 1U) << "rank " << place.second << " has begun two copies after " << whole;
  }
}

void Lives::lose_memory() const {
  for (const auto& entry : fs::directory_iterator(local_.path())) {
    fs::remove_all(entry.path());
  }
}

std::optional<std::uint64_t> Lives::restored_last() const { return restored_by_newest(run_); }

void Lives::expect_restored_at_least(std::uint64_t number) const {
  if (const auto restored = restored_last()) {
    EXPECT_GE(*restored, number) << "a newer state was there";
  }
}

void Lives::expect_same_end(std::uint64_t reached) {
  const std::uint64_t steps = std::max({newest_checkpoint_in(run_), newest_copy_in(local_.path()), reached}) + 20;
  const std::string mine = digest_of(run_, steps, "local");
  EXPECT_EQ(mine, digest_of(temporary_ / "undisturbed", steps, "none"));
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run_)) {
    const std::string name = entry.path().filename().string();
    const bool is_checkpoint = name.starts_with("ckpt-") && name.ends_with(".h5");
    const bool is_of_checkpoint =
        name.ends_with(".files") && fs::exists(run_ / fs::path(name).replace_extension(".h5"));
    EXPECT_TRUE(is_checkpoint || is_of_checkpoint || name == ".reprieve.lock" ||
                name.starts_with(".reprieve.directory") || name == ".reprieve.workers" || name == "events.jsonl")
        << name << " is left behind";
  }
  for (const auto& entry : fs::directory_iterator(local_.path())) {
    ADD_FAILURE() << entry.path() << " is left behind";
  }
  for (const auto& entry : fs::directory_iterator(temporary_.path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("workertemp_")) << entry.path() << " is left behind";
  }
}

bool Lives::have_saved() const {
  const auto events = events_in(run_);
  return std::ranges::any_of(events, [](const auto& event) { return event.at("event") == "save_finished"; });
}

void expect_nothing_lost(const fs::path& directory) {
  std::uint64_t committed = 0;
  std::uint64_t begun = 0;
  bool restored = true;
  for (const auto& event : events_in(directory)) {
    const std::string name = event.at("event");
    if (name == "start") {
      restored = committed == 0;
    } else if (name == "restore") {
      restored = true;
      const auto number = event.at("number").get<std::uint64_t>();
      EXPECT_GE(number, committed) << "a committed checkpoint is lost";
      const bool is_local_copy = event.at("file").get<std::string>().ends_with(".part");
      EXPECT_TRUE(is_local_copy || number <= std::max(begun, committed)) << event;
    } else if (name == "drain_started") {
      begun = event.at("number");
    } else if (name == "save_started") {
      EXPECT_TRUE(restored) << "began again, though checkpoint " << committed << " had been committed";
      begun = event.at("number");
    } else if (name == "save_finished" || name == "drained") {
      committed = std::max(committed, event.at("number").get<std::uint64_t>());
    }
    EXPECT_NE(name, "passed_over") << event;
  }
  EXPECT_GT(committed, 0U);
  expect_valid_checkpoints(directory);
}

}  // namespace reprieve::test
