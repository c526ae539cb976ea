// SPDX-License-Identifier: BSD-3-Clause
// What is saved comes back: every kind of variable, on any number of ranks, with both writers.

#include <array>
#include <complex>
#include <cstring>
#include <map>
#include <random>

#include "reprieve/version.hpp"
#include "storage/format/commit_record.hpp"
#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;

enum class Phase : std::uint16_t { warm_up, steady };

/// Values of every element type and container, the same on all ranks.
struct Replicated {
  bool flag = false;
  std::int8_t tiny = 0;
  std::uint64_t large = 0;
  double real = 0;
  long double wide = 0;
  std::complex<float> complex;
  Phase phase = Phase::warm_up;
  std::string text;
  std::string no_text = "something";
  std::vector<float> numbers;
  std::vector<double> none{1, 2};
  std::array<std::int32_t, 3> fixed{};
  std::vector<std::complex<double>> waves;
  std::vector<std::byte> bytes;
  std::vector<bool> flags;
  std::vector<std::complex<long double>> wide_waves;
#ifdef __FLT16_MANT_DIG__
  __extension__ using Half = _Float16;
#else
  using Half = float;
#endif
  std::vector<Half> halves;
  std::mt19937_64 engine;

  /// The bytes of a long double that are no part of its value are written as well.
  Replicated() { std::memset(&wide, 0, sizeof wide); }

  void set() {
    flag = true;
    tiny = -7;
    large = 1ULL << 63U;
    real = 0.1;
    wide = 0.1L;
    complex = {1.5F, -2.5F};
    phase = Phase::steady;
    text = "gr\xc3\xbc\xc3\x9f dich";
    no_text.clear();
    numbers = {1, 2, 3};
    none.clear();
    fixed = {4, 5, 6};
    waves = {{1, 2}, {3, 4}};
    bytes = {std::byte{0}, std::byte{255}};
    flags = {true, false, true};
    wide_waves = {{1, 2}};
    halves = {Half(0.5F), Half(-3.0F)};
    engine.seed(42);
    engine.discard(1000);
  }

  void register_in(Checkpoint& checkpoint) {
    checkpoint.add_replicated("flag", flag);
    checkpoint.add_replicated("group/tiny", tiny);
    checkpoint.add_replicated("group/large", large);
    checkpoint.add_replicated("group/deeper/real", real);
    checkpoint.add_replicated("wide", wide);
    checkpoint.add_replicated("complex", complex);
    checkpoint.add_replicated("phase", phase);
    checkpoint.add_replicated("text", text);
    checkpoint.add_replicated("no_text", no_text);
    checkpoint.add_replicated("numbers", numbers);
    checkpoint.add_replicated("none", none);
    checkpoint.add_replicated("fixed", fixed);
    checkpoint.add_replicated("waves", waves);
    checkpoint.add_replicated("bytes", std::span<std::byte>(bytes));
    checkpoint.add_replicated("flags", flags);
    checkpoint.add_replicated("wide_waves", wide_waves);
    checkpoint.add_replicated("halves", halves);
    checkpoint.add_replicated("engine", engine);
  }

  friend bool operator==(const Replicated&, const Replicated&) = default;
};

/// Values that differ from rank to rank in content and size.
struct PerRank {
  std::int64_t number = 0;
  std::vector<double> samples;
  std::string note;
  std::mt19937 engine;

  void set(int rank) {
    number = 100 + rank;
    samples.assign(static_cast<std::size_t>(rank % 3), 0.5 * rank);
    note = std::string(static_cast<std::size_t>(rank), 'x');
    engine.seed(static_cast<unsigned>(rank));
  }

  void register_in(Checkpoint& checkpoint) {
    checkpoint.add_per_rank("mine/number", number);
    checkpoint.add_per_rank("mine/samples", samples);
    checkpoint.add_per_rank("mine/note", note);
    checkpoint.add_per_rank("mine/engine", engine);
  }

  friend bool operator==(const PerRank&, const PerRank&) = default;
};

class BothWriters : public StorageTest, public testing::WithParamInterface<WriterKind> {};

TEST_P(BothWriters, BringBackEveryKindOfVariable) {
  Replicated replicated;
  PerRank mine;
  Checkpoint saved;
  replicated.set();
  mine.set(world_rank());
  replicated.register_in(saved);
  mine.register_in(saved);
  const std::uint64_t bytes = save(world, saved, GetParam());
  EXPECT_EQ(world.max(static_cast<std::int64_t>(bytes), "test"), static_cast<std::int64_t>(bytes));
  EXPECT_GT(bytes, 100U);

  Replicated other;
  PerRank others;
  other.bytes.resize(2);  // a span has the size that it has
  Checkpoint restored;
  other.register_in(restored);
  others.register_in(restored);
  const FileMetadata metadata = restore(world, restored);
  EXPECT_TRUE(other == replicated);
  EXPECT_TRUE(others == mine);
  EXPECT_EQ(metadata.number, 7U);
  EXPECT_EQ(metadata.run_calls, 70U);
  EXPECT_EQ(metadata.world_size, world_size());
  EXPECT_EQ(metadata.reason.kind, SaveReason::Kind::preemption);
  EXPECT_EQ(metadata.reason.host, "node7");
  EXPECT_TRUE(verify_file(file).empty());
}

/// Column blocks with ghost layers: short runs in the file, strided memory, several checksum blocks per rank.
TEST_P(BothWriters, BringBackStridedMemoryOfManyBlocks) {
  const Extents shape{700, 3000};
  const auto [first, count] = part_of(shape[1], world_rank(), world_size());
  GhostedGrid grid(shape, {0, first}, {shape[0], count}, 2);
  Checkpoint checkpoint;
  grid.register_in(checkpoint, "grid");
  grid.set();
  EXPECT_EQ(save(world, checkpoint, GetParam()), 700U * 3000U * 8U);
  EXPECT_TRUE(verify_file(file).empty());
  GhostedGrid other(shape, {0, first}, {shape[0], count}, 1);
  Checkpoint restored;
  other.register_in(restored, "grid");
  restore(world, restored);
  EXPECT_EQ(other.wrong(), 0U);
}

TEST_P(BothWriters, ReplaceAnExistingFile) {
  std::vector<double> values(100'000, 1.0);
  Checkpoint checkpoint;
  checkpoint.add_replicated("values", values);
  save(world, checkpoint, GetParam());
  values.assign(10, 2.0);
  save(world, checkpoint, GetParam());
  values.clear();
  restore(world, checkpoint);
  EXPECT_EQ(values, std::vector<double>(10, 2.0));
  EXPECT_TRUE(verify_file(file).empty());
}

TEST_P(BothWriters, SaveAnEmptyState) {
  const Checkpoint checkpoint;
  EXPECT_EQ(save(world, checkpoint, GetParam()), 0U);
  EXPECT_EQ(restore(world, checkpoint).number, 7U);
  EXPECT_TRUE(verify_file(file).empty());
  EXPECT_TRUE(list_variables(file).empty());
}

INSTANTIATE_TEST_SUITE_P(Storage, BothWriters, testing::Values(WriterKind::direct, WriterKind::mpio),
                         [](const auto& instance) { return instance.param == WriterKind::direct ? "direct" : "mpio"; });

class Storage : public StorageTest {};

using DataBytes = std::map<std::string, std::vector<std::byte>>;

/// The bytes of all variables and of the table of checksums, at their places in the file. (In what HDF5 leaves unused
/// of its own structures there is whatever was in memory.)
DataBytes data_bytes(const std::filesystem::path& path) {
  const PosixFile file = PosixFile::open_to_read(path);
  const CommitRecord commit_record = read_commit_record(file);
  DataBytes content;
  const auto checksums = read_index_bytes(file, commit_record).checksums;
  const auto table = std::as_bytes(checksums.span());
  content["checksums"].assign(table.begin(), table.end());
  for (const StoredVariable& variable : read_index(file).variables) {
    auto& bytes = content[variable.name + " at " + std::to_string(variable.file_offset)];
    bytes.resize(variable.bytes());
    file.read_all(bytes, variable.file_offset);
  }
  return content;
}

TEST_F(Storage, WritersLeaveTheSameBytes) {
  const Extents shape{50, 60};
  const Extents wide{300, 400};  // three of them are enough for an exchange; a larger one would lie in chunks
  const auto [first, count] = part_of(shape[0], world_rank(), world_size());
  const auto [column, columns] = part_of(wide[1], world_rank(), world_size() + 1);  // the last part is nobody's
  GhostedGrid grid(shape, {first, 0}, {count, shape[1]}, 1);
  GhostedGrid scattered(wide, {0, column}, {wide[0], columns}, 1);
  GhostedGrid another(wide, {0, column}, {wide[0], columns}, 1);
  GhostedGrid third(wide, {0, column}, {wide[0], columns}, 1);
  Replicated replicated;
  Checkpoint checkpoint;
  grid.register_in(checkpoint, "grid");
  scattered.register_in(checkpoint, "scattered");
  another.register_in(checkpoint, "scattered_too");
  third.register_in(checkpoint, "scattered_three");
  replicated.register_in(checkpoint);
  grid.set();
  scattered.set();
  another.set();
  third.set();
  replicated.set();
  save(world, checkpoint, WriterKind::direct);
  const DataBytes direct = data_bytes(file);
  MPI_Barrier(MPI_COMM_WORLD);
  save(world, checkpoint, WriterKind::mpio);
  EXPECT_EQ(direct.size(), checkpoint.size() + 1);
  EXPECT_TRUE(data_bytes(file) == direct);
  restore(world, checkpoint);
  EXPECT_EQ(scattered.wrong() + another.wrong() + third.wrong(), 0U);
}

/// A file without any box says how many dimensions a box would have.
TEST_F(Storage, AnArrayOfWhichNoRankHoldsAnythingComesBack) {
  double nothing = 1;
  Checkpoint checkpoint;
  checkpoint.add_distributed("sparse", &nothing, {{4, 3, 2}, {0, 0, 0}, {0, 0, 0}});
  save(world, checkpoint);
  std::vector<double> whole(24, -1);
  Checkpoint restored;
  restored.add_distributed("sparse", whole.data(), {{4, 3, 2}, {0, 0, 0}, {4, 3, 2}});
  restore(world, restored);
  EXPECT_EQ(whole, std::vector<double>(24, 0.0));
}

TEST_F(Storage, ToolsReadWithoutTheOthers) {
  Replicated replicated;
  PerRank mine;
  Checkpoint checkpoint;
  replicated.set();
  mine.set(world_rank());
  replicated.register_in(checkpoint);
  mine.register_in(checkpoint);
  save(world, checkpoint);
  on_rank_0([&] {
    const FileMetadata metadata = read_metadata(file);
    EXPECT_EQ(metadata.reason.source, "signal SIGTERM");
    EXPECT_EQ(metadata.reason.message, "the end is near");
    EXPECT_EQ(metadata.reason.rank, 1);
    EXPECT_EQ(metadata.time_us, 1'700'000'000'000'000);
    EXPECT_EQ(metadata.library_version, REPRIEVE_VERSION);
    EXPECT_THAT(metadata.hdf5_version, testing::StartsWith("1."));
    std::map<std::string, VariableInfo> variables;
    for (auto& info : list_variables(file)) {
      variables[info.name] = info;
    }
    ASSERT_EQ(variables.size(), checkpoint.size());
    EXPECT_EQ(variables["waves"].type, element_type_of<std::complex<double>>());
    EXPECT_EQ(variables["waves"].shape, (Extents{2}));
    EXPECT_EQ(variables["waves"].bytes, 32U);
    EXPECT_TRUE(variables["flag"].shape.empty());
    const VariableInfo& note = variables["mine/note"];
    EXPECT_EQ(note.distribution, state::Distribution::per_rank);
    ASSERT_EQ(note.rank_shapes.size(), static_cast<std::size_t>(world_size()));
    EXPECT_EQ(note.rank_shapes.back(), Extents());  // one of an array of texts
    EXPECT_EQ(note.shape, (Extents{static_cast<std::uint64_t>(world_size())}));
    const auto text = read_variable(file, "text");
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(text.data()), text.size()), replicated.text);
    EXPECT_THROW(read_variable(file, "nothing"), UsageError);
    std::uint64_t last = 0;
    EXPECT_TRUE(verify_file(file, [&](std::uint64_t done, std::uint64_t all) {
                  EXPECT_GT(done, last);
                  EXPECT_LE(done, all);
                  last = done;
                }).empty());
    EXPECT_GT(last, 0U);
  });
}

}  // namespace
}  // namespace reprieve::storage
