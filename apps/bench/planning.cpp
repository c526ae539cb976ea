#include <spdlog/fmt/fmt.h>

#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>

#include "commands.hpp"
#include "core/text.hpp"
#include "ranks.hpp"
#include "report.hpp"
#include "statistics.hpp"
#include "storage/format/description_message.hpp"
#include "storage/hdf5/hdf5_layout.hpp"
#include "storage/write/file_plan.hpp"

namespace reprieve::bench {

namespace {

using storage::Bytes;

struct PlanningOptions {
  std::vector<std::uint64_t> ranks{100, 1000, 10'000};
  std::vector<std::uint64_t> variables{10, 100};
  int dimensions = 3;
};

/// What one number of ranks and of variables took.
struct Planned {
  std::uint64_t ranks = 0;
  std::uint64_t variables = 0;
  std::uint64_t description_bytes = 0;  ///< of all ranks
  std::uint64_t place_bytes = 0;        ///< for all ranks
  std::uint64_t memory_bytes = 0;       ///< that the chief has more at the end
  double plan_s = 0;
  double places_s = 0;
  double structure_s = 0;
};

/// Ranks along each dimension, as equal as the number allows.
std::array<std::uint64_t, 3> grid_of(std::uint64_t ranks, int dimensions) {
  std::array<std::uint64_t, 3> grid{1, 1, 1};
  for (int d = 0; d < dimensions; ++d) {
    const auto left = static_cast<double>(ranks) / static_cast<double>(grid[0] * grid[1] * grid[2]);
    auto cut = static_cast<std::uint64_t>(std::llround(std::pow(left, 1.0 / (dimensions - d))));
    while (ranks / (grid[0] * grid[1] * grid[2]) % cut != 0) {
      --cut;
    }
    grid[static_cast<std::size_t>(d)] = cut;
  }
  return grid;
}

/// A regular grid, 32 cells of each rank along each dimension.
storage::DescriptionMessage describe(std::uint64_t rank, std::uint64_t variables,
                                     const std::array<std::uint64_t, 3>& grid) {
  constexpr std::uint64_t kCells = 32;
  const std::array<std::uint64_t, 3> at{rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
  storage::LocalVariable variable;
  variable.description.distribution = state::Distribution::distributed;
  variable.description.type = element_type_of<double>();
  storage::Box box;
  for (std::size_t d = 0; d < grid.size(); ++d) {
    variable.description.shape.push_back(grid[d] * kCells);
    box.offset.push_back(at[d] * kCells);
    box.extent.push_back(kCells);
  }
  variable.description.boxes = {box};
  std::vector<storage::LocalVariable> all(variables, variable);
  for (std::uint64_t v = 0; v < variables; ++v) {
    all[v].description.name = fmt::format("field/{:07}", v);
  }
  return storage::encode_descriptions(all);
}

double seconds_of(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::uint64_t total(const std::vector<Bytes>& messages) {
  std::uint64_t bytes = 0;
  for (const Bytes& message : messages) {
    bytes += message.size();
  }
  return bytes;
}

std::uint64_t memory_in_use() {
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4096;
}

Planned plan(std::uint64_t ranks, std::uint64_t variables, int dimensions) {
  const auto grid = grid_of(ranks, dimensions);
  storage::Told told{{describe(0, variables, grid).facts}, {}};
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    told.numbers.push_back(describe(rank, variables, grid).numbers);
  }
  Planned planned{.ranks = ranks, .variables = variables, .description_bytes = total(told.numbers)};
  const std::uint64_t before = memory_in_use();
  storage::FileIndex index;
  std::unique_ptr<storage::LaidOutFile> file;
  storage::Places places;
  planned.plan_s = seconds_of([&] { index = storage::plan_from(std::move(told), {}); });
  planned.structure_s = seconds_of([&] { file = std::make_unique<storage::LaidOutFile>(std::move(index)); });
  planned.places_s = seconds_of([&] { places = storage::places_in(file->index(), static_cast<int>(ranks), 0); });
  planned.place_bytes = total(places.of_ranks) + ranks * places.common.size();
  planned.memory_bytes = memory_in_use() - std::min(before, memory_in_use());
  return planned;
}

void print(const std::vector<Planned>& all) {
  Table table("What the chief does alone before the first save",
              {"ranks", "variables", "told by ranks", "told to ranks", "plan", "structure", "places", "memory"});
  for (const Planned& each : all) {
    table.add_row({std::to_string(each.ranks), std::to_string(each.variables), core::size_text(each.description_bytes),
                   core::size_text(each.place_bytes), format_seconds(each.plan_s), format_seconds(each.structure_s),
                   format_seconds(each.places_s), core::size_text(each.memory_bytes)});
  }
  table.print();
}

void run(const PlanningOptions& options, bool json) {
  if (rank_in(MPI_COMM_WORLD) != 0) {
    return;
  }
  std::vector<Planned> all;
  Report report("planning");
  for (const std::uint64_t variables : options.variables) {
    for (const std::uint64_t ranks : options.ranks) {
      const Planned& planned = all.emplace_back(plan(ranks, variables, options.dimensions));
      report.add({{"ranks", planned.ranks},
                  {"variables", planned.variables},
                  {"description_bytes", planned.description_bytes},
                  {"place_bytes", planned.place_bytes},
                  {"memory_bytes", planned.memory_bytes},
                  {"plan_s", planned.plan_s},
                  {"structure_s", planned.structure_s},
                  {"places_s", planned.places_s}});
    }
  }
  json ? report.print_json() : print(all);
}

}  // namespace

void add_planning_command(CLI::App& app, const bool& json) {
  auto options = std::make_shared<PlanningOptions>();
  CLI::App* command = app.add_subcommand(
      "planning", "What the chief does alone before a save, for ranks that are not there: a regular grid");
  command->add_option("--ranks", options->ranks, "Numbers of ranks")->capture_default_str();
  command->add_option("--variables", options->variables, "Numbers of variables")->capture_default_str();
  command->add_option("--dimensions", options->dimensions, "Cut in so many of the three dimensions")
      ->check(CLI::Range(1, 3))
      ->capture_default_str();
  command->callback([options, &json] { run(*options, json); });
}

}  // namespace reprieve::bench
