// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/report.hpp"

#include <fmt/ranges.h>

#include <iostream>
#include <reprieve/version.hpp>
#include <string>

#include "common/text.hpp"

namespace trainer {

Summary summary_of(const Training& training) {
  return {{}, training.state().progress, training.evaluate(), training.digests()};
}

apps::Json to_json(const Summary& summary) {
  using apps::Json;
  const auto& restored = summary.restored_digest;
  return {
      {"status", summary.preemption ? "preempted" : "finished"},
      {"world_size", summary.world_size},
      {"run_calls", summary.run_calls},
      {"epoch", summary.progress.epoch},
      {"step", summary.progress.step},
      {"restored_from", summary.restored_from ? Json(*summary.restored_from) : Json()},
      {"loss", summary.evaluation.loss},
      {"accuracy", summary.evaluation.accuracy},
      {"state_digest", fmt::format("{:016x}", summary.digests.all)},
      {"shared_state_digest", fmt::format("{:016x}", summary.digests.shared)},
      {"restored_shared_state_digest", restored ? Json(fmt::format("{:016x}", *restored)) : Json()},
      {"preemption", summary.preemption ? apps::to_json(*summary.preemption) : Json()},
  };
}

namespace {

using apps::format_duration;

/// "epoch 7 of 40", of the epoch that continues.
std::string place_text(const Progress& progress, const Options& options, std::uint64_t steps_per_epoch) {
  if (progress.epoch >= options.epochs) {
    return fmt::format("after epoch {}", progress.epoch);
  }
  return fmt::format("epoch {} of {}, step {} of {}", progress.epoch + 1, options.epochs, progress.step_in_epoch,
                     steps_per_epoch);
}

}  // namespace

Report::Report(bool is_chief, const Options& options) : is_chief_(is_chief), options_(options) {}

void Report::start(const Training& training, const Dataset& dataset, const std::filesystem::path& data,
                   int world_size) {
  if (!is_chief_) {
    return;
  }
  const Model& model = training.model();
  std::cout << fmt::format(
                   "reprieve-trainer {}: {}, network {} ({} parameters), {}, batches of {}\n"
                   "data: {} images to train on, {} held out, from {}\n"
                   "checkpoints: {}",
                   REPRIEVE_VERSION, apps::ranks_text(world_size), fmt::join(model.layer_sizes(), "-"),
                   model.parameter_count(), name_of(options_.optimizer), options_.batch_size,
                   dataset.training.labels.size(), dataset.held_out.labels.size(), data.string(),
                   options_.settings.directory)
            << std::endl;
}

void Report::resumed(const reprieve::CheckpointInfo& from, const Training& training, std::uint64_t /*digest*/) {
  const Progress& progress = training.state().progress;
  first_step_ = epoch_step_ = progress.step;
  epoch_ = progress.epoch;
  start_ = epoch_start_ = Clock::now();
  if (is_chief_) {
    std::cout << apps::resumed_text(from) << place_text(progress, options_, training.steps_per_epoch()) << std::endl;
  }
}

void Report::after_step(const Training& training) {
  if (training.state().progress.epoch != epoch_) {
    print_epoch(training);
    epoch_ = training.state().progress.epoch;
    epoch_step_ = training.state().progress.step;
    epoch_start_ = Clock::now();
  }
}

void Report::print_epoch(const Training& training) {
  if (!is_chief_) {
    return;
  }
  using Seconds = std::chrono::duration<double>;
  const auto now = Clock::now();
  const Progress& progress = training.state().progress;
  const History& history = training.state().history;
  const double samples = static_cast<double>((progress.step - epoch_step_) * options_.batch_size);
  const Seconds step_time = Seconds(now - start_) / static_cast<double>(progress.step - first_step_);
  const std::uint64_t epochs_left = options_.epochs - progress.epoch;
  std::cout << fmt::format(
                   "epoch {:>{}}/{}  loss {:.4f}  held-out loss {:.4f}  accuracy {:6.2f} %  {:7.0f} samples/s  eta {}",
                   progress.epoch, std::to_string(options_.epochs).size(), options_.epochs,
                   history.training_loss.back(), history.held_out_loss.back(), 100 * history.accuracy.back(),
                   samples / Seconds(now - epoch_start_).count(),
                   format_duration(step_time * static_cast<double>(epochs_left * training.steps_per_epoch())))
            << std::endl;
}

void Report::preempted(const Summary& summary, int exit_code) const {
  if (!is_chief_ || !summary.preemption) {
    return;
  }
  apps::print(*summary.preemption, exit_code);
}

void Report::finished(const Summary& summary, bool had_nothing_to_do) const {
  if (!is_chief_) {
    return;
  }
  if (had_nothing_to_do) {
    std::cout << "nothing left to do: ask for more --epochs, or for another --checkpoint-dir\n";
  }
  std::cout << fmt::format("finished: {} steps, accuracy {:.2f} % on held-out images, state {:016x}, {}",
                           summary.progress.step, 100 * summary.evaluation.accuracy, summary.digests.all,
                           format_duration(Clock::now() - start_))
            << std::endl;
}

}  // namespace trainer
