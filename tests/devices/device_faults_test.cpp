// SPDX-License-Identifier: BSD-3-Clause
// Devices that fail, memory that is not what it seems, and memory spaces of a program's own.

#include <sys/mman.h>

#include <fstream>

#include "core/memory.hpp"
#include "device_fixture.hpp"
#include "manager/local_copies.hpp"
#include "manager/manager_impl.hpp"
#include "reprieve/reprieve.h"
#include "state/staging.hpp"

namespace reprieve::test {
namespace {

using testing::HasSubstr;

/// A little of everything, so that few calls of a driver see it all.
class SmallState {
 public:
  explicit SmallState(const FakeDevices& driver)
      : field_(MPI_COMM_WORLD, {12, 9, 1}, {&driver}),
        scattered_(MPI_COMM_WORLD, {16, 4, 0, true}, {&driver, FAKE_DEVICE, 1}),
        value_({&driver, FAKE_POOL}, 20),
        strided_({&driver}, 20) {
    field_.add_to(state, "field");
    scattered_.add_to(state, "scattered");
    state.add_replicated("value", std::span(value_.data(), 20));
    state.add_per_rank("strided", StridedView<double>{strided_.data(), {10}, {16}});
  }
  void set(int seed) {
    field_.set(seed);
    scattered_.set(seed);
    std::ranges::fill(value_.seen(), seed);
    std::ranges::fill(strided_.seen(), seed);
  }
  [[nodiscard]] std::size_t wrong(int seed) {
    std::size_t count = field_.wrong(seed) + scattered_.wrong(seed);
    for (std::size_t i = 0; i < 20; ++i) {
      count += value_.seen()[i] == seed ? 0U : 1U;
      count += strided_.seen()[i] == seed || i % 2 == 1 ? 0U : 1U;
    }
    return count;
  }

  Checkpoint state;

 private:
  Field field_;
  Field scattered_;
  Numbers value_;
  Numbers strided_;
};

/// Lets the nth call of the driver on the last rank fail, for all n up to the number of calls that @p act makes.
/// @param act  true if it succeeded
void with_each_call_failing(const FakeDevices& driver, const std::function<void()>& before,
                            const std::function<bool()>& act, const std::function<void(bool)>& after) {
  std::uint64_t failures = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    before();
    driver.reset();
    driver.fail(nullptr, is_last_rank() ? nth : 0);
    const bool succeeded = act();
    std::uint64_t was_reached = is_last_rank() && driver.counts->calls >= nth ? 1 : 0;
    MPI_Bcast(&was_reached, 1, MPI_UINT64_T, world_size() - 1, MPI_COMM_WORLD);
    driver.fail(nullptr, 0);
    after(succeeded);
    failures += succeeded ? 0 : 1;
    if (was_reached == 0) {
      EXPECT_TRUE(succeeded);
      break;
    }
    ASSERT_LT(nth, 2000U);
  }
  EXPECT_GT(failures, 10U);
}

/// Whether it succeeds; if not, the error is the same on all ranks, and that of the device.
bool succeeds_or_fails_on_all(const std::function<void()>& call) {
  int failed = 0;
  std::string message;
  try {
    call();
  } catch (const StorageError& error) {
    failed = 1;
    message = error.what();
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(message, HasSubstr("the device failed: "));
  }
  int of_all = 0;
  MPI_Allreduce(&failed, &of_all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_TRUE(of_all == 0 || of_all == world_size()) << message;
  std::uint64_t length = message.size();
  MPI_Bcast(&length, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  EXPECT_EQ(length, message.size());
  return of_all == 0;
}

class DeviceFaults : public DeviceTest {
 protected:
  void each_call_of_a_save(const FakeDevices& driver) {
    SmallState small(driver);
    CheckpointManager manager = open(small.state);
    small.set(1);
    manager.save(1);
    std::uint64_t number = 1;
    std::uint64_t saved = 1;
    with_each_call_failing(
        driver, [&] { small.set(static_cast<int>(++number)); },
        [&] { return succeeds_or_fails_on_all([&] { manager.save(number); }); },
        [&](bool succeeded) {
          saved = succeeded ? number : saved;
          ASSERT_TRUE(manager.latest());
          EXPECT_EQ(manager.latest()->number, saved);
        });
    small.set(5000);
    manager.save(5000);
    small.set(0);
    ASSERT_TRUE(manager.restore_or_initialize());
    EXPECT_EQ(small.wrong(5000), 0U);
  }
};

TEST_F(DeviceFaults, AtEachCallOfASave) {
  each_call_of_a_save(cuda());
  each_call_of_a_save(hip());
}

TEST_F(DeviceFaults, AtEachCallOfARestore) {
  SmallState small(cuda());
  small.set(3);
  open(small.state).save(3);
  with_each_call_failing(
      cuda(), [&] { small.set(0); },
      [&] {
        CheckpointManager manager = open(small.state);
        return succeeds_or_fails_on_all([&] { static_cast<void>(manager.restore_or_initialize()); });
      },
      [&](bool succeeded) {
        if (succeeded) {
          EXPECT_EQ(small.wrong(3), 0U);
        }
      });
  small.set(0);
  CheckpointManager manager = open(small.state);
  ASSERT_TRUE(manager.restore_or_initialize());
  EXPECT_EQ(small.wrong(3), 0U);
}

TEST_F(DeviceFaults, AtEachCallOfASaveInTheBackground) {
  SmallState small(cuda());
  CheckpointManager manager = open(small.state);
  std::uint64_t number = 0;
  with_each_call_failing(
      cuda(), [&] { small.set(static_cast<int>(++number)); },
      [&] {
        return succeeds_or_fails_on_all([&] {
          CheckpointManager::SaveRequest request;
          request.number = number;
          manager.save_in_background(request);
        });
      },
      [&](bool) { manager.finish_background_save(); });
  ASSERT_TRUE(manager.restore_or_initialize());
  EXPECT_EQ(small.wrong(static_cast<int>(number)), 0U);
}

TEST_F(DeviceFaults, AtEachCallOfALocalCopy) {
  const std::filesystem::path place = temporary_ / "local";
  on_first_ranks(1, [&](MPI_Comm) { std::filesystem::create_directories(place); });
  ManagerOptions options;
  options.local_directory = place;
  SmallState small(cuda());
  CheckpointManager manager = open(small.state, MPI_COMM_WORLD, options);
  manager.restore_or_initialize();
  std::uint64_t number = 0;
  with_each_call_failing(
      cuda(), [&] { small.set(static_cast<int>(++number)); }, [&] { return manager.local_copy(number); },
      [&](bool) { manager.impl().local->wait(); });
}

/// A library for building on hosts without a device answers so, and a driver that is not of use to a program.
TEST_F(DeviceFaults, ADriverThatIsOfNoUse) {
  std::vector<double> numbers(10, 4);
  Checkpoint state;
  state.add_per_rank("numbers", std::span(numbers));
  CheckpointManager manager = open(state);
  std::uint64_t number = 0;
  for (const int result : {34, 101, 709, 802, 803, 804}) {
    cuda().answer("cuPointerGetAttribute", result);
    EXPECT_NO_THROW(manager.save(++number)) << result;
    EXPECT_EQ(manager.latest()->number, number) << result;
  }
  cuda().answer("cuPointerGetAttribute", 0);
  for (const int result : {35, 101}) {
    hip().answer("hipPointerGetAttributes", result);
    EXPECT_NO_THROW(manager.save(++number)) << result;
    EXPECT_EQ(manager.latest()->number, number) << result;
  }
  hip().answer("hipPointerGetAttributes", 0);
}

/// The driver would continue to take that memory for pinned, whoever had it next.
TEST_F(DeviceFaults, WhatCannotBeUnpinnedIsNotFreed) {
  for (const auto& [driver, function] :
       {std::pair{&cuda(), "cuMemHostUnregister"}, std::pair{&hip(), "hipHostUnregister"}}) {
    const auto space = driver == &cuda() ? cuda_memory() : hip_memory();
    Numbers numbers({driver}, 1000);
    std::vector<double> host(1000);
    const auto copy = [&] {
      state::Staging staging;
      staging.copy_out(*space, reinterpret_cast<std::byte*>(host.data()), {8},
                       reinterpret_cast<const std::byte*>(numbers.data()), {8}, {1000}, 8);
    };
    driver->answer(function, 713);
    copy();
    driver->answer(function, 0);
    EXPECT_GT(driver->counts->pinned, 0U);
    for (int again = 0; again < 10; ++again) {
      copy();
    }
    EXPECT_EQ(driver->counts->not_pinned, 0U);
    driver->unpin_all();
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// What cannot be.

TEST_F(DeviceFaults, ABoxThatReachesOutOfTheDevice) {
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / sizeof(double);
  Numbers numbers({&cuda()}, pages);
  Checkpoint state;
  const auto reaches = [&](std::uint64_t elements) {
    state.add_distributed("field", numbers.data(), DistributedLayout{Extents{elements}, {0}, Extents{elements}});
  };
  try {
    reaches(pages + 1);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("distributed variable 'field'"));
    EXPECT_THAT(error.what(), HasSubstr("begins in the memory space 'cuda' and ends outside of it"));
  }
  reaches(pages);
}

TEST_F(DeviceFaults, NegativeStridesAndTexts) {
  Numbers numbers({&cuda()}, 100);
  Checkpoint state;
  try {
    state.add_distributed("field", numbers.data() + 99, DistributedLayout{{100}, {0}, {100}, {-8}});
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("negative strides"));
  }
}

TEST_F(DeviceFaults, MemoryOfAnotherSpaceThanWasSet) {
  for (const bool strided : {false, true}) {
    Checkpoint state;
    std::vector<double> host(10);
    if (strided) {
      state.add_per_rank("host", StridedView<double>{host.data(), {5}, {16}});
    } else {
      state.add_per_rank("host", std::span(host));
    }
    state.set_memory_space("host", cuda_memory());
    CheckpointManager manager = open(state);
    EXPECT_THAT(same_error_on_all_ranks([&] { manager.save(1); }),
                is_error(ErrorCode::usage, "variable 'host': its memory is not of the memory space 'cuda'"));
    EXPECT_FALSE(manager.latest());
    EXPECT_THROW(state.set_memory_space("nobody", cuda_memory()), UsageError);
  }
  EXPECT_THROW(static_cast<void>(memory_space("none")), UsageError);
}

/// The kernel's own page is mapped as memory of devices may be: a program can read it, process_vm_readv cannot.
TEST_F(DeviceFaults, MemoryOfADeviceThatTheHostReads) {
  std::ifstream maps("/proc/self/maps");
  std::uintptr_t first = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with("[vvar]")) {
      first = std::stoull(line, nullptr, 16);
    }
  }
  if (first == 0) {
    GTEST_SKIP() << "there is no such page";
  }
  EXPECT_TRUE(core::is_mapped(reinterpret_cast<const void*>(first), 8));
}

/// As a driver of another kind reserves it: no space knows it.
TEST_F(DeviceFaults, MemoryOfADeviceThatNobodyKnows) {
  void* const memory = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Checkpoint state;
  state.add_per_rank("unknown", std::span(static_cast<double*>(memory), 512));
  CheckpointManager manager = open(state);
  const SeenError error = same_error_on_all_ranks([&] { manager.save(1); });
  EXPECT_THAT(error.message, HasSubstr("variable 'unknown'"));
  EXPECT_THAT(error.message, HasSubstr("is not the program's"));
  EXPECT_THROW(state.add_distributed("field", static_cast<double*>(memory), DistributedLayout{{512}, {0}, {512}}),
               UsageError);
  munmap(memory, 4096);
}

// ---------------------------------------------------------------------------------------------------------------------
// A space of the program's own, by the functions of C: a device whose addresses are no memory of the process at all.

struct OwnDevice {
  std::vector<unsigned char> memory = std::vector<unsigned char>(1000);
  std::uintptr_t base = 0x10;  ///< nothing is ever mapped there
  int settled = 0;
  std::uintptr_t last_settled = 0;  ///< the highest address
  bool fails = false;

  [[nodiscard]] unsigned char* at(const void* address) {
    return memory.data() + (reinterpret_cast<std::uintptr_t>(address) - base);
  }
};

void copy_rows(unsigned char* to, std::size_t to_pitch, const unsigned char* from, std::size_t from_pitch,
               std::size_t width, std::size_t rows) {
  for (std::size_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * to_pitch, from + row * from_pitch, width);
  }
}

int own_owner(const void* address, void* user) {
  const auto& device = *static_cast<OwnDevice*>(user);
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  return place >= device.base && place < device.base + device.memory.size() ? REPRIEVE_MEMORY_DEVICE
                                                                            : REPRIEVE_MEMORY_OTHER;
}
int own_settle(const void* address, void* user) {
  auto& device = *static_cast<OwnDevice*>(user);
  ++device.settled;
  device.last_settled = std::max(device.last_settled, reinterpret_cast<std::uintptr_t>(address));
  return device.fails ? reprieve_callback_error("the device is on fire") : 0;
}
int own_out(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
            std::size_t rows, void* user) {
  copy_rows(static_cast<unsigned char*>(to), to_pitch, static_cast<OwnDevice*>(user)->at(from), from_pitch, width,
            rows);
  return 0;
}
int own_in(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
           std::size_t rows, void* user) {
  copy_rows(static_cast<OwnDevice*>(user)->at(to), to_pitch, static_cast<const unsigned char*>(from), from_pitch, width,
            rows);
  return 0;
}
int own_wait(const void*, void*) { return 0; }

TEST_F(DeviceFaults, ASpaceOfTheProgramsOwn) {
  static OwnDevice device;
  ASSERT_EQ(reprieve_add_memory_space("abacus", own_owner, own_settle, own_out, own_in, own_wait, &device), 0)
      << reprieve_last_error_message();
  EXPECT_EQ(reprieve_add_memory_space("abacus", own_owner, own_settle, own_out, own_in, own_wait, &device),
            REPRIEVE_ERROR_USAGE);
  EXPECT_EQ(reprieve_add_memory_space("half", own_owner, own_settle, own_out, own_in, nullptr, &device),
            REPRIEVE_ERROR_USAGE);
  reprieve_checkpoint* state = nullptr;
  ASSERT_EQ(reprieve_checkpoint_create(&state), 0);
  const std::int64_t shape = 10L * world_size();
  const std::int64_t offset = 10L * world_rank();
  const std::int64_t extent = 10;
  const std::ptrdiff_t stride = 16;
  ASSERT_EQ(reprieve_add_distributed(state, "beads", REPRIEVE_DOUBLE, reinterpret_cast<void*>(device.base), 1, &shape,
                                     &offset, &extent, &stride),
            0)
      << reprieve_last_error_message();
  ASSERT_EQ(reprieve_set_memory_space(state, "beads", "abacus", nullptr), 0);
  for (int i = 0; i < 1000; ++i) {
    device.memory[static_cast<std::size_t>(i)] = static_cast<unsigned char>(i + world_rank());
  }
  const std::vector<unsigned char> before = device.memory;
  reprieve_manager* manager = nullptr;
  const std::string path = directory_.string();
  ASSERT_EQ(reprieve_manager_open(MPI_COMM_WORLD, state, path.c_str(), nullptr, &manager), 0)
      << reprieve_last_error_message();
  device.settled = 0;
  ASSERT_EQ(reprieve_manager_save(manager, 1), 0) << reprieve_last_error_message();
  EXPECT_GE(device.settled, 1);
  EXPECT_EQ(device.last_settled, device.base + 9 * 16 + 7);  // the last byte, too
  for (std::size_t i = 0; i < 160; ++i) {
    device.memory[i] = i % 16 < 8 ? 0 : device.memory[i];
  }
  int restored = 0;
  ASSERT_EQ(reprieve_manager_restore_latest(manager, &restored, nullptr), 0) << reprieve_last_error_message();
  ASSERT_EQ(restored, 1);
  EXPECT_EQ(device.memory, before);
  device.fails = is_last_rank();
  EXPECT_EQ(reprieve_manager_save(manager, 2), REPRIEVE_ERROR_CLUSTER);
  EXPECT_THAT(reprieve_last_error_message(), HasSubstr("the device is on fire"));
  device.fails = false;
  EXPECT_EQ(reprieve_manager_close(&manager), 0);
  EXPECT_EQ(reprieve_checkpoint_destroy(&state), 0);
}

}  // namespace
}  // namespace reprieve::test
