// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The main function of a program that works under MPI and survives preemption; and its command line, which goes before
/// the environment, which goes before a JSON file: for its own options and for the library's settings.

#include <mpi.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <reprieve/checkpoint_manager.hpp>
#include <reprieve/reprieve.hpp>
#include <reprieve/settings.hpp>
#include <reprieve/termination_config.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/ranks.hpp"

namespace apps {

inline constexpr const char* kForTests = "For tests and demonstrations";

/// A range that is not repeated in the help, where the text says what matters.
template <class T>
CLI::Validator between(T least, T greatest) {
  return CLI::Range(least, greatest).description("");
}

/// The options that all step-by-step programs share.
struct ProgramOptions {
  std::string answer;  ///< not empty: this is shown instead of running the program (--help, --version)
  std::filesystem::path summary;
  std::chrono::milliseconds step_delay{0};

  /// Those of the library: command line over environment over file over defaults.
  reprieve::Settings settings;
};

/// The command line of one program. Its own options are added to `app()`, before `parse`.
class CommandLine {
 public:
  /// @param name  of the program
  /// @param section  of the settings file that holds the program's own options
  CommandLine(const std::string& description, std::string name, std::string section);

  [[nodiscard]] CLI::App& app() noexcept { return app_; }

  /// Adds the options that belong to the library, the summary, and the delay of steps.
  void add_common_options(ProgramOptions& options);

  /// Fills in what the options of all programs have in common, and what was bound to `app()`.
  /// @throws reprieve::ConfigError, reprieve::StorageError
  void parse(int argc, const char* const* argv, ProgramOptions& options);

 private:
  void add_library_options();
  std::string parse_or_answer(int argc, const char* const* argv);
  [[nodiscard]] reprieve::Settings library_settings() const;

  template <class T, class Apply>
  CLI::Option* add_library_option(const std::string& name, Apply apply, const std::string& help);

  CLI::App app_;
  std::string section_;
  std::vector<std::function<void(reprieve::Settings&)>> overrides_;
};

/// "1 rank", "4 ranks".
std::string ranks_text(int count);

/// "7.3 s", "42 s", "3:05", "1:02:03".
std::string format_duration(std::chrono::duration<double> duration);

/// Keys stay in the order in which they are written.
using Json = nlohmann::ordered_json;

/// How a preemption went.
struct Preemption {
  reprieve::TerminationNotice notice;
  std::uint64_t save_step = 0;               ///< calls of run before the save
  double seconds_from_notice_to_commit = 0;  ///< on the monotonic clock
  std::string checkpoint;                    ///< path of the committed file
};

/// What the results of all programs have in common.
struct Outcome {
  int world_size = 1;
  std::uint64_t run_calls = 0;
  std::optional<std::string> restored_from;      ///< file name
  std::optional<std::uint64_t> restored_digest;  ///< of the state right after the restore
  std::optional<Preemption> preemption;          ///< nothing: the run finished
};

Json to_json(const Preemption& preemption);

/// "resumed from ckpt-7.h5, saved by 4 ranks (preemption): "
std::string resumed_text(const reprieve::CheckpointInfo& from);

/// Prints the outcome on standard output.
void print(const Preemption& preemption, int exit_code);

/// The text of a summary, with a line break at its end.
std::string text_of(const Json& summary);

/// Writes it under a temporary name and renames it, so that a reader never meets half a summary.
/// @throws reprieve::StorageError
void write_summary(const Json& summary, const std::filesystem::path& file);

/// Runs the program from the options to the exit code. Collective. Throws reprieve::Error, the same on every rank,
/// unless MPI itself failed.
using RunFunction = int (*)(int argc, const char* const* argv, MPI_Comm comm);

/// Reads the options on every rank, by @p parse, and begins to log. Collective.
/// @return false: there is nothing to run, since rank 0 has given the answer that the options ask for
bool read_options(const Ranks& ranks, ProgramOptions& options, const std::function<void()>& parse);

/// Watches the signals, initialises MPI, runs @p run on all ranks, reports what it throws, and finalises MPI.
/// @param name  of the program, for its messages
/// @return the exit code: that of @p run, 2 for wrong options, 1 for any other error
int run_program(const char* name, int argc, char** argv, RunFunction run);

/// A model under a handler.
/// @tparam Model   register_state, check_restored, total_steps, finished, step and digest; summary_of(model) makes its
///                 Outcome
/// @tparam Report  resumed, after_step, preempted and finished: what people see; called on rank 0 alone
template <class Model, class Report>
class Job {
 public:
  /// Opens the handler. Collective; so are the other members.
  /// @param program  its name
  /// @param checkpoints_changed  called when there is one checkpoint more, and perhaps one less; also at the start
  Job(
      const ProgramOptions& options, std::string program, Model& model, Report& report, const Ranks& ranks,
      std::function<void()> checkpoints_changed = [] {})
      : options_(options),
        program_(std::move(program)),
        model_(model),
        report_(report),
        ranks_(ranks),
        checkpoints_changed_(std::move(checkpoints_changed)) {
    model_.register_state(checkpoint_);
    reprieve::TerminationConfig termination = options_.settings.termination;
    termination.total_steps = model_.total_steps();
    termination.exit_fn = [this](const reprieve::ExitContext& context) { leave(context); };
    handler_.emplace(ranks_.handle(), checkpoint_, options_.settings.directory, std::move(termination),
                     options_.settings.manager);
    note_restore();
    checkpoints_changed_();
  }

  void run() {
    const bool had_nothing_to_do = model_.finished();
    while (!model_.finished()) {
      handler_->run([this] { model_.step(); });
      note_save();
      if (ranks_.is_rank_0()) {
        report_.after_step(model_);
      }
    }
    handler_->finish();
    note_save();
    const auto summary = summarize();
    ranks_.on_every_rank([&] { write(summary); });
    if (ranks_.is_rank_0()) {
      report_.finished(summary, had_nothing_to_do);
    }
  }

 private:
  void note_restore() {
    if (const auto& from = handler_->restored_from()) {
      model_.check_restored();
      restored_digest_ = model_.digest();
      if (ranks_.is_rank_0()) {
        report_.resumed(*from, model_, *restored_digest_);
      }
    }
  }

  void note_save() {
    if (const auto& save = handler_->last_save(); save && save->number != noted_) {
      noted_ = save->number;
      checkpoints_changed_();
    }
  }

  [[nodiscard]] auto summarize() const {
    auto summary = summary_of(model_);
    summary.world_size = ranks_.size();
    summary.run_calls = handler_->total_run_calls();
    summary.restored_digest = restored_digest_;
    if (const auto& from = handler_->restored_from()) {
      summary.restored_from = from->path.filename().string();
    }
    return summary;
  }

  void write(const auto& summary) const {
    if (ranks_.is_rank_0() && !options_.summary.empty()) {
      write_summary(to_json(summary), options_.summary);
    }
  }

  /// The exit function: the checkpoint is committed. Whatever goes wrong from here on, the ranks leave together.
  void leave(const reprieve::ExitContext& context) const {
    try {
      auto summary = summarize();
      const std::chrono::duration<double> since_notice = std::chrono::steady_clock::now() - context.notice.time;
      summary.preemption = Preemption{context.notice, summary.run_calls, since_notice.count(), context.checkpoint};
      if (ranks_.is_rank_0()) {
        report_.preempted(summary, context.exit_code);
      }
      write(summary);
      checkpoints_changed_();
    } catch (const std::exception& error) {
      std::cerr << program_ << ": rank " << ranks_.rank() << ": the state is saved, but: " << error.what() << std::endl;
    }
    reprieve::preset(handler_->platform()).exit_fn(context);  // as the platform wants it
  }

  const ProgramOptions& options_;
  const std::string program_;
  Model& model_;
  Report& report_;
  const Ranks& ranks_;
  const std::function<void()> checkpoints_changed_;
  reprieve::Checkpoint checkpoint_;
  std::optional<std::uint64_t> restored_digest_;
  std::optional<std::uint64_t> noted_;  ///< the latest checkpoint that checkpoints_changed_ was called for
  std::optional<reprieve::PreemptionCheckpointHandler> handler_;
};

}  // namespace apps
