// SPDX-License-Identifier: BSD-3-Clause
// Arrays and values in the memory of devices: saved, restored, in every way.

#include "device_fixture.hpp"
#include "manager/local_copies.hpp"
#include "manager/manager_impl.hpp"
#include "state/staging.hpp"
#include "storage/format/file_index.hpp"
#include "storage/format/manifest.hpp"

namespace reprieve::test {
namespace {

constexpr Field::Shape kLarge{1500, 1100, 2};          // 13 MB, a good many blocks
constexpr Field::Shape kScattered{3000, 60, 1, true};  // rows of a few hundred bytes, 1.4 MB

struct Way {
  const char* name;
  Place from;
  Place to;
  Field::Shape shape;
};

class DeviceWays : public DeviceTest, public testing::WithParamInterface<Way> {};

TEST_P(DeviceWays, WhatIsSavedComesBack) {
  const Way& way = GetParam();
  {
    Checkpoint state;
    Field field(MPI_COMM_WORLD, way.shape, way.from);
    field.add_to(state, "field");
    field.set(7);
    CheckpointManager manager = open(state);
    manager.save(1);
    EXPECT_EQ(field.wrong(7), 0U);
  }
  for (int ranks = std::max(1, world_size() - 1); ranks <= world_size(); ++ranks) {
    on_first_ranks(ranks, [&](MPI_Comm comm) {
      Checkpoint state;
      Field field(comm, way.shape, way.to);
      field.add_to(state, "field");
      CheckpointManager manager = open(state, comm);
      ASSERT_TRUE(manager.restore_or_initialize());
      EXPECT_EQ(field.wrong(7), 0U) << ranks << " ranks";
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Devices, DeviceWays,
    testing::Values(Way{"cuda_to_cuda", {&cuda()}, {&cuda(), FAKE_DEVICE, 1}, kLarge},
                    Way{"cuda_to_host", {&cuda(), FAKE_DEVICE, 1}, {}, kLarge},
                    Way{"host_to_cuda", {}, {&cuda()}, kLarge},
                    Way{"managed_to_pool", {&cuda(), FAKE_MANAGED}, {&cuda(), FAKE_POOL}, kLarge},
                    Way{"pool_to_managed", {&cuda(), FAKE_POOL}, {&cuda(), FAKE_MANAGED}, kLarge},
                    Way{"hip_to_host", {&hip(), FAKE_DEVICE, 1}, {}, kLarge},
                    Way{"cuda_to_hip", {&cuda()}, {&hip()}, kLarge},
                    Way{"managed_hip_to_hip", {&hip(), FAKE_MANAGED}, {&hip(), FAKE_DEVICE, 1}, kLarge},
                    Way{"scattered_cuda_to_host", {&cuda()}, {}, kScattered},
                    Way{"host_to_scattered_cuda", {}, {&cuda()}, kScattered},
                    Way{"scattered_hip_to_hip", {&hip()}, {&hip()}, kScattered}),
    [](const auto& way) { return std::string(way.param.name); });

class Devices : public DeviceTest {};

std::vector<std::uint64_t> checksums_in(const std::filesystem::path& file) {
  const storage::FileIndex index = storage::read_index(storage::PosixFile::open_to_read(core::FileAddress(file)));
  const auto checksums = index.checksums.span();
  return {checksums.begin(), checksums.end()};
}

TEST_F(Devices, TheFileDoesNotKnow) {
  std::vector<std::vector<std::uint64_t>> found;
  for (const Place& place : {Place{}, Place{&cuda()}, Place{&hip()}}) {
    Checkpoint state;
    Field large(MPI_COMM_WORLD, kLarge, place);
    Field scattered(MPI_COMM_WORLD, kScattered, place);
    large.add_to(state, "large");
    scattered.add_to(state, "scattered");
    large.set(3);
    scattered.set(4);
    CheckpointManager manager = open(state);
    manager.save(found.size());
    found.push_back(checksums_in(directory_ / ("ckpt-" + std::to_string(found.size()) + ".h5")));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  EXPECT_FALSE(found[0].empty());
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2], found[0]);
}

/// Both directions: all bytes once, through two pinned buffers, after the device has come to rest.
void expect_streamed(const FakeDevices& driver, std::uint64_t out, std::uint64_t in) {
  const FakeCounts& counts = *driver.counts;
  EXPECT_EQ(counts.bytes_out, out);
  EXPECT_EQ(counts.bytes_in, in);
  EXPECT_LE(counts.largest_copy, std::uint64_t{4} << 20U);
  EXPECT_LE(counts.most_pinned, std::uint64_t{8} << 20U);
  EXPECT_EQ(counts.not_pinned, 0U);
  EXPECT_EQ(counts.while_busy, 0U);
}

TEST_F(Devices, TheStateIsNotCopiedAsAWhole) {
  for (const FakeDevices* driver : {&cuda(), &hip()}) {
    Checkpoint state;
    const Field::Shape shape{static_cast<std::uint64_t>(2500 * world_size()), 1000, 1};  // 20 MB for each rank
    Field field(MPI_COMM_WORLD, shape, {driver});
    field.add_to(state, "field");
    field.set(1);
    CheckpointManager manager = open(state);
    driver->reset();
    manager.save(driver == &cuda() ? 1 : 2);
    expect_streamed(*driver, field.own_bytes(), 0);
    EXPECT_EQ(field.wrong(1), 0U);
    driver->reset();
    ASSERT_TRUE(manager.restore_or_initialize());
    expect_streamed(*driver, 0, field.own_bytes());
    EXPECT_EQ(field.wrong(1), 0U);
  }
}

TEST_F(Devices, WorkThatIsUnderWayIsWaitedFor) {
  for (const FakeDevices* driver : {&cuda(), &hip()}) {
    Numbers numbers({driver, FAKE_DEVICE, 1}, 1000);
    Checkpoint state;
    state.add_per_rank("numbers", std::span(numbers.data(), 1000));
    CheckpointManager manager = open(state);
    driver->launch(numbers.data(), numbers.bytes(), 0x11);
    manager.save(driver == &cuda() ? 1 : 2);
    driver->launch(numbers.data(), numbers.bytes(), 0x22);  // is done before the restore overwrites it
    ASSERT_TRUE(manager.restore_or_initialize());
    EXPECT_TRUE(numbers.are_filled_with(0x11));
    EXPECT_EQ(driver->counts->while_busy, 0U);
  }
}

TEST_F(Devices, WorkOfFunctionsInARestoreIsWaitedFor) {
  for (const FakeDevices* driver : {&cuda(), &hip()}) {
    Field field(MPI_COMM_WORLD, {12, 9}, {driver});
    Checkpoint state;
    field.add_to(state, "field");
    state.when_values_restored([&] { driver->launch(field.numbers().data(), field.numbers().bytes(), 0x22); });
    field.set(6);
    CheckpointManager manager = open(state);
    manager.save(driver == &cuda() ? 1 : 2);
    ASSERT_TRUE(manager.restore_or_initialize());
    EXPECT_EQ(driver->counts->while_busy, 0U);
    EXPECT_EQ(field.wrong(6), 0U);
  }
}

/// A function of the fake driver.
template <class Function>
Function* driver_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}
void* context_of(const Numbers& numbers) {
  void* context = nullptr;
  const auto attribute = driver_function<int(void*, int, std::uintptr_t)>("cuPointerGetAttribute");
  EXPECT_EQ(attribute(&context, 1, reinterpret_cast<std::uintptr_t>(numbers.data())), 0);
  return context;
}

/// What is current need not be a context of the device to which memory of a pool belongs.
TEST_F(Devices, MemoryOfAPoolOfAnotherDevice) {
  const auto set_current = driver_function<int(void*)>("cuCtxSetCurrent");
  const Numbers other({&cuda()}, 1);
  Numbers numbers({&cuda(), FAKE_POOL, 1}, 1000);
  Checkpoint state;
  state.add_per_rank("numbers", std::span(numbers.data(), 1000));
  CheckpointManager manager = open(state);
  ASSERT_EQ(set_current(context_of(other)), 0);
  cuda().launch(numbers.data(), numbers.bytes(), 0x11);
  EXPECT_NO_THROW(manager.save(1));
  std::ranges::fill(numbers.seen(), 0.0);
  EXPECT_NO_THROW(manager.restore_or_initialize());
  set_current(nullptr);
  EXPECT_TRUE(numbers.are_filled_with(0x11));
  EXPECT_EQ(cuda().counts->while_busy, 0U);
}

/// As a function that takes over the state of another version frees what it read into.
TEST_F(Devices, BuffersOutliveTheMemoryOfTheDevice) {
  for (const FakeDevices* driver : {&cuda(), &hip()}) {
    const auto space = driver == &cuda() ? cuda_memory() : hip_memory();
    auto numbers = std::make_unique<Numbers>(Place{driver, FAKE_DEVICE, 1}, 1000);
    std::vector<double> host(1000);
    {
      state::Staging staging;
      staging.copy_in(*space, reinterpret_cast<std::byte*>(numbers->data()), {8},
                      reinterpret_cast<const std::byte*>(host.data()), {8}, {1000}, 8);
      EXPECT_GT(driver->counts->pinned, 0U);
      numbers.reset();
    }
    EXPECT_EQ(driver->counts->pinned, 0U);
  }
}

TEST_F(Devices, UnifiedMemoryIsWaitedForAndUsedInPlace) {
  Numbers numbers({&cuda(), FAKE_MANAGED}, 1000);
  Checkpoint state;
  state.add_per_rank("numbers", std::span(numbers.data(), 1000));
  CheckpointManager manager = open(state);
  cuda().launch(numbers.data(), numbers.bytes(), 0x11);
  manager.save(1);
  std::ranges::fill(numbers.seen(), 0.0);
  ASSERT_TRUE(manager.restore_or_initialize());
  EXPECT_TRUE(numbers.are_filled_with(0x11));
  EXPECT_EQ(cuda().counts->copies, 0U);
}

TEST_F(Devices, AStreamCanBeNamed) {
  // The fake's streams are the contexts of its devices.
  Numbers first({&cuda()}, 10);
  {
    Checkpoint state;
    state.add_per_rank("first", std::span(first.data(), 10));
    state.set_memory_space("first", cuda_memory(context_of(first)));
    CheckpointManager manager = open(state);
    cuda().reset();
    cuda().fail("cuCtxSynchronize", 1);  // the device as a whole is not waited for
    cuda().launch(first.data(), first.bytes(), 0x11);
    manager.save(1);
  }
  EXPECT_EQ(cuda().counts->while_busy, 0U);
}

TEST_F(Devices, ValuesOfEveryKind) {
  Numbers replicated({&cuda()}, 600'000);  // more than a buffer
  Numbers own({&cuda(), FAKE_DEVICE, 1}, 600'000);
  Numbers strided({&cuda()}, 3000);
  Numbers scalar({&hip()}, 1);
  const auto set = [&](int seed) {
    for (Numbers* numbers : {&replicated, &strided, &scalar}) {
      std::iota(numbers->seen().begin(), numbers->seen().end(), seed);
    }
    std::iota(own.seen().begin(), own.seen().end(), seed + world_rank());
  };
  Checkpoint state;
  const auto found = [&] { return StridedView<double>{strided.data() + 2, {100, 10}, {240, 24}}; };
  state.add_replicated("found", found);
  state.set_memory_space("found", cuda_memory());
  state.add_replicated("replicated", std::span(replicated.data(), 600'000));
  state.add_per_rank("own", std::span(own.data(), 600'000));
  state.add_replicated("strided", StridedView<double>{strided.data() + 1, {100, 10}, {240, 24}});
  state.set_memory_space("strided", cuda_memory());
  state.add_replicated("scalar", *scalar.data());
  set(5);
  CheckpointManager manager = open(state);
  manager.save(1);
  set(100);
  ASSERT_TRUE(manager.restore_or_initialize());
  EXPECT_EQ(replicated.seen()[599'999], 600'004.0);
  EXPECT_EQ(own.seen()[599'999], 600'004.0 + world_rank());
  EXPECT_EQ(scalar.seen()[0], 5.0);
  for (std::size_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(strided.seen()[i], static_cast<double>(i) + (i % 3 == 0 ? 100 : 5)) << i;
  }
}

TEST_F(Devices, ManyDimensionsAndTransposedMemory) {
  Checkpoint state;
  // x fastest in memory, the file has it last: every element by itself
  Numbers numbers({&cuda()}, 8UL * 6 * 5 * 4);
  state.add_distributed("transposed", numbers.data(),
                        DistributedLayout{.global_shape = {4 * world_size(), 5, 6, 8},
                                          .offset = {4 * world_rank(), 0, 0, 0},
                                          .extent = {4, 5, 6, 8},
                                          .strides_bytes = {8, 32, 160, 960}});
  std::iota(numbers.seen().begin(), numbers.seen().end(), 1.0);
  CheckpointManager manager = open(state);
  manager.save(1);
  std::ranges::fill(numbers.seen(), 0.0);
  ASSERT_TRUE(manager.restore_or_initialize());
  for (std::size_t i = 0; i < numbers.seen().size(); ++i) {
    ASSERT_EQ(numbers.seen()[i], static_cast<double>(i + 1));
  }
}

TEST_F(Devices, SharedBoxesKeepTheirCopies) {
  Checkpoint state;
  const auto length = static_cast<std::uint64_t>(10 * world_size() + 1);
  Numbers nodes({&cuda()}, 11);
  state.add_distributed("nodes", nodes.data(), DistributedLayout{Extents{length}, {10 * world_rank()}, {11}});
  state.allow_shared("nodes");
  std::iota(nodes.seen().begin(), nodes.seen().end(), 1000.0 * world_rank());
  CheckpointManager manager = open(state);
  manager.save(1);
  std::ranges::fill(nodes.seen(), 0.0);
  ASSERT_TRUE(manager.restore_or_initialize());
  for (std::size_t i = 0; i < 11; ++i) {
    EXPECT_EQ(nodes.seen()[i], 1000.0 * world_rank() + static_cast<double>(i));
  }
}

TEST_F(Devices, TheMpioWriterToo) {
  Checkpoint state;
  Field field(MPI_COMM_WORLD, kLarge, {&cuda()});
  field.add_to(state, "field");
  field.set(2);
  ManagerOptions options;
  options.writer = WriterKind::mpio;
  CheckpointManager manager = open(state, MPI_COMM_WORLD, options);
  manager.save(1);
  ASSERT_EQ(field.wrong(2), 0U);
  ASSERT_TRUE(manager.restore_or_initialize());
  EXPECT_EQ(field.wrong(2), 0U);
}

TEST_F(Devices, ASaveInTheBackgroundHasTheStateOfItsBegin) {
  Checkpoint state;
  Field field(MPI_COMM_WORLD, kLarge, {&cuda()});
  field.add_to(state, "field");
  field.set(2);
  CheckpointManager manager = open(state);
  CheckpointManager::SaveRequest request;
  request.number = 1;
  cuda().reset();
  manager.save_in_background(request);
  expect_streamed(cuda(), field.own_bytes(), 0);
  field.set(50);
  ASSERT_TRUE(manager.finish_background_save());
  ASSERT_TRUE(manager.restore_or_initialize());
  EXPECT_EQ(field.wrong(2), 0U);
}

TEST_F(Devices, LocalCopiesAfterACrash) {
  const std::filesystem::path place = temporary_ / "local";
  on_first_ranks(1, [&](MPI_Comm) { std::filesystem::create_directories(place); });
  ManagerOptions options;
  options.local_directory = place;
  struct Crash {};
  try {
    Checkpoint state;
    Field field(MPI_COMM_WORLD, kLarge, {&cuda()});
    field.add_to(state, "field");
    CheckpointManager manager = open(state, MPI_COMM_WORLD, options);
    manager.restore_or_initialize();
    field.set(4);
    cuda().reset();
    ASSERT_TRUE(manager.local_copy(4));
    expect_streamed(cuda(), field.own_bytes(), 0);
    field.set(60);
    manager.impl().local->wait();
    MPI_Barrier(MPI_COMM_WORLD);
    throw Crash{};
  } catch (const Crash&) {
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Checkpoint state;
  Field field(MPI_COMM_WORLD, kLarge, {&hip()});
  field.add_to(state, "field");
  CheckpointManager manager = open(state, MPI_COMM_WORLD, options);
  const auto info = manager.restore_or_initialize();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->number, 4U);
  EXPECT_EQ(field.wrong(4), 0U);
}

}  // namespace
}  // namespace reprieve::test
