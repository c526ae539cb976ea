// SPDX-License-Identifier: BSD-3-Clause
// reprieve-trainer: data-parallel training of a neural network that survives preemption.

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "common/program.hpp"
#include "trainer/dataset.hpp"
#include "trainer/options.hpp"
#include "trainer/report.hpp"
#include "trainer/training.hpp"

namespace {

using namespace trainer;  // NOLINT(google-build-using-namespace): the program is nothing else
namespace fs = std::filesystem;

constexpr const char* kName = "reprieve-trainer";

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
  ranks.on_every_rank([&] { text = ranks.is_chief() ? read_gzip(file) : ""; });
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
  ranks.on_every_rank([&] { data = data.empty() && ranks.is_chief() ? default_data() : data; });
  const Dataset dataset = load_data(ranks, data);
  std::unique_ptr<Training> training;
  ranks.on_every_rank([&] { training = std::make_unique<Training>(options, dataset, ranks); });
  Report report(ranks.is_chief(), options);
  report.start(*training, dataset, data, ranks.size());
  apps::Job(options, kName, "training", *training, report, ranks).run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return apps::run_program(kName, argc, argv, run); }
