// SPDX-License-Identifier: BSD-3-Clause
// `background` and `local`: what a save in the background and a node-local copy cost the program, and a start from one.
#include <mpi.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>

#include "manager/local_copies.hpp"
#include "manager/manager_impl.hpp"
#include "measure.hpp"
#include "raw_file.hpp"
#include "reprieve/reprieve.hpp"
#include "workload.hpp"

namespace reprieve::bench {

namespace {

namespace fs = std::filesystem;

struct CopyOptions {
  std::vector<double> sizes_mib{64, 512};
  double loop_s = 0.3;
  fs::path local = "/dev/shm";
  bool partner = false;
  CommonOptions common;
};

constexpr const char* kMemcpy = "memcpy of the state";
constexpr const char* kLoop = "a loop of work";

/// A manager that makes copies of a state, and what they are compared with: a memcpy, and a loop of work.
class Copying {
 public:
  Copying(Workload& workload, const fs::path& directory, const ManagerOptions& options, double loop_s)
      : workload_(workload),
        manager_(MPI_COMM_WORLD, workload.checkpoint(), directory, options),
        copy_(workload.bytes().size()),
        iterations_(work_.iterations(loop_s)) {}

  [[nodiscard]] std::vector<Candidate> saves_in_background() {
    const auto finish = [this] { manager_.finish_background_save(); };
    const auto begin = [this] {
      CheckpointManager::SaveRequest request;
      request.number = ++number_;
      manager_.save_in_background(request);
    };
    const auto all_written = [this, begin] {
      begin();
      while (!manager_.background_save_written()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    const auto begin_and_finish = [begin, finish] {
      begin();
      finish();
    };
    return {memcpy_of_state(finish),
            {"to begin a save in the background", begin, finish, kMemcpy},
            {"to commit it once it is written", finish, all_written, kMemcpy},
            {"to begin it and wait for the commit", begin_and_finish, finish, kMemcpy},
            {"an ordinary save", [this] { manager_.save(++number_); }, finish, kMemcpy},
            loop(kLoop, finish),
            loop("the same loop while a save is written", begin, kLoop)};
  }

  [[nodiscard]] std::vector<Candidate> local_copies(bool with_partner) {
    const auto complete = [this] {
      if (manager_.impl().local) {
        manager_.impl().local->wait();
      }
    };
    const auto complete_then_copy = [this, complete] {
      complete();
      copy();
    };
    const auto complete_then_change = [this, complete] {
      complete();
      workload_.change(Workload::Change::everywhere, number_ + 1);
    };
    const std::string completed = "the same loop while a node-local copy is completed";
    std::vector<Candidate> all{memcpy_of_state(complete),
                               {"a node-local copy", [this] { copy(); }, complete, kMemcpy},
                               {"a checkpoint", [this] { manager_.save(++number_); }, complete_then_change, kMemcpy},
                               loop(kLoop, complete),
                               loop(completed, complete_then_copy, kLoop)};
    if (with_partner) {
      all.push_back(
          {"the same loop while it goes to a partner", [this] { work_in_steps(); }, complete_then_copy, completed});
    }
    return all;
  }

 private:
  Candidate memcpy_of_state(const std::function<void()>& prepare) {
    return {kMemcpy, [this] { std::memcpy(copy_.data(), workload_.bytes().data(), copy_.size()); }, prepare};
  }
  Candidate loop(const std::string& name, const std::function<void()>& prepare, const std::string& reference = "") {
    return {name, [this] { Work::run(iterations_); }, prepare, reference};
  }

  void copy() {
    if (!manager_.local_copy(++number_)) {
      throw std::runtime_error("no node-local copy was taken: there is no room for it");
    }
  }

  /// As a handler does, which moves the part a little at each boundary.
  void work_in_steps() {
    constexpr std::uint64_t kSteps = 300;
    manager::LocalCopies& local = *manager_.impl().local;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Work::run(iterations_ / kSteps);
      if (local.is_under_way()) {
        local.advance();
      }
    }
  }

  Workload& workload_;
  CheckpointManager manager_;
  std::vector<std::byte> copy_;
  Work work_;
  std::uint64_t iterations_;
  std::uint64_t number_ = 0;
};

/// What a start costs after a crash.
class LocalRestoring {
 public:
  LocalRestoring(Workload& workload, const fs::path& directory, const CopyOptions& options)
      : workload_(workload), directory_(directory), options_(options) {
    leave_a_local_copy();
    CheckpointManager manager(MPI_COMM_WORLD, workload.checkpoint(), directory_ / "far", {});
    manager.save(1);
  }

  [[nodiscard]] std::vector<Candidate> candidates() {
    const auto open = [this](const char* name, const fs::path& local, bool is_cold) {
      return [this, name, local, is_cold] {
        manager_.reset();
        if (rank_in(MPI_COMM_WORLD) == 0) {
          const fs::path path = directory_ / name / "ckpt-1.h5";
          is_cold ? drop_from_cache(path) : read_into_cache(path);
        }
        manager_ = std::make_unique<CheckpointManager>(MPI_COMM_WORLD, workload_.checkpoint(), directory_ / name,
                                                       ManagerOptions{.local_directory = local.string()});
        manager_->impl().local_copies_stay = true;  // its orderly end would remove what the next round restores
      };
    };
    const auto restore_of = [this](const char* suffix) {
      return [this, suffix] {
        const auto restored = manager_->restore_or_initialize();
        if (!restored || restored->path.extension() != suffix) {
          throw std::runtime_error("it was not restored from what is measured");
        }
      };
    };
    const std::string cold = "restore from the disk, cold";
    return {{cold, restore_of(".h5"), open("far", {}, true)},
            {"restore from the page cache", restore_of(".h5"), open("far", {}, false), cold},
            {"restore from the node-local copy", restore_of(".part"), open("local", options_.local, false), cold}};
  }

  /// A benchmark that restores something else would be worth nothing.
  void check() {
    for (const Candidate& candidate : candidates()) {
      workload_.clear();
      candidate.prepare();
      candidate.run();
      if (workload_.wrong_elements() > 0) {
        throw std::runtime_error(candidate.name + ": elements are not what was saved");
      }
    }
  }

  /// The copies that the crash has left.
  void remove_local_copy() {
    manager_.reset();
    CheckpointManager manager(MPI_COMM_WORLD, workload_.checkpoint(), directory_ / "local",
                              {.local_directory = options_.local.string()});
    static_cast<void>(manager.local_copy(3));
  }

 private:
  struct Crash {};

  /// Only what ends in disorder leaves copies behind.
  void leave_a_local_copy() {
    try {
      CheckpointManager manager(MPI_COMM_WORLD, workload_.checkpoint(), directory_ / "local",
                                {.local_directory = options_.local.string()});
      manager.save(1);
      if (!manager.local_copy(2)) {
        throw std::runtime_error("no node-local copy was taken: there is no room for it");
      }
      manager.impl().local->wait();
      throw Crash{};
    } catch (const Crash&) {
    }
  }

  Workload& workload_;
  fs::path directory_;
  const CopyOptions& options_;
  std::unique_ptr<CheckpointManager> manager_;
};

/// Calls @p measure with an experiment, a state and a directory of its own for each size.
template <class Measure>
void measure_sizes(const CopyOptions& options, const std::string& title, Report& report, const Measure& measure) {
  for (const double mib : options.sizes_mib) {
    const Scratch scratch(options.common.directory);
    const WorkloadSpec spec{.large_mib = mib};
    Workload workload(spec, rank_in(MPI_COMM_WORLD), size_of(MPI_COMM_WORLD));
    Experiment experiment(MPI_COMM_WORLD, title + spec.name());
    measure(experiment, workload, scratch.path());
    experiment.add_to(report);
  }
}

void run_local(const CopyOptions& options, Report& report) {
  measure_sizes(options, "Node-local copies: ", report,
                [&](Experiment& experiment, Workload& workload, const fs::path& directory) {
                  {
                    const ManagerOptions manager{
                        .max_to_keep = 1, .local_directory = options.local.string(), .local_partner = options.partner};
                    Copying copying(workload, directory / "copying", manager, options.loop_s);
                    experiment.measure(copying.local_copies(options.partner), options.common.rounds);
                  }
                  workload.fill();
                  LocalRestoring restoring(workload, directory, options);
                  restoring.check();
                  experiment.measure(restoring.candidates(), options.common.rounds);
                  restoring.remove_local_copy();
                });
}

void run_background(const CopyOptions& options, Report& report) {
  measure_sizes(options, "Saves in the background: ", report,
                [&](Experiment& experiment, Workload& workload, const fs::path& directory) {
                  Copying copying(workload, directory / "run", {.max_to_keep = 1}, options.loop_s);
                  experiment.measure(copying.saves_in_background(), options.common.rounds);
                });
}

void add_options(CLI::App& command, CopyOptions& options) {
  add_sizes(command, options.sizes_mib);
  command.add_option("--loop-seconds", options.loop_s, "Length of the loop of work")->capture_default_str();
}

}  // namespace

void add_local_command(CLI::App& app, const bool& json) {
  const auto [command, options] = add_command<CopyOptions>(
      app, json, "local", "For how long a node-local copy stops the program, and what a start from one takes",
      run_local);
  add_options(*command, *options);
  command->add_flag(
      "--partner", options->partner,
      "Keep each part on another host too, and measure a loop while it goes there; needs ranks on several "
      "hosts");
  command->add_option("--local", options->local, "Where the node-local copies lie")->capture_default_str();
}

void add_background_command(CLI::App& app, const bool& json) {
  const auto [command, options] = add_command<CopyOptions>(
      app, json, "background", "For how long a save in the background stops the program, and how much it slows it down",
      run_background);
  add_options(*command, *options);
}

}  // namespace reprieve::bench
