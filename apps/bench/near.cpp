// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>

#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>

#include "manager/manager_impl.hpp"
#include "manager/near_copies.hpp"
#include "measure.hpp"
#include "raw_file.hpp"
#include "reprieve/reprieve.hpp"
#include "step.hpp"
#include "workload.hpp"

namespace reprieve::bench {

namespace {

namespace fs = std::filesystem;

struct NearOptions {
  std::vector<double> sizes_mib{64, 512};
  double loop_s = 0.3;
  fs::path near = "/dev/shm";
  bool partner = false;
  CommonOptions common;
};

/// A restore from the disk goes past the page cache, and leaves nothing there.
void read_into_cache(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20U);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size()))) {
  }
}

struct NearCandidate {
  Candidate what;
  std::string reference;  ///< the candidate that it is compared with
};

/// What a near copy costs the program that takes it.
class NearCopying {
 public:
  NearCopying(Workload& workload, const fs::path& directory, const NearOptions& options)
      : workload_(workload),
        manager_(MPI_COMM_WORLD, workload.checkpoint(), directory,
                 {.max_to_keep = 1, .near_directory = options.near.string(), .near_partner = options.partner}),
        partner_(options.partner),
        copy_(workload.bytes().size()),
        iterations_(work_.iterations(options.loop_s)) {}

  [[nodiscard]] std::vector<NearCandidate> candidates() {
    const auto all_complete = [this] {
      if (manager_.impl().near) {
        manager_.impl().near->wait();
      }
    };
    std::vector<NearCandidate> all{
        {{"memcpy of the state", [this] { std::memcpy(copy_.data(), workload_.bytes().data(), copy_.size()); },
          all_complete},
         "memcpy of the state"},
        {{"a near copy", [this] { copy(); }, all_complete}, "memcpy of the state"},
        {{"a checkpoint", [this] { manager_.save(++number_); },
          [this, all_complete] {
            all_complete();
            workload_.change(Workload::Change::everywhere, number_ + 1);
          }},
         "memcpy of the state"},
        {{"a loop of work", [this] { Work::run(iterations_); }, all_complete}, "a loop of work"},
        {{kWhileCompleted, [this] { Work::run(iterations_); },
          [this, all_complete] {
            all_complete();
            copy();
          }},
         "a loop of work"}};
    if (partner_) {
      all.push_back({{"the same loop while it goes to a partner", [this] { work_in_steps(); },
                      [this, all_complete] {
                        all_complete();
                        copy();
                      }},
                     kWhileCompleted});
    }
    return all;
  }

 private:
  void copy() {
    if (!manager_.near_copy(++number_)) {
      throw std::runtime_error("no near copy was taken: there is no room for it");
    }
  }

  /// As a handler does, which moves the part a little at each boundary.
  void work_in_steps() {
    constexpr std::uint64_t kSteps = 300;
    manager::NearCopies& near = *manager_.impl().near;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Work::run(iterations_ / kSteps);
      if (near.is_under_way()) {
        near.advance();
      }
    }
  }

  static constexpr const char* kWhileCompleted = "the same loop while a near copy is completed";

  Workload& workload_;
  CheckpointManager manager_;
  bool partner_;
  std::vector<std::byte> copy_;
  Work work_;
  std::uint64_t iterations_;
  std::uint64_t number_ = 0;
};

/// What a start costs after a crash.
class NearRestoring {
 public:
  NearRestoring(Workload& workload, const fs::path& directory, const NearOptions& options)
      : workload_(workload), directory_(directory), options_(options) {
    leave_a_near_copy();
    CheckpointManager manager(MPI_COMM_WORLD, workload.checkpoint(), directory_ / "far", {});
    manager.save(1);
  }

  [[nodiscard]] std::vector<NearCandidate> candidates() {
    const auto open = [this](const char* name, const fs::path& near, bool is_cold) {
      return [this, name, near, is_cold] {
        manager_.reset();
        if (rank_in(MPI_COMM_WORLD) == 0) {
          const fs::path path = directory_ / name / "ckpt-1.h5";
          if (is_cold) {
            const RawFile file(path, O_RDONLY);
            file.sync();
            file.drop_from_cache();
          } else {
            read_into_cache(path);
          }
        }
        manager_ = std::make_unique<CheckpointManager>(MPI_COMM_WORLD, workload_.checkpoint(), directory_ / name,
                                                       ManagerOptions{.near_directory = near.string()});
        manager_->impl().near_copies_stay = true;  // its orderly end would remove what the next round restores
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
    const auto restore = restore_of(".h5");
    const std::string cold = "restore from the disk, cold";
    return {{{cold, restore, open("far", {}, true)}, cold},
            {{"restore from the page cache", restore, open("far", {}, false)}, cold},
            {{"restore from the near copy", restore_of(".part"), open("near", options_.near, false)}, cold}};
  }

  /// A benchmark that restores something else would be worth nothing.
  void check() {
    for (const NearCandidate& candidate : candidates()) {
      workload_.clear();
      candidate.what.prepare();
      candidate.what.run();
      if (workload_.wrong_elements() > 0) {
        throw std::runtime_error(candidate.what.name + ": elements are not what was saved");
      }
    }
  }

  /// The copies that the crash has left.
  void remove_near_copy() {
    manager_.reset();
    CheckpointManager manager(MPI_COMM_WORLD, workload_.checkpoint(), directory_ / "near",
                              {.near_directory = options_.near.string()});
    static_cast<void>(manager.near_copy(3));
  }

 private:
  struct Crash {};

  /// Only what ends in disorder leaves copies behind.
  void leave_a_near_copy() {
    try {
      CheckpointManager manager(MPI_COMM_WORLD, workload_.checkpoint(), directory_ / "near",
                                {.near_directory = options_.near.string()});
      manager.save(1);
      if (!manager.near_copy(2)) {
        throw std::runtime_error("no near copy was taken: there is no room for it");
      }
      manager.impl().near->wait();
      throw Crash{};
    } catch (const Crash&) {
    }
  }

  Workload& workload_;
  fs::path directory_;
  const NearOptions& options_;
  std::unique_ptr<CheckpointManager> manager_;
};

void measure(const std::vector<NearCandidate>& candidates, const WorkloadSpec& spec, const Workload& workload,
             int rounds, Report& report, Table& table) {
  std::vector<Candidate> plain;
  for (const NearCandidate& candidate : candidates) {
    plain.push_back(candidate.what);
  }
  const auto measured = measure_interleaved(MPI_COMM_WORLD, plain, rounds, 2);
  std::map<std::string, Summary> times;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    times[plain[i].name] = summarize(measured[i].seconds);
  }
  for (const NearCandidate& candidate : candidates) {
    const Summary& time = times.at(candidate.what.name);
    const double ratio = time.median / times.at(candidate.reference).median;
    table.add_row({candidate.what.name, format_seconds(time.median),
                   format_seconds(time.low) + " .. " + format_seconds(time.high),
                   fmt::format("{:.3f} of {}", ratio, candidate.reference)});
    report.add({{"workload", spec.name()},
                {"bytes", workload.total_bytes()},
                {"what", candidate.what.name},
                {"median_s", time.median},
                {"low_s", time.low},
                {"high_s", time.high},
                {"of", candidate.reference},
                {"ratio", ratio}});
  }
}

void run(const NearOptions& options, bool json) {
  const int rank = rank_in(MPI_COMM_WORLD);
  Report report("near");
  for (const double mib : options.sizes_mib) {
    const Scratch scratch(options.common.directory);
    const WorkloadSpec spec{.large_mib = mib};
    Workload workload(spec, rank, size_of(MPI_COMM_WORLD));
    Table table("Near copies: " + spec.name(), {"what", "median", "quartiles", "ratio"});
    {
      NearCopying copying(workload, scratch.path() / "copying", options);
      measure(copying.candidates(), spec, workload, options.common.rounds, report, table);
    }
    workload.fill();
    NearRestoring restoring(workload, scratch.path(), options);
    restoring.check();
    measure(restoring.candidates(), spec, workload, options.common.rounds, report, table);
    restoring.remove_near_copy();
    if (rank == 0 && !json) {
      table.print();
    }
  }
  if (rank == 0 && json) {
    report.print_json();
  }
}

}  // namespace

void add_near_command(CLI::App& app, const bool& json) {
  auto options = std::make_shared<NearOptions>();
  CLI::App* command =
      app.add_subcommand("near", "For how long a near copy stops the program, and what a start from one takes");
  command->add_option("--sizes-mib", options->sizes_mib, "Sizes of the state, in MiB a rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--loop-seconds", options->loop_s, "Length of the loop of work")->capture_default_str();
  command->add_flag(
      "--partner", options->partner,
      "Keep each part on another host too, and measure a loop while it goes there; needs ranks on several "
      "hosts");
  command->add_option("--near", options->near, "Where the near copies lie")->capture_default_str();
  add_options(*command, options->common);
  command->callback([options, &json] { run(*options, json); });
}

}  // namespace reprieve::bench
