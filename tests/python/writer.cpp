// SPDX-License-Identifier: BSD-3-Clause
// Writes a checkpoint with something of every kind for tests/python/read.py.
// usage: mpirun -n 2 python_writer DIRECTORY

#include <mpi.h>

#include <array>
#include <chrono>
#include <complex>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "reprieve/reprieve.hpp"
#include "support/whole_file.hpp"

namespace {

struct Particle {
  double position[3] = {};
  std::int32_t id = 0;
  char name[8] = {};
  std::complex<float> wave;
};

}  // namespace

template <>
struct reprieve::RecordMembers<Particle> {
  static Members list() {
    return members_of<Particle>()
        .add("position", &Particle::position)
        .add("id", &Particle::id)
        .add("name", &Particle::name)
        .add("wave", &Particle::wave)
        .list();
  }
};

namespace {

/// The same values as read.py expects.
void save(const std::filesystem::path& directory, int rank, int size) {
  const auto row = static_cast<std::uint64_t>(rank);
  const auto rows = static_cast<std::uint64_t>(size);
  reprieve::Checkpoint state;
  std::vector<double> temperature{280.0 + rank, 281.0 + rank, 282.0 + rank};
  state.add_distributed("temperature", temperature, {.global_shape = {rows, 3}, .offset = {row, 0}, .extent = {1, 3}});
  state.annotate("temperature", {.units = "K", .description = "temperature of the air (\xC2\xB0)", .dims = {"y", "x"}});
  std::vector<float> pressure{1, 2, 3};
  state.add_distributed("pressure", pressure, {.global_shape = {rows, 3}, .offset = {row, 0}, .extent = {1, 3}});
  state.annotate("pressure", {.units = "Pa", .dims = {"y", "x"}});
  std::vector<double> x{0, 0.5, 1};
  state.add_replicated("x", x);
  state.annotate("x", {.units = "m"});
  double time = 2.5;
  state.add_replicated("time", time);
  state.annotate("time", {.units = "s", .description = "model time"});
  std::vector<int> list(row + 1, rank);
  state.add_per_rank("list", list);
  state.annotate("list", {.dims = {"item"}});

  reprieve::CheckpointManager manager(MPI_COMM_WORLD, state, directory, {});
  manager.save(1);
}

/// Apart from the others: the library of netCDF knows no structs, and no texts of a fixed length.
void save_structs_and_texts(const std::filesystem::path& directory, int rank) {
  reprieve::Checkpoint state;
  std::vector<std::string> species{"argon", "helium", "caf\xC3\xA9"};
  state.add_replicated("species", species);
  std::string host = "node" + std::to_string(10 * rank);
  state.add_per_rank("host", host);
  std::vector<std::string> notes(static_cast<std::size_t>(rank), "of rank " + std::to_string(rank));
  state.add_per_rank("notes", notes);
  std::string title = "a title";
  state.add_replicated("title", title);

  std::vector<Particle> particles{{{0.5, 1.5, 2.5}, rank, "p", {1, 2}}, {{3, 4, 5}, 10 + rank, "q", {}}};
  state.add_per_rank("particles", particles);
  reprieve::CheckpointManager manager(MPI_COMM_WORLD, state, directory, {});
  manager.save(1);
}

/// Types and metadata, for h5py alone.
void save_kinds(const std::filesystem::path& directory, int rank) {
  const auto row = static_cast<std::uint64_t>(rank);
  reprieve::Checkpoint state;
  bool flag = true;
  double real = 0.25;
  long double wide = 1.5L;
  std::vector<std::uint16_t> numbers{1, 2, 65535};
  std::array<std::complex<double>, 2> waves{{{1, 2}, {3, 4}}};
  std::string version = REPRIEVE_VERSION;
  std::vector<std::byte> bytes(3, std::byte{7});
  std::vector<std::int32_t> mine(row, rank);
  std::vector<float> values(4, static_cast<float>(rank));
  state.add_replicated("flag", flag);
  state.add_replicated("a/b/real", real);
  state.add_replicated("wide", wide);
  state.add_replicated("a/numbers", numbers);
  state.add_replicated("waves", waves);
  state.add_replicated("version", version);
  state.add_replicated("bytes", bytes);
  state.add_per_rank("mine", mine);
  state.add_distributed("rows", values, {.global_shape = {2, 4}, .offset = {row, 0}, .extent = {1, 4}});
  reprieve::CheckpointManager manager(MPI_COMM_WORLD, state, directory, {});
  reprieve::SaveReason reason;
  reason.kind = reprieve::SaveReason::Kind::preemption;
  reason.message = "the end is near";
  manager.save(7, reason);
}

/// Each chunk is compressed, also where the disk would take it as it is.
void save_compressed(const std::filesystem::path& directory, int rank, int size) {
  constexpr std::uint64_t kColumns = 1001;
  constexpr std::uint64_t kRows = 2048;  // of each rank
  std::vector<double> field(kRows * kColumns);
  std::vector<std::int32_t> mine(field.size());
  const std::uint64_t first = static_cast<std::uint64_t>(rank) * kRows;
  for (std::uint64_t i = 0; i < field.size(); ++i) {
    field[i] = static_cast<double>((first * kColumns + i) / 100);
    mine[i] = static_cast<std::int32_t>(i / 10) + rank;
  }
  reprieve::Checkpoint state;
  state.add_distributed("field", field,
                        {.global_shape = {static_cast<std::uint64_t>(size) * kRows, kColumns},
                         .offset = {first, 0},
                         .extent = {kRows, kColumns}});
  state.add_per_rank("mine", mine);
  if (rank == 0) {
    std::filesystem::create_directory(directory);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  reprieve::cluster::Communicator comm(MPI_COMM_WORLD, std::chrono::minutes(1));
  reprieve::storage::FileMetadata metadata;
  metadata.number = 1;
  reprieve::storage::LayoutCache cache;
  reprieve::storage::write_checkpoint(comm, state.registry(), directory / "ckpt-1.h5", metadata,
                                      {.compress = {reprieve::Compression::lz4, false}}, cache);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    return 2;
  }
  MPI_Init(&argc, &argv);
  int code = 0;
  try {
    const std::filesystem::path directory = argv[1];
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
      std::filesystem::remove_all(directory);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    save(directory, rank, size);
    save_structs_and_texts(directory / "apart", rank);
    save_kinds(directory / "kinds", rank);
    save_compressed(directory / "compressed", rank, size);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    code = 1;
  }
  MPI_Finalize();
  return code;
}
