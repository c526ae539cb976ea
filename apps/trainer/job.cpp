#include "trainer/job.hpp"

#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <reprieve/reprieve.hpp>
#include <system_error>

#include "common/ranks.hpp"
#include "trainer/dataset.hpp"
#include "trainer/digest.hpp"
#include "trainer/options.hpp"
#include "trainer/report.hpp"
#include "trainer/summary.hpp"
#include "trainer/training.hpp"

namespace trainer {
namespace {

namespace fs = std::filesystem;

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

/// Read by the chief alone, so that all ranks train on the same data whatever their file systems hold.
Dataset load_data(const apps::Ranks& ranks, const fs::path& file) {
  std::string text;
  ranks.on_every_rank([&] { text = ranks.is_chief() ? read_gzip(file) : ""; });
  ranks.broadcast(text, 0);
  Dataset dataset;
  ranks.on_every_rank([&] { dataset = parse_digits(text, file.string()); });
  return dataset;
}

/// The training under a handler: what a preemption and the end have in common.
class Job {
 public:
  Job(const Options& options, Training& training, Report& report, const apps::Ranks& ranks)
      : options_(options), training_(training), report_(report), ranks_(ranks) {
    training_.register_state(checkpoint_);
    reprieve::TerminationConfig termination = options_.settings.termination;
    termination.exit_fn = [this](const reprieve::ExitContext& context) { leave(context); };
    handler_.emplace(ranks_.handle(), checkpoint_, options_.settings.directory, std::move(termination),
                     options_.settings.manager);
    note_restore();
  }

  void run() {
    const bool had_nothing_to_do = training_.finished();
    while (!training_.finished()) {
      handler_->run([this] { training_.step(); });
      report_.after_step(training_);
    }
    if (!had_nothing_to_do) {
      save_result();  // before the end: the directory remembers a run as finished, and this is its last state
    }
    handler_->finish();
    const Summary summary = summarize();
    ranks_.on_every_rank([&] { write(summary); });
    report_.finished(summary, had_nothing_to_do);
  }

 private:
  void note_restore() {
    if (const auto& from = handler_->restored_from()) {
      training_.check_restored();
      restored_shared_digest_ = digest_of(training_.state(), ranks_).shared;
      report_.resumed(*from, training_);
    }
  }

  /// The trained network, as the newest checkpoint: starting the program again finds that there is nothing to do.
  void save_result() {
    handler_->manager().save({.number = handler_->total_run_calls(),
                              .reason = {.message = "training finished"},
                              .save_fn = options_.settings.termination.save_fn,
                              .save_fn_args = {}});
  }

  [[nodiscard]] Summary summarize() const {
    Summary summary;
    summary.world_size = ranks_.size();
    summary.run_calls = handler_->total_run_calls();
    if (const auto& from = handler_->restored_from()) {
      summary.restored_from = from->path.filename().string();
      summary.restored_shared_digest = restored_shared_digest_;
    }
    summary.progress = training_.state().progress;
    summary.evaluation = training_.evaluate();
    summary.digests = digest_of(training_.state(), ranks_);
    return summary;
  }

  void write(const Summary& summary) const {
    if (ranks_.is_chief() && !options_.summary.empty()) {
      apps::write_summary(to_json(summary), options_.summary);
    }
  }

  /// The exit function: the checkpoint is committed. Whatever goes wrong from here on, the ranks leave together.
  void leave(const reprieve::ExitContext& context) const {
    try {
      Summary summary = summarize();
      summary.preemption = apps::preemption_of(context, summary.run_calls);
      report_.preempted(summary, context.exit_code);
      write(summary);
    } catch (const std::exception& error) {
      std::cerr << "reprieve-trainer: rank " << ranks_.rank() << ": the state is saved, but: " << error.what()
                << std::endl;
    }
    reprieve::preset(handler_->platform()).exit_fn(context);  // as the platform wants it
  }

  const Options& options_;
  Training& training_;
  Report& report_;
  const apps::Ranks& ranks_;
  reprieve::Checkpoint checkpoint_;
  std::uint64_t restored_shared_digest_ = 0;
  std::optional<reprieve::PreemptionCheckpointHandler> handler_;
};

}  // namespace

int run_job(int argc, const char* const* argv, MPI_Comm comm) {
  const apps::Ranks ranks(comm);
  Options options;
  ranks.on_every_rank([&] {
    options = parse_options(argc, argv);
    if (options.answer.empty()) {
      reprieve::configure_logging(options.settings.log, ranks.is_chief());
    }
  });
  if (!options.answer.empty()) {
    if (ranks.is_chief()) {
      std::cout << options.answer << std::flush;
    }
    return 0;
  }
  fs::path data = options.data;
  ranks.on_every_rank([&] { data = data.empty() && ranks.is_chief() ? default_data() : data; });
  const Dataset dataset = load_data(ranks, data);
  std::unique_ptr<Training> training;
  ranks.on_every_rank([&] { training = std::make_unique<Training>(options, dataset, ranks); });
  Report report(ranks.is_chief(), options);
  report.start(*training, dataset, data, ranks.size());
  Job(options, *training, report, ranks).run();
  return 0;
}

}  // namespace trainer
