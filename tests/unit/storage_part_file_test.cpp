// SPDX-License-Identifier: BSD-3-Clause
// Parts of node-local copies: written, read back, cut off, and corrupt at every bit.

#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "reprieve/error.hpp"
#include "storage/local/part_file.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::storage {
namespace {

using testing::ElementsAre;

const PartName kName{{{"id", 3, 14}, "5eed", 15, "ckpt", 92, 65, 35, 8, 97, 2, 13}, 5};

class PartFileTest : public testing::TestWithParam<const char*> {
 protected:
  /// 10 bytes of data, in two rows.
  PosixFile make(const std::string& name = "part") const {
    PosixFile file = PosixFile::create(directory / name);
    file.write_all(std::as_bytes(std::span(kData)), kPartDataOffset);
    complete_part(file, kData.size(), kName, {{0, 4}, {11, 12}, std::nullopt});
    file.close();
    return PosixFile::open_to_write(directory / name);
  }

  void flip(std::uint64_t at, int bit) const {
    std::fstream stream(directory / "part", std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const int byte = stream.get() ^ (1 << bit);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(byte));
  }

  const std::string kData = "0123456789";
  const test::TemporaryDirectory directory{GetParam()};
};

TEST_P(PartFileTest, HoldsWhatWasWritten) {
  EXPECT_EQ(read_part_name(make()), kName);
  const Part part(make());
  EXPECT_EQ(part.name(), kName);
  EXPECT_THAT(part.tables().rows, ElementsAre(0, 4));
  EXPECT_THAT(part.tables().checksums, ElementsAre(11, 12));
  EXPECT_FALSE(part.tables().image);
  ASSERT_EQ(part.data_bytes(), kData.size());
  EXPECT_TRUE(std::ranges::equal(part.data().bytes(), std::as_bytes(std::span(kData))));
  std::string some(3, ' ');
  part.for_each_piece(4, some.size(), copying_to(std::as_writable_bytes(std::span(some)), nullptr));
  EXPECT_EQ(some, "456");
}

TEST_P(PartFileTest, IsNoPartAnyMoreOnceItIsVoid) {
  make();
  const auto open = [&] { return PosixFile::open_to_write(directory / "part"); };
  void_commit_record(open());
  EXPECT_THROW(static_cast<void>(read_part_name(open())), CorruptError);
  EXPECT_THROW(Part{open()}, CorruptError);
}

/// The data are guarded by the checksums of their blocks, which only the tables of the whole file can place.
TEST_P(PartFileTest, EveryFlippedBitOfCommitRecordHeadAndTablesIsFound) {
  const std::uint64_t size = make().size();
  for (std::uint64_t at = 0; at < size; ++at) {
    if (at == kPartDataOffset) {
      at += kData.size();
    }
    for (int bit = 0; bit < 8; ++bit) {
      flip(at, bit);
      ASSERT_THROW(Part{PosixFile::open_to_read(directory / "part")}, CorruptError) << "byte " << at << " bit " << bit;
      flip(at, bit);
    }
  }
  EXPECT_EQ(Part(PosixFile::open_to_read(directory / "part")).name(), kName) << "as it was";
}

TEST_P(PartFileTest, ThatIsCutOffAnywhereIsFound) {
  for (std::uint64_t size = make().size(); size-- > 0;) {
    std::filesystem::resize_file(directory / "part", size);
    ASSERT_THROW(Part{PosixFile::open_to_read(directory / "part")}, CorruptError) << size;
  }
}

TEST_P(PartFileTest, AnotherFileIsNoPart) {
  std::ofstream(directory / "text") << std::string(10'000, 'x');
  EXPECT_THROW(Part{PosixFile::open_to_read(directory / "text")}, CorruptError);
  std::ofstream(directory / "empty").flush();
  EXPECT_THROW(Part{PosixFile::open_to_read(directory / "empty")}, CorruptError);
}

/// Memory behind the end of a file is a SIGBUS for whoever touches it.
TEST(PartSlotInMemory, APartThatSomebodyHasCutIsAnErrorOfOneCopyAlone) {
  const test::TemporaryDirectory shared("/dev/shm");
  const core::Directory place = core::Directory::open(shared.path());
  PartSlot slot(place, "part");
  std::array<std::byte, 100'000> bytes{};
  const auto copy = [&] {
    std::vector<WriteItem> items{
        {{.file_offset = 0, .shape = {bytes.size()}}, {bytes.data(), {{0}, {bytes.size()}}, {1}}}};
    slot.copy(items);
    return items;
  };
  const auto cut = [&](std::uint64_t size) { std::filesystem::resize_file(shared / "part", size); };
  const auto before = copy();
  cut(kPartDataOffset);
  EXPECT_THROW(slot.complete(before, kName, std::nullopt), StorageError);
  slot.complete(copy(), kName, std::nullopt);
  EXPECT_EQ(slot.whole().size(), std::filesystem::file_size(shared / "part"));
  cut(kPartDataOffset + bytes.size());  // in its tables
  EXPECT_THROW(static_cast<void>(slot.whole()), StorageError);
  slot.complete(copy(), kName, std::nullopt);
  EXPECT_EQ(slot.whole().size(), std::filesystem::file_size(shared / "part"));
  cut(0);
  slot.begin_receiving(kPartDataOffset + bytes.size());
  slot.received().back() = std::byte{1};
}

INSTANTIATE_TEST_SUITE_P(In, PartFileTest, testing::Values("/dev/shm", "/var/tmp"),
                         [](const auto& place) { return std::string(place.param).substr(1, 3); });

}  // namespace
}  // namespace reprieve::storage
