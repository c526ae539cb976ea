// SPDX-License-Identifier: BSD-3-Clause
// reprieve-trainer: data-parallel training of a neural network that survives preemption.

#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <reprieve/version.hpp>
#include <string>
#include <system_error>

#include "common/program.hpp"
#include "trainer/dataset.hpp"
#include "trainer/training.hpp"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "reprieve-trainer";

/// What a person sees of a run, on standard output of rank 0.
class Report {
 public:
  explicit Report(const Options& options) : options_(options) {}

  void start(const Training& training, const Dataset& dataset, const fs::path& data, int world_size) const {
    const Model& model = training.model();
    std::cout << fmt::format(
                     "{} {}: {}, network {} ({} parameters), {}, batches of {}\n"
                     "data: {} images to train on, {} held out, from {}\n"
                     "checkpoints: {}",
                     kName, REPRIEVE_VERSION, apps::ranks_text(world_size), fmt::join(model.layer_sizes(), "-"),
                     model.parameter_count(), name_of(options_.optimizer), options_.batch_size,
                     dataset.training.labels.size(), dataset.held_out.labels.size(), data.string(),
                     options_.settings.directory)
              << std::endl;
  }

  void resumed(const reprieve::CheckpointInfo& from, const Training& training, std::uint64_t /*digest*/) {
    const Progress& progress = training.state().progress;
    first_step_ = epoch_step_ = progress.step;
    epoch_ = progress.epoch;
    start_ = epoch_start_ = Clock::now();
    std::cout << apps::resumed_text(from) << place_text(progress, training.steps_per_epoch()) << std::endl;
  }

  /// To be called after every step; prints a line at the end of an epoch.
  void after_step(const Training& training) {
    const Progress& progress = training.state().progress;
    if (progress.epoch != epoch_) {
      print_epoch(training);
      epoch_ = progress.epoch;
      epoch_step_ = progress.step;
      epoch_start_ = Clock::now();
    }
  }

  void preempted(const Summary& summary, int exit_code) const { apps::print(*summary.preemption, exit_code); }

  void finished(const Summary& summary, bool had_nothing_to_do) const {
    if (had_nothing_to_do) {
      std::cout << "nothing left to do: ask for more --epochs, or for another --checkpoint-dir\n";
    }
    std::cout << fmt::format("finished: {} steps, accuracy {:.2f} % on held-out images, state {:016x}, {}",
                             summary.progress.step, 100 * summary.evaluation.accuracy, summary.digests.all,
                             apps::format_duration(Clock::now() - start_))
              << std::endl;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  /// "epoch 7 of 40", of the epoch that continues.
  [[nodiscard]] std::string place_text(const Progress& progress, std::uint64_t steps_per_epoch) const {
    if (progress.epoch >= options_.epochs) {
      return fmt::format("after epoch {}", progress.epoch);
    }
    return fmt::format("epoch {} of {}, step {} of {}", progress.epoch + 1, options_.epochs, progress.step_in_epoch,
                       steps_per_epoch);
  }

  void print_epoch(const Training& training) const {
    const auto now = Clock::now();
    const Progress& progress = training.state().progress;
    const History& history = training.state().history;
    const double samples = static_cast<double>((progress.step - epoch_step_) * options_.batch_size);
    const Seconds step_time = Seconds(now - start_) / static_cast<double>(progress.step - first_step_);
    const std::uint64_t steps_left = (options_.epochs - progress.epoch) * training.steps_per_epoch();
    std::cout
        << fmt::format(
               "epoch {:>{}}/{}  loss {:.4f}  held-out loss {:.4f}  accuracy {:6.2f} %  {:7.0f} samples/s  eta {}",
               progress.epoch, std::to_string(options_.epochs).size(), options_.epochs, history.training_loss.back(),
               history.held_out_loss.back(), 100 * history.accuracy.back(),
               samples / Seconds(now - epoch_start_).count(),
               apps::format_duration(step_time * static_cast<double>(steps_left)))
        << std::endl;
  }

  const Options& options_;
  std::uint64_t first_step_ = 0;  ///< steps done before this process began
  std::uint64_t epoch_step_ = 0;  ///< steps done when the present epoch began, in this process
  std::uint64_t epoch_ = 0;       ///< epochs done when the last line was printed
  Clock::time_point start_ = Clock::now();
  Clock::time_point epoch_start_ = start_;
};

/// The data set that comes with the program: installed beside it, or in the source tree.
fs::path default_data() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const std::array<fs::path, 2> places{(program.parent_path() / TRAINER_INSTALLED_DATA).lexically_normal(),
                                       TRAINER_SOURCE_DATA};
  for (const fs::path& place : places) {
    if (fs::exists(place, ignored)) {
      return place;
    }
  }
  throw reprieve::StorageError(reprieve::ErrorCode::io, "the data set is neither at " + places[0].string() +
                                                            " nor at " + places[1].string() + ": give it with --data");
}

/// Read by rank 0 alone, so that all ranks train on the same data whatever their file systems hold.
Dataset load_data(const apps::Ranks& ranks, const fs::path& file) {
  std::string text;
  ranks.on_every_rank([&] { text = ranks.is_rank_0() ? read_gzip(file) : ""; });
  ranks.broadcast(text, 0);
  Dataset dataset;
  ranks.on_every_rank([&] { dataset = parse_digits(text, file.string()); });
  return dataset;
}

/// Trains until the end or until a preemption ends the process. Collective.
int run(int argc, const char* const* argv, MPI_Comm comm) {
  const apps::Ranks ranks(comm);
  Options options;
  if (!apps::read_options(ranks, options, [&] { options = parse_options(argc, argv); })) {
    return 0;
  }
  fs::path data = options.data;
  ranks.on_every_rank([&] { data = data.empty() && ranks.is_rank_0() ? default_data() : data; });
  const Dataset dataset = load_data(ranks, data);
  std::unique_ptr<Training> training;
  ranks.on_every_rank([&] { training = std::make_unique<Training>(options, dataset, ranks); });
  Report report(options);
  if (ranks.is_rank_0()) {
    report.start(*training, dataset, data, ranks.size());
  }
  apps::Job(options, kName, *training, report, ranks).run();
  return 0;
}

}  // namespace
}  // namespace trainer

int main(int argc, char** argv) { return apps::run_program(trainer::kName, argc, argv, trainer::run); }
