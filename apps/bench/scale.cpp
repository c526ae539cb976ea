// SPDX-License-Identifier: BSD-3-Clause
// `scale`: how checks, saves and restores grow with ranks, variables and bytes.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/communicator.hpp"
#include "cluster/step_agreement.hpp"
#include "measure.hpp"
#include "reprieve/reprieve.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/format/blocks.hpp"
#include "storage/format/description.hpp"
#include "storage/format/layout.hpp"
#include "storage/hdf5/hdf5_layout.hpp"
#include "workload.hpp"

namespace reprieve::bench {

namespace {

// What the ranks of a large job compute for a save and a restore, with descriptions that are made up.

using state::Distribution;
using storage::Box;
using storage::Bytes;
using storage::Description;

/// Cells of a rank: 32 along each dimension.
constexpr std::uint64_t kCells = 32 * 32 * 32;

/// All variables of a rank have one shape, as the fields on a grid have.
std::vector<Description> describe(std::uint64_t rank, std::uint64_t ranks, std::uint64_t variables) {
  const ArrayPart part = grid_part(kCells, rank, ranks);
  Description variable;
  variable.distribution = Distribution::distributed;
  variable.type = element_type_of<double>();
  variable.shape = part.shape;
  variable.boxes = {Box{part.offset, part.extent}};
  std::vector<Description> all(variables, variable);
  for (std::uint64_t v = 0; v < variables; ++v) {
    all[v].name = fmt::format("field/{:07}", v);
  }
  return all;
}

template <class Action>
double seconds_of(Action&& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double total(const std::vector<Bytes>& messages) {
  double bytes = 0;
  for (const Bytes& message : messages) {
    bytes += static_cast<double>(message.size());
  }
  return bytes;
}

/// One made-up job.
class Pretended {
 public:
  Pretended(std::uint64_t ranks, std::uint64_t variables) : ranks_(ranks), variables_(variables) {}

  /// @return seconds and bytes in the order of kSaveCosts
  std::vector<double> save() {
    std::vector<storage::DescriptionMessage> messages = messages_of_ranks();
    double gathered_bytes = 0;
    for (const storage::DescriptionMessage& message : messages) {
      gathered_bytes += static_cast<double>(message.numbers.size());
    }
    storage::FileIndex index;
    storage::FileOffsets offsets;
    reset_peak_memory();
    const double plan_s = seconds_of([&] { index = storage::plan_file(std::move(messages), {}); });
    const double structure_s = seconds_of([&] { file_ = std::make_unique<storage::LaidOutFile>(std::move(index)); });
    const double offsets_s =
        seconds_of([&] { offsets = storage::offsets_in(file_->index(), static_cast<int>(ranks_)); });
    std::vector<Bytes> checksums(ranks_, Bytes(variables_ * sizeof(std::uint64_t)));  // a box is smaller than a block
    const double checksums_s = seconds_of([&] { storage::place_checksums(file_->index(), checksums); });
    // What another rank computes: its message, and the digest of its facts.
    const auto mine = describe(ranks_ - 1, ranks_, variables_);
    storage::DescriptionMessage message;
    const double other_s = seconds_of([&] {
      message = storage::encode_descriptions(mine);
      static_cast<void>(storage::xxh3(message.facts));
    });
    const std::size_t other_bytes =
        message.facts.size() + message.numbers.size() + offsets.common.size() + offsets.of_ranks.back().size();
    return {plan_s,
            structure_s,
            offsets_s,
            checksums_s,
            other_s,
            gathered_bytes,
            total(offsets.of_ranks),
            static_cast<double>(offsets.common.size()),
            static_cast<double>(peak_memory()),
            static_cast<double>(other_bytes)};
  }

  /// After save. @return in the order of kRestoreCosts
  std::vector<double> restore() {
    storage::IndexBytes bytes = stored_index();
    file_.reset();
    reset_peak_memory();
    storage::FileIndex index;
    const double parse_s = seconds_of([&] { index = storage::parse_index(bytes, "made up"); });
    const double apart_s = seconds_of([&] { storage::check_boxes_apart(index, "made up"); });
    const auto message = static_cast<double>(bytes.manifest.size() + 8 * (bytes.boxes.size() + bytes.checksums.size()));
    const double own_s = find_own(index);
    const double other_s = find_on(index, std::max<std::uint64_t>(ranks_ / 2, 1));
    return {parse_s, apart_s, own_s, other_s, message, static_cast<double>(peak_memory())};
  }

 private:
  std::vector<storage::DescriptionMessage> messages_of_ranks() const {
    std::vector<storage::DescriptionMessage> messages;
    for (std::uint64_t rank = 0; rank < ranks_; ++rank) {
      const Bytes one = storage::encode_descriptions(describe(rank, ranks_, 1)).numbers;
      Bytes& all = messages.emplace_back().numbers;
      all.reserve(one.size() * variables_);
      for (std::uint64_t v = 0; v < variables_; ++v) {
        all.insert(all.end(), one.begin(), one.end());
      }
    }
    messages.front().facts = storage::encode_descriptions(describe(0, ranks_, variables_)).facts;
    return messages;
  }

  storage::IndexBytes stored_index() {
    const auto words_of = [](std::span<const std::uint64_t> words) {
      return storage::SharedWords(std::vector<std::uint64_t>(words.begin(), words.end()));
    };
    const storage::FileIndex& index = file_->index();
    manifest_ = storage::encode_manifest(index);
    return {file_->commit_record(), words_of(index.boxes.words()), words_of(index.checksums.span()),
            std::as_bytes(std::span(manifest_))};
  }

  /// A rank on as many ranks as before finds its rows of each variable.
  double find_own(const storage::FileIndex& index) const {
    return seconds_of([&] {
      for (const storage::StoredVariable& variable : index.variables) {
        const storage::RowRange own = index.rows_of(variable, ranks_ - 1, ranks_);
        for (std::size_t row = own.begin; row < own.end; ++row) {
          static_cast<void>(index.row(variable, row));
        }
      }
    });
  }

  /// A rank finds the boxes that meet its own, which are those of another number of ranks.
  double find_on(const storage::FileIndex& index, std::uint64_t ranks) const {
    const Description wanted = describe(ranks - 1, ranks, 1).front();
    return seconds_of([&] {
      for (const storage::StoredVariable& variable : index.variables) {
        const storage::BoxSearch search(index.dataset_boxes(variable));
        for (const Box& box : wanted.boxes) {
          static_cast<void>(search.intersecting(box));
        }
      }
    });
  }

  std::uint64_t ranks_;
  std::uint64_t variables_;
  std::unique_ptr<storage::LaidOutFile> file_;
  std::string manifest_;
};

const std::vector<Cost> kSaveCosts{{"plan"},
                                   {"structure"},
                                   {"offsets"},
                                   {"checksums"},
                                   {"another rank"},
                                   {"sent by ranks", true},
                                   {"to each rank", true},
                                   {"to all ranks", true},
                                   {"memory of rank 0", true},
                                   {"of another", true}};
const std::vector<Cost> kRestoreCosts{
    {"parse"}, {"boxes apart"}, {"find own boxes"}, {"on half the ranks"}, {"index", true}, {"memory of a rank", true}};

/// Not collective: rank 0 measures.
void run_pretended(const std::vector<std::uint64_t>& rank_counts, const std::vector<std::uint64_t>& variable_counts,
                   Report& report) {
  for (const std::uint64_t variables : variable_counts) {
    const std::string what = fmt::format("{} variables on a grid", variables);
    Curve saves{"First save, made-up ranks: " + what, "ranks", kSaveCosts, {}};
    Curve restores{"Restore, made-up ranks: " + what, "ranks", kRestoreCosts, {}};
    for (const std::uint64_t ranks : rank_counts) {
      Pretended job(ranks, variables);
      saves.points.push_back({static_cast<double>(ranks), job.save()});
      restores.points.push_back({static_cast<double>(ranks), job.restore()});
    }
    const nlohmann::json facts{{"pretended", true}, {"variables", variables}};
    saves.add_to(report, facts);
    restores.add_to(report, facts);
  }
}

struct ScaleOptions {
  std::vector<int> ranks;
  std::vector<std::uint64_t> variables{10, 100, 1000, 10'000, 100'000};
  std::vector<double> sizes_mib{1, 4, 16, 64, 256};
  std::uint64_t small_bytes = 64;
  CommonOptions common{.rounds = 5, .directory = {}};
  std::vector<std::uint64_t> pretended;
};

std::vector<double> medians(MPI_Comm comm, const std::vector<Candidate>& candidates, int rounds) {
  Experiment experiment(comm, "");
  experiment.measure(candidates, rounds, 1);
  return experiment.medians();
}

/// Seconds of one reduction as a check makes it, back to back.
double measure_check(MPI_Comm comm, int rounds) {
  constexpr int kChecks = 200;
  cluster::Communicator ranks(comm, std::chrono::minutes(10));
  cluster::MpiReductionChannel channel(ranks);
  const cluster::AgreementVector mine = cluster::encode({.index = 1}, ranks.rank(), ranks.size());
  const Candidate checks{"checks", [&] {
                           for (int i = 0; i < kChecks; ++i) {
                             channel.post(mine);
                             static_cast<void>(channel.wait("check", std::chrono::minutes(10)));
                           }
                         }};
  return medians(comm, {checks}, rounds).front() / kChecks;
}

/// Saves and restores of one state; every save is durable and makes a new file.
/// @param starts_again  before that, a program that starts again: it opens the directory, restores, and saves for the
/// first time
std::vector<double> measure_state(MPI_Comm comm, const WorkloadSpec& spec, const std::filesystem::path& directory,
                                  int rounds, bool starts_again = false) {
  Workload workload(spec, rank_in(comm), size_of(comm));
  std::optional<CheckpointManager> manager;
  const auto open = [&] {
    manager.reset();  // gives the lock of the directory back
    manager.emplace(comm, workload.checkpoint(), directory, ManagerOptions{.max_to_keep = 1, .recycle = false});
  };
  const auto start = [&] { static_cast<void>(manager->restore_or_initialize()); };
  const auto save = [&] { manager->save(); };
  const auto open_and_start = [&] {
    open();
    start();
  };
  open();
  save();
  std::vector<Candidate> candidates{{"save", save}, {"restore", [&] { manager->restore(manager->latest()->path); }}};
  if (starts_again) {
    candidates.insert(candidates.begin(), {{"start", start, open}, {"first save", save, open_and_start}});
  }
  return medians(comm, candidates, rounds);
}

Curve over_ranks(const ScaleOptions& options) {
  Curve curve{"Number of ranks (16 MiB in all, durable)", "ranks", {{"check"}, {"save"}, {"restore"}}, {}};
  for (const int ranks : options.ranks) {
    const Scratch scratch(options.common.directory);
    const FirstRanks first(ranks);
    first.run([&] {
      Point point{static_cast<double>(ranks), {measure_check(first.comm(), options.common.rounds)}};
      const auto state =
          measure_state(first.comm(), {.large_mib = 16.0 / ranks}, scratch.path() / "run", options.common.rounds);
      point.values.insert(point.values.end(), state.begin(), state.end());
      curve.points.push_back(std::move(point));
    });
  }
  return curve;
}

Curve over_variables(const ScaleOptions& options) {
  Curve curve{fmt::format("Number of variables ({} bytes a rank each, durable)", options.small_bytes),
              "variables",
              {{"start"}, {"first save"}, {"save"}, {"restore"}},
              {}};
  for (const std::uint64_t count : options.variables) {
    const Scratch scratch(options.common.directory);
    const WorkloadSpec spec{.large_mib = 1, .small_count = count, .small_bytes = options.small_bytes};
    curve.points.push_back({static_cast<double>(count),
                            measure_state(MPI_COMM_WORLD, spec, scratch.path() / "run", options.common.rounds, true)});
  }
  return curve;
}

Curve over_bytes(const ScaleOptions& options) {
  Curve curve{"Size of the state (one array, durable)", "MiB a rank", {{"save"}, {"restore"}}, {}};
  for (const double mib : options.sizes_mib) {
    const Scratch scratch(options.common.directory);
    curve.points.push_back(
        {mib, measure_state(MPI_COMM_WORLD, {.large_mib = mib}, scratch.path() / "run", options.common.rounds)});
  }
  return curve;
}

/// 1, 2, 4, ... and all.
std::vector<int> powers_of_two_up_to(int size) {
  std::vector<int> ranks;
  for (int n = 1; n < size; n *= 2) {
    ranks.push_back(n);
  }
  ranks.push_back(size);
  return ranks;
}

void run(const ScaleOptions& asked, Report& report) {
  ScaleOptions options = asked;
  if (!options.pretended.empty()) {
    if (rank_in(MPI_COMM_WORLD) == 0) {
      run_pretended(options.pretended, options.variables, report);
    }
    return;
  }
  const int size = size_of(MPI_COMM_WORLD);
  if (options.ranks.empty()) {
    options.ranks = powers_of_two_up_to(size);
  }
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (size > cores) {
    report.remark(fmt::format(
        "{} ranks; this machine has {} cores: ranks beyond its cores wait for each other's turns.", size, cores));
  }
  for (const auto& measure : {over_ranks, over_variables, over_bytes}) {
    measure(options).add_to(report);
  }
}

}  // namespace

void add_scale_command(CLI::App& app, const bool& json) {
  const auto [command, options] = add_command<ScaleOptions>(
      app, json, "scale", "How checks, saves and restores grow with the number of ranks, of variables and of bytes",
      run);
  command->add_option("--ranks", options->ranks, "Numbers of ranks (default: 1, 2, 4, ... and all)");
  command->add_option("--variables", options->variables, "Numbers of small variables")->capture_default_str();
  command->add_option(
      "--pretend-ranks", options->pretended,
      "Numbers of ranks that are made up: what rank 0 and another rank compute, without messages and data");
  command->add_option("--small-bytes", options->small_bytes, "Their size, in bytes a rank")->capture_default_str();
  add_sizes(*command, options->sizes_mib);
}

}  // namespace reprieve::bench
