// SPDX-License-Identifier: BSD-3-Clause
#include "storage/near/part_file.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "core/file_rights.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/bytes/codec.hpp"
#include "storage/format/manifest.hpp"

namespace reprieve::storage {

namespace {

constexpr std::uint64_t kPartMagic = 0x5452415056525052;  // the bytes "RPRVPART"
constexpr std::uint64_t kPartVersion = 1;
/// A head is some hundred bytes and the prefix; a forged one may claim anything.
constexpr std::uint64_t kMostHeadBytes = 64U << 10U;
constexpr std::uint64_t kMostTableBytes = std::uint64_t{2} << 30U;

struct PartSeal {
  std::uint64_t data_bytes = 0;
  GuardedRegion head;
  GuardedRegion tables;
};

constexpr std::size_t kPartSealWords = kSealBytes / sizeof(std::uint64_t);
using PartSealWords = std::array<std::uint64_t, kPartSealWords>;

std::uint64_t digest_of(const PartSealWords& words) {
  return xxh3(std::as_bytes(std::span(words).first(kPartSealWords - 1)));
}

void write_part_seal(const PosixFile& file, const PartSeal& seal) {
  PartSealWords words = {kPartMagic,
                         kPartVersion,
                         seal.data_bytes,
                         seal.head.region.offset,
                         seal.head.region.size,
                         seal.head.digest,
                         seal.tables.region.offset,
                         seal.tables.region.size,
                         seal.tables.digest};
  words.back() = digest_of(words);
  file.write_all(std::as_bytes(std::span(words)), 0);
}

[[noreturn]] void reject(const PosixFile& file, const char* why) {
  throw CorruptError(file.path().string() + ": " + why);
}

PartSeal read_part_seal(const PosixFile& file) {
  PartSealWords words = {};
  const std::uint64_t size = file.size();
  if (size < kSealBytes) {
    reject(file, "not a complete part of a near copy");
  }
  file.read_all(std::as_writable_bytes(std::span(words)), 0);
  if (words[0] != kPartMagic || words.back() != digest_of(words)) {
    reject(file, "not a complete part of a near copy");
  }
  if (words[1] != kPartVersion) {
    reject(file, "a part of a near copy that another version of this library made");
  }
  PartSeal seal{words[2], {{words[3], words[4]}, words[5]}, {{words[6], words[7]}, words[8]}};
  const auto lies_inside = [&](const Region& region, std::uint64_t most) {
    return region.size <= most && region.offset <= size && region.size <= size - region.offset;
  };
  if (!lies_inside({kPartDataOffset, seal.data_bytes}, size) || !lies_inside(seal.head.region, kMostHeadBytes) ||
      !lies_inside(seal.tables.region, kMostTableBytes)) {
    reject(file, "its tables would lie outside of the file");
  }
  return seal;
}

Bytes read_guarded_part(const PosixFile& file, const GuardedRegion& guarded) {
  Bytes bytes(static_cast<std::size_t>(guarded.region.size));
  file.read_all(bytes, guarded.region.offset);
  if (xxh3(bytes) != guarded.digest) {
    reject(file, "its tables are damaged (checksum differs)");
  }
  return bytes;
}

PartName read_head(const PosixFile& file, const PartSeal& seal) {
  const Bytes head = read_guarded_part(file, seal.head);
  try {
    const auto* first = reinterpret_cast<const char*>(head.data());
    return part_from_json(nlohmann::json::parse(first, first + head.size()));
  } catch (const nlohmann::json::exception&) {
    reject(file, "its head is not understood");
  }
}

Bytes encode_tables(const PartTables& tables) {
  Encoder message;
  message.words(tables.rows);
  message.words(tables.checksums);
  message.bytes(tables.image ? encode(*tables.image) : Bytes());
  return message.take();
}

PartTables read_part_tables(const PosixFile& file, const PartSeal& seal) {
  const Bytes bytes = read_guarded_part(file, seal.tables);
  try {
    Decoder message(bytes);
    PartTables tables{message.words(), message.words(), std::nullopt};
    if (const Bytes image = message.bytes(); !image.empty()) {
      tables.image = decode_structure_image(image);
    }
    return tables;
  } catch (const CorruptError&) {
    throw;
  } catch (const Error&) {
    reject(file, "its tables are cut off");
  }
}

/// A run has the number of a dead one if the checkpoint directory was put back to what it was before that.
void remove_if_left(const core::Directory& directory, const std::string& name) {
  if (!directory.contains(name)) {
    return;
  }
  const core::Descriptor left = directory.open_file(name, O_RDWR);
  if (::flock(left.get(), LOCK_EX | LOCK_NB) == 0) {
    directory.remove_file(name);
  }
}

/// One who asks whether a part is in use (`reprieve ls --near`, another run that cleans up) has its lock for a moment.
bool lock_soon(const core::Descriptor& file) {
  constexpr int kMostTries = 1000;
  for (int tries = 1; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK || tries == kMostTries) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void sync_unless_in_memory(const PosixFile& file) {
  if (!file.is_in_memory()) {
    file.sync();
  }
}

}  // namespace

PosixFile make_part_file(const core::Directory& directory, const std::string& name) {
  remove_if_left(directory, name);
  core::Descriptor made = directory.open_file(name, O_RDWR | O_CREAT | O_EXCL, core::kOwnFile);
  if (!lock_soon(made)) {
    const int error = errno;
    directory.remove_file(name);
    throw core::storage_error("lock", directory.path() / name, error);
  }
  return {core::FileAddress(directory.path() / name), std::move(made)};
}

void complete_part(const PosixFile& file, std::uint64_t data_bytes, const PartName& name, const PartTables& tables) {
  const std::string head = to_json(name).dump();
  const auto head_bytes = std::as_bytes(std::span(head));
  const Bytes table_bytes = encode_tables(tables);
  PartSeal seal{data_bytes, {{kPartDataOffset + data_bytes, head.size()}, xxh3(head_bytes)}, {}};
  seal.tables = {{seal.head.region.offset + head.size(), table_bytes.size()}, xxh3(table_bytes)};
  file.write_all(head_bytes, seal.head.region.offset);
  file.write_all(table_bytes, seal.tables.region.offset);
  sync_unless_in_memory(file);
  write_part_seal(file, seal);
  sync_unless_in_memory(file);
}

void void_part(const PosixFile& file) {
  const Bytes zeros(static_cast<std::size_t>(std::min(file.size(), kSealBytes)));
  file.write_all(zeros, 0);
  sync_unless_in_memory(file);
}

PartName read_part_name(const PosixFile& file) { return read_head(file, read_part_seal(file)); }

Part::Part(PosixFile file) : file_(std::move(file)) {
  const PartSeal seal = read_part_seal(file_);
  name_ = read_head(file_, seal);
  tables_ = read_part_tables(file_, seal);
  data_bytes_ = seal.data_bytes;
}

void Part::read(std::uint64_t offset, std::span<std::byte> into) const {
  file_.read_all(into, kPartDataOffset + offset);
}

void Part::read(std::uint64_t offset, std::span<std::byte> into, Xxh3Stream* digest, StagedReader& staged) const {
  if (StagedReader::is_faster(into.data(), kPartDataOffset + offset)) {
    staged.read(file_, into, kPartDataOffset + offset, digest);
  } else {
    file_.read_and_digest(into, kPartDataOffset + offset, digest);
  }
}

PartMemory Part::data() const {
  return PartMemory::read(file_, kPartDataOffset, static_cast<std::size_t>(data_bytes_));
}

}  // namespace reprieve::storage
