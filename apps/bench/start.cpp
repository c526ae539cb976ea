// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <mpi.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "ranks.hpp"
#include "raw_file.hpp"
#include "report.hpp"
#include "reprieve/reprieve.hpp"
#include "scratch.hpp"

namespace reprieve::bench {

namespace {

namespace fs = std::filesystem;

/// What a start may take where no network is asked and no program is started.
constexpr double kLimitS = 0.005;
constexpr std::size_t kValues = 1000;

/// Handlers that are made where nothing was saved yet, and where something was.
class Starting {
 public:
  explicit Starting(fs::path directory) : directory_(std::move(directory)), values_(kValues, 1.0) {
    state_.add_per_rank("values", values_);
    const auto handler = make(directory_ / "saved");
    handler->request_checkpoint();
    handler->run([] {});
    handler->finish();
  }

  [[nodiscard]] std::vector<Candidate> candidates() {
    return {{"a directory and a file, durable", [this] { make_raw(); }, [this] { clear(); }},
            {"a start, nothing saved yet", [this] { handler_ = make(place_); }, [this] { clear(); }},
            {"a start that restores", [this] { handler_ = make(directory_ / "saved"); }, [this] { clear(); }}};
  }

  void clear() {
    if (handler_) {
      handler_->finish();
      handler_.reset();
    }
    place_ = directory_ / std::to_string(++places_);
  }

 private:
  /// The platform is given: to find it, a server may be asked, once in the life of a process.
  std::unique_ptr<PreemptionCheckpointHandler> make(const fs::path& place) {
    TerminationConfig config;
    config.platform = Platform::other;
    ManagerOptions options;
    options.restart_finished = true;  // each round ends what it has started
    return std::make_unique<PreemptionCheckpointHandler>(MPI_COMM_WORLD, state_, place, std::move(config),
                                                         std::move(options));
  }

  /// The least that a start has to do, so that two runs do not share a directory.
  void make_raw() {
    if (rank_in(MPI_COMM_WORLD) == 0) {
      fs::create_directory(place_);
      const RawFile file(place_ / "file", O_CREAT | O_WRONLY);
      file.sync();
      const RawFile folder(place_, O_RDONLY | O_DIRECTORY);
      folder.sync();
    }
    meet(MPI_COMM_WORLD);
  }

  fs::path directory_;
  std::vector<double> values_;
  Checkpoint state_;
  std::unique_ptr<PreemptionCheckpointHandler> handler_;
  fs::path place_;
  int places_ = 0;
};

void run(const CommonOptions& options, bool json) {
  const Scratch scratch(options.directory);
  Starting starting(scratch.path());
  const auto candidates = starting.candidates();
  const auto measured = measure_interleaved(MPI_COMM_WORLD, candidates, options.rounds, 1);
  starting.clear();
  Table table("Until a handler is there", {"what", "median", "quartiles", "of 5 ms"});
  Report report("start");
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Summary time = summarize(measured[i].seconds);
    table.add_row({candidates[i].name, format_seconds(time.median),
                   format_seconds(time.low) + " .. " + format_seconds(time.high),
                   fmt::format("{:.3f}", time.median / kLimitS)});
    report.add({{"what", candidates[i].name},
                {"median_s", time.median},
                {"low_s", time.low},
                {"high_s", time.high},
                {"of_limit", time.median / kLimitS}});
  }
  if (rank_in(MPI_COMM_WORLD) == 0) {
    json ? report.print_json() : table.print();
  }
}

}  // namespace

void add_start_command(CLI::App& app, const bool& json) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* command = app.add_subcommand("start", "What a handler adds to the start of a program");
  add_options(*command, *options);
  command->callback([options, &json] { run(*options, json); });
}

}  // namespace reprieve::bench
