#include "heat/job.hpp"

#include <iostream>
#include <memory>
#include <optional>
#include <reprieve/reprieve.hpp>

#include "common/ranks.hpp"
#include "heat/options.hpp"
#include "heat/report.hpp"
#include "heat/simulation.hpp"

namespace heat {
namespace {

/// The simulation under a handler: what a preemption and the end have in common.
class Job {
 public:
  /// @param ranks  those of the simulation's Cartesian communicator
  Job(const Options& options, Simulation& simulation, Report& report, const apps::Ranks& ranks)
      : options_(options), simulation_(simulation), report_(report), ranks_(ranks) {
    simulation_.register_state(checkpoint_);
    reprieve::TerminationConfig termination = options_.settings.termination;
    termination.exit_fn = [this](const reprieve::ExitContext& context) { leave(context); };
    handler_.emplace(ranks_.handle(), checkpoint_, options_.settings.directory, std::move(termination),
                     options_.settings.manager);
    note_restore();
    describe_checkpoints();
  }

  void run() {
    const bool had_nothing_to_do = simulation_.finished();
    while (!simulation_.finished()) {
      handler_->run([this] { simulation_.step(); });
      note_save();
      report_.after_step(simulation_);
    }
    if (!had_nothing_to_do) {
      save_result();  // before the end: the directory remembers a run as finished, and this is its last state
      describe_checkpoints();
    }
    handler_->finish();
    const Summary summary = summarize();
    ranks_.on_every_rank([&] { write(summary); });
    report_.finished(summary, had_nothing_to_do);
  }

 private:
  void note_restore() {
    if (const auto& from = handler_->restored_from()) {
      simulation_.check_restored();
      restored_digest_ = simulation_.digest();
      report_.resumed(*from, simulation_, *restored_digest_);
    }
  }

  /// After each save the description is made anew: there is one checkpoint more, and perhaps one less.
  void note_save() {
    if (const auto& save = handler_->last_save(); save && save->number != described_) {
      described_ = save->number;
      describe_checkpoints();
    }
  }

  /// For ParaView. A run is not ended for the sake of its pictures.
  void describe_checkpoints() const {
    if (!ranks_.is_chief() || options_.xdmf.empty()) {
      return;
    }
    const Grid& grid = simulation_.grid();
    reprieve::XdmfOptions xdmf{.time_variable = "progress/time"};
    for (std::size_t d = 0; d < kDimensions; ++d) {
      xdmf.origin.push_back(grid.coordinate(d, 0));
      xdmf.spacing.push_back(grid.spacing(d));
    }
    try {
      reprieve::write_xdmf(options_.settings.directory, options_.xdmf, xdmf);
    } catch (const reprieve::Error& error) {
      std::cerr << "reprieve-heat: ParaView will not see the checkpoints: " << error.what() << std::endl;
    }
  }

  /// The final field, as the newest checkpoint: starting the program again finds that there is nothing to do.
  void save_result() {
    handler_->manager().save({.number = simulation_.steps_done(),
                              .reason = {.message = "simulation finished"},
                              .save_fn = options_.settings.termination.save_fn,
                              .save_fn_args = {}});
  }

  [[nodiscard]] Summary summarize() const {
    Summary summary;
    summary.world_size = ranks_.size();
    summary.ranks = simulation_.topology().ranks();
    summary.step = simulation_.steps_done();
    summary.time = simulation_.time();
    if (const auto& from = handler_->restored_from()) {
      summary.restored_from = from->path.filename().string();
    }
    summary.restored_digest = restored_digest_;
    summary.digest = simulation_.digest();
    summary.error = simulation_.error();
    summary.expected_error = simulation_.expected_error();
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
      summary.preemption = apps::preemption_of(context, handler_->total_run_calls());
      report_.preempted(summary, context.exit_code);
      write(summary);
      describe_checkpoints();
    } catch (const std::exception& error) {
      std::cerr << "reprieve-heat: rank " << ranks_.rank() << ": the state is saved, but: " << error.what()
                << std::endl;
    }
    reprieve::preset(handler_->platform()).exit_fn(context);  // as the platform wants it
  }

  const Options& options_;
  Simulation& simulation_;
  Report& report_;
  const apps::Ranks& ranks_;
  reprieve::Checkpoint checkpoint_;
  std::optional<std::uint64_t> restored_digest_;
  std::optional<std::uint64_t> described_;  ///< the latest checkpoint that ParaView was told of
  std::optional<reprieve::PreemptionCheckpointHandler> handler_;
};

}  // namespace

int run_job(int argc, const char* const* argv, MPI_Comm comm) {
  const apps::Ranks world(comm);
  Options options;
  world.on_every_rank([&] {
    options = parse_options(argc, argv);
    if (options.answer.empty()) {
      reprieve::configure_logging(options.settings.log, world.is_chief());
    }
  });
  if (!options.answer.empty()) {
    if (world.is_chief()) {
      std::cout << options.answer << std::flush;
    }
    return 0;
  }
  // Its collective calls come after all that can fail on all ranks alike, and before what can fail on one (memory).
  std::unique_ptr<Simulation> simulation;
  world.on_every_rank([&] { simulation = std::make_unique<Simulation>(options, comm); });
  const apps::Ranks ranks(simulation->topology().comm());
  Report report(ranks.is_chief(), options);
  report.start(*simulation, ranks.size());
  Job(options, *simulation, report, ranks).run();
  return 0;
}

}  // namespace heat
