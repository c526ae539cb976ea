// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Arrays in the memory of fake devices, and checkpoints of them.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "devices/fake_device.hpp"
#include "mpi/manager_fixture.hpp"
#include "reprieve/reprieve.hpp"
#include "support/mpi_test.hpp"

namespace reprieve::test {

/// A fake driver, loaded as a program loads one.
inline const FakeDevices& load_driver(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(dlerror());
  }
  return *reinterpret_cast<const FakeDevices* (*)()>(dlsym(library, "fake_devices"))();
}
inline const FakeDevices& cuda() {
  static const FakeDevices& driver = load_driver(REPRIEVE_FAKE_CUDA);
  return driver;
}
inline const FakeDevices& hip() {
  static const FakeDevices& driver = load_driver(REPRIEVE_FAKE_HIP);
  return driver;
}

/// Where an array is.
struct Place {
  const FakeDevices* driver = nullptr;  ///< null: the host
  FakeMemory kind = FAKE_DEVICE;
  int device = 0;
};

/// Numbers that a test can always look at, wherever they are.
class Numbers {
 public:
  Numbers(const Place& place, std::size_t count) : driver_(place.driver), count_(count) {
    if (driver_ == nullptr) {
      host_.resize(count);
      data_ = host_.data();
    } else {
      data_ = static_cast<double*>(driver_->allocate(bytes(), place.kind, place.device));
    }
  }
  ~Numbers() {
    if (driver_ != nullptr) {
      driver_->release(data_);
    }
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  /// What the program registers.
  [[nodiscard]] double* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(double); }
  [[nodiscard]] std::span<double> seen() {
    return {driver_ == nullptr ? data_ : reinterpret_cast<double*>(driver_->bytes_of(data_)), count_};
  }
  /// Whether every byte is this one.
  [[nodiscard]] bool are_filled_with(int byte) {
    std::vector<double> expected(count_);
    std::memset(expected.data(), byte, bytes());
    return std::ranges::equal(seen(), expected);
  }

 private:
  const FakeDevices* driver_;
  std::size_t count_;
  std::vector<double> host_;
  double* data_ = nullptr;
};

/// This rank's rows (or columns) of an array of rows x columns, with ghost layers.
class Field {
 public:
  struct Shape {
    std::uint64_t rows;
    std::uint64_t columns;
    std::uint64_t ghost = 0;
    bool by_columns = false;
  };

  Field(MPI_Comm comm, const Shape& shape, const Place& place) : shape_(shape) {
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const std::uint64_t length = shape.by_columns ? shape.columns : shape.rows;
    const std::uint64_t first = length * static_cast<std::uint64_t>(rank) / static_cast<std::uint64_t>(size);
    const std::uint64_t end = length * (static_cast<std::uint64_t>(rank) + 1) / static_cast<std::uint64_t>(size);
    offset_ = shape.by_columns ? Extents{0, first} : Extents{first, 0};
    extent_ = shape.by_columns ? Extents{shape.rows, end - first} : Extents{end - first, shape.columns};
    width_ = extent_[1] + 2 * shape.ghost;
    numbers_ = std::make_unique<Numbers>(place, (extent_[0] + 2 * shape.ghost) * width_);
    std::ranges::fill(numbers_->seen(), kGhost);
  }

  void add_to(Checkpoint& state, const std::string& name) const {
    const Extents ghost(2, shape_.ghost);
    state.add_distributed(
        name, numbers_->data() + first_interior_index(extent_, ghost),
        with_ghost_layers(Extents{shape_.rows, shape_.columns}, offset_, extent_, ghost, sizeof(double)));
  }

  void set(int seed) {
    visit([&](double& value, double expected) { value = expected + seed; });
  }
  /// Elements that are not as `set` made them, and ghost layers that were touched. Spoils them all.
  [[nodiscard]] std::size_t wrong(int seed) {
    std::size_t count = 0;
    visit([&](double& value, double expected) {
      count += value == expected + seed ? 0U : 1U;
      value = kGhost;
    });
    for (const double value : numbers_->seen()) {
      count += value == kGhost ? 0U : 1U;
    }
    return count;
  }

  [[nodiscard]] std::uint64_t own_bytes() const { return extent_[0] * extent_[1] * sizeof(double); }
  [[nodiscard]] Numbers& numbers() const { return *numbers_; }

 private:
  static constexpr double kGhost = -1;

  template <class Visit>
  void visit(Visit&& at) {
    const std::span<double> values = numbers_->seen();
    for (std::uint64_t row = 0; row < extent_[0]; ++row) {
      for (std::uint64_t column = 0; column < extent_[1]; ++column) {
        const std::uint64_t place = (row + shape_.ghost) * width_ + column + shape_.ghost;
        at(values[place], static_cast<double>((offset_[0] + row) * shape_.columns + offset_[1] + column));
      }
    }
  }

  Shape shape_;
  Extents offset_;
  Extents extent_;
  std::uint64_t width_ = 0;
  std::unique_ptr<Numbers> numbers_;
};

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    cuda().reset();
    hip().reset();
  }
  void TearDown() override {
    for (const FakeDevices* driver : {&cuda(), &hip()}) {
      driver->fail(nullptr, 0);
      EXPECT_EQ(driver->counts->pinned, 0U);
      EXPECT_EQ(driver->counts->contexts, 0);
    }
  }

  [[nodiscard]] CheckpointManager open(Checkpoint& state, MPI_Comm comm = MPI_COMM_WORLD,
                                       ManagerOptions options = {}) const {
    options.lock_timeout = std::chrono::seconds(10);
    options.io_timeout = std::chrono::seconds(60);
    return {comm, state, directory_, options};
  }

  SharedTemporaryDirectory temporary_;
  std::filesystem::path directory_ = temporary_ / "run";
};

/// For a rank of the last: the driver fails there.
inline bool is_last_rank() { return world_rank() == world_size() - 1; }

}  // namespace reprieve::test
