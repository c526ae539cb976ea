// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/report.hpp"

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
      {"state_digest", apps::to_hex(summary.digests.all)},
      {"shared_state_digest", apps::to_hex(summary.digests.shared)},
      {"restored_shared_state_digest", restored ? Json(apps::to_hex(*restored)) : Json()},
      {"preemption", summary.preemption ? apps::to_json(*summary.preemption) : Json()},
  };
}

namespace {

std::string shape_text(const Model& model) {
  std::string text;
  for (const std::size_t size : model.layer_sizes()) {
    text += (text.empty() ? "" : "-") + std::to_string(size);
  }
  return text;
}

using apps::fixed;
using apps::format_duration;
using apps::ranks_text;
using apps::right;

std::string percent(double fraction) { return fixed(100 * fraction, 2) + " %"; }

/// "epoch 7 of 40", of the epoch that goes on.
std::string place_text(const Progress& progress, const Options& options, std::uint64_t steps_per_epoch) {
  if (progress.epoch >= options.epochs) {
    return "after epoch " + std::to_string(progress.epoch);
  }
  return "epoch " + std::to_string(progress.epoch + 1) + " of " + std::to_string(options.epochs) + ", step " +
         std::to_string(progress.step_in_epoch) + " of " + std::to_string(steps_per_epoch);
}

}  // namespace

Report::Report(bool is_chief, const Options& options) : is_chief_(is_chief), options_(options) {}

void Report::start(const Training& training, const Dataset& dataset, const std::filesystem::path& data,
                   int world_size) {
  if (!is_chief_) {
    return;
  }
  std::cout << "reprieve-trainer " REPRIEVE_VERSION ": " << ranks_text(world_size) << ", network "
            << shape_text(training.model()) << " (" << training.model().parameter_count() << " parameters), "
            << name_of(options_.optimizer) << ", batches of " << options_.batch_size << '\n'
            << "data: " << dataset.training.labels.size() << " images to train on, " << dataset.held_out.labels.size()
            << " held out, from " << data.string() << '\n'
            << "checkpoints: " << options_.settings.directory << std::endl;
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
  const std::string number = std::to_string(progress.epoch);
  std::cout << "epoch " << right(number, std::to_string(options_.epochs).size()) << "/" << options_.epochs << "  loss "
            << fixed(history.training_loss.back(), 4) << "  held-out loss " << fixed(history.held_out_loss.back(), 4)
            << "  accuracy " << right(percent(history.accuracy.back()), 8) << "  "
            << right(fixed(samples / Seconds(now - epoch_start_).count(), 0), 7) << " samples/s  eta "
            << format_duration(step_time * static_cast<double>(epochs_left * training.steps_per_epoch())) << std::endl;
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
  std::cout << "finished: " << summary.progress.step << " steps, accuracy " << percent(summary.evaluation.accuracy)
            << " on held-out images, state " << apps::to_hex(summary.digests.all) << ", "
            << format_duration(std::chrono::duration<double>(Clock::now() - start_)) << std::endl;
}

}  // namespace trainer
