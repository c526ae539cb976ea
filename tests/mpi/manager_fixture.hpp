// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of the checkpoint manager have in common: a state with every kind of variable, and a directory.

#include <gmock/gmock.h>
#include <mpi.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "reprieve/reprieve.hpp"
#include "support/mpi_test.hpp"
#include "support/small_files.hpp"

namespace reprieve::test {

enum class Phase : std::uint8_t { warm_up, steady };

/// One variable of every kind. The parts of the distributed ones are uneven, and some ranks have none.
class AllKinds {
 public:
  explicit AllKinds(int seed) {
    const auto rank = static_cast<std::uint64_t>(world_rank());
    for (int r = 0; r < world_size(); ++r) {
      const std::uint64_t here = (static_cast<std::uint64_t>(r) + 1) % 3;
      if (r < world_rank()) {
        first_row_ += here;
      }
      rows_ += here;
    }
    my_rows_ = (rank + 1) % 3;
    field_.resize((my_rows_ + 2) * (kColumns + 2));
    set(seed);
    register_all();
  }
  AllKinds(const AllKinds&) = delete;
  AllKinds& operator=(const AllKinds&) = delete;

  /// Values that depend on the seed, the rank where they may, and the place.
  void set(int seed) {
    const int own = seed + 1000 * (world_rank() + 1);
    step = seed;
    loss = 0.5 * seed;
    is_warm = seed % 2 == 0;
    phase = seed % 2 == 0 ? Phase::warm_up : Phase::steady;
    label = "seed " + std::to_string(seed);
    weights.assign(static_cast<std::size_t>(seed % 7), static_cast<float>(seed));
    moments = {1.0 * seed, 2.0 * seed};
    std::iota(buffer.begin(), buffer.end(), seed);
    history.assign(static_cast<std::size_t>(world_rank()) * 2 + static_cast<std::size_t>(seed % 3), own);
    engine.seed(static_cast<std::mt19937_64::result_type>(own));
    engine.discard(static_cast<unsigned long long>(seed));
    for_each_interior([&](std::uint64_t row, std::uint64_t column, double& value) {
      value = seed + 100.0 * static_cast<double>(first_row_ + row) + static_cast<double>(column);
    });
  }

  friend bool operator==(const AllKinds& a, const AllKinds& b) {
    return a.step == b.step && a.loss == b.loss && a.is_warm == b.is_warm && a.phase == b.phase && a.label == b.label &&
           a.weights == b.weights && a.moments == b.moments && a.buffer == b.buffer && a.history == b.history &&
           a.engine == b.engine && a.interior() == b.interior();
  }

  Checkpoint checkpoint;
  int step = 0;
  double loss = 0;
  bool is_warm = false;
  Phase phase = Phase::warm_up;
  std::string label;
  std::vector<float> weights;
  std::array<double, 2> moments{};
  std::array<std::int64_t, 5> buffer{};
  std::vector<int> history;
  std::mt19937_64 engine;

 private:
  static constexpr std::uint64_t kColumns = 5;

  void register_all() {
    checkpoint.add_replicated("step", step);
    checkpoint.add_replicated("train/loss", loss);
    checkpoint.add_replicated("train/is_warm", is_warm);
    checkpoint.add_replicated("train/phase", phase);
    checkpoint.add_replicated("label", label);
    checkpoint.add_replicated("model/weights", weights);
    checkpoint.add_replicated("model/moments", moments);
    checkpoint.add_replicated("model/buffer", std::span<std::int64_t>(buffer));
    checkpoint.add_per_rank("history", history);
    checkpoint.add_per_rank("engine", engine);
    const Extents extent{my_rows_, kColumns};
    const Extents ghost{1, 1};
    checkpoint.add_distributed("field", field_.data() + first_interior_index(extent, ghost),
                               with_ghost_layers({rows_, kColumns}, {first_row_, 0}, extent, ghost, sizeof(double)));
  }

  template <class Visit>
  void for_each_interior(Visit&& visit) {
    for (std::uint64_t row = 0; row < my_rows_; ++row) {
      for (std::uint64_t column = 0; column < kColumns; ++column) {
        visit(row, column, field_[(row + 1) * (kColumns + 2) + column + 1]);
      }
    }
  }

  [[nodiscard]] std::vector<double> interior() const {
    std::vector<double> values;
    const_cast<AllKinds*>(this)->for_each_interior([&](auto, auto, double& value) { values.push_back(value); });
    return values;
  }

  std::uint64_t rows_ = 0;
  std::uint64_t first_row_ = 0;
  std::uint64_t my_rows_ = 0;
  std::vector<double> field_;
};

/// While it lives, files of more than so many bytes cannot be written on the last rank.
class SmallFilesOnTheLastRank {
 public:
  explicit SmallFilesOnTheLastRank(rlim_t most_bytes) {
    if (world_rank() == world_size() - 1) {
      limit_.emplace(most_bytes);
    }
  }

 private:
  std::optional<SmallFiles> limit_;
};

/// A checkpoint directory `<temporary>/run`, and the state to be saved there.
class ManagerTest : public testing::Test {
 protected:
  using Names = std::set<std::string>;

  [[nodiscard]] CheckpointManager open(ManagerOptions options = {}) {
    options.lock_timeout = std::chrono::seconds(10);
    options.io_timeout = std::chrono::seconds(60);
    return {MPI_COMM_WORLD, state.checkpoint, directory, options};
  }

  /// Names in a directory, after all ranks have come here; without the lock file, the record of the directory, the
  /// event log and the recycled file.
  static Names names_in(const std::filesystem::path& path) {
    MPI_Barrier(MPI_COMM_WORLD);
    Names names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      names.insert(entry.path().filename().string());
    }
    names.erase(".reprieve.lock");
    names.erase(".reprieve.directory");
    names.erase("events.jsonl");
    names.erase(".reprieve.recycled");
    MPI_Barrier(MPI_COMM_WORLD);
    return names;
  }
  [[nodiscard]] Names names() const { return names_in(directory); }

  static void on_rank_0(const std::function<void()>& action) { test::on_rank_0(action); }

  static void write_text(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    ASSERT_TRUE(std::filesystem::exists(file));
  }

  static std::string read_text(const std::filesystem::path& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  /// Saves checkpoints with the state of seed = number.
  void save_each(CheckpointManager& manager, const std::vector<int>& numbers) {
    for (const int number : numbers) {
      state.set(number);
      manager.save(static_cast<std::uint64_t>(number));
    }
  }

  /// A run that saves them, and ends.
  void run_with_saves(const std::vector<int>& numbers, const ManagerOptions& options = {}) {
    CheckpointManager manager = open(options);
    save_each(manager, numbers);
  }

  void expect_state(int seed) const { EXPECT_TRUE(state == AllKinds(seed)) << "not the state of seed " << seed; }

  const SharedTemporaryDirectory temporary;
  const std::filesystem::path directory = temporary / "run";
  AllKinds state{1};
};

}  // namespace reprieve::test
