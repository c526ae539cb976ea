// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/commit_record.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/bytes/checksum.hpp"
#include "storage/format/manifest.hpp"

namespace reprieve::storage {

namespace {

constexpr std::uint64_t kMagic = 0x4556454952504552;  // the bytes "REPRIEVE"
constexpr std::array<unsigned char, 8> kHdf5Signature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

/// Positions of the words in the commit record. The magic number, the version and the digest stay where they are in all
/// versions of the format.
enum Word : std::size_t { magic, version, file_size, manifest, boxes = 6, checksums = 9, structure = 12 };

std::uint64_t digest_of(const CommitWords& words) {
  return xxh3(std::as_bytes(std::span(words).first(words.size() - 1)));
}

/// HDF5 looks for its signature at 0 and at the powers of two from 512 on.
bool is_hdf5(const PosixFile& file) {
  const std::uint64_t size = file.size();
  for (std::uint64_t at = 0; at + kHdf5Signature.size() <= size && at <= (1U << 20U); at = at == 0 ? 512 : at * 2) {
    std::array<unsigned char, kHdf5Signature.size()> found = {};
    file.read_all(std::as_writable_bytes(std::span(found)), at);
    if (found == kHdf5Signature) {
      return true;
    }
  }
  return false;
}

template <class Range>
bool is_zero(const Range& bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

[[noreturn]] void reject_foreign(const PosixFile& file) {
  throw CorruptError(file.path().string() + (is_hdf5(file) ? " is an HDF5 file, but not a complete Reprieve checkpoint"
                                                           : " is not a Reprieve checkpoint, nor any HDF5 file"));
}

/// Files whose tables are larger are not written: a forged one may claim any size, with holes that cost nothing on disk
/// and everything in memory.
constexpr std::uint64_t kMaxTablesBytes = (std::uint64_t{1} << 31U) - kCommitRecordBytes;

bool tables_too_large(const CommitRecord& commit_record) {
  std::uint64_t rest = kMaxTablesBytes;
  for (const GuardedRegion* table : {&commit_record.manifest, &commit_record.boxes, &commit_record.checksums}) {
    if (table->region.size > rest) {
      return true;
    }
    rest -= table->region.size;
  }
  return false;
}

void check_place(const PosixFile& file, const CommitRecord& commit_record, const Region& region, const char* what) {
  if (!region.lies_before(commit_record.file_size)) {
    throw CorruptError(file.path().string() + ": its " + what + " would lie outside of the file");
  }
}

/// @param bytes  of the region's size
void read_guarded(const PosixFile& file, const GuardedRegion& guarded, const char* what, std::span<std::byte> bytes) {
  file.read_all(bytes, guarded.region.offset);
  if (xxh3(bytes) != guarded.digest) {
    file.read_all_again(bytes, guarded.region.offset);
  }
  if (xxh3(bytes) != guarded.digest) {
    throw CorruptError(file.path().string() + ": its " + what + " is corrupt (checksum differs)");
  }
}

void check_size(const PosixFile& file, const CommitRecord& commit_record) {
  if (tables_too_large(commit_record)) {
    throw CorruptError(file.path().string() + ": its tables would be larger than 2 GiB");
  }
}

constexpr const char* kManifest = "manifest";
constexpr const char* kBoxes = "table of boxes";
constexpr const char* kChecksums = "table of checksums";

std::vector<std::uint64_t> as_words(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  if (!words.empty()) {
    std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint64_t));
  }
  return words;
}

StructureImage decode_all(Decoder message) {
  StructureImage image{message.get<CommitRecord>(), {}, {}};
  std::uint64_t bytes = 0;
  for (std::uint64_t left = message.word() / 2; left > 0; --left) {
    bytes += image.regions.emplace_back(message.get<Region>()).size;
  }
  image.content = message.bytes();
  require(bytes == image.content.size(), "the structure of a checkpoint is not as long as it says");
  return image;
}

}  // namespace

void CommitWords::put(std::size_t word, const GuardedRegion& guarded) {
  at(word) = guarded.region.offset;
  at(word + 1) = guarded.region.size;
  at(word + 2) = guarded.digest;
}

GuardedRegion CommitWords::get(std::size_t word) const { return {{at(word), at(word + 1)}, at(word + 2)}; }

bool CommitWords::is_intact() const { return back() == digest_of(*this); }

void CommitWords::write_to(const PosixFile& file) {
  back() = digest_of(*this);
  file.write_all(std::as_bytes(std::span(*this)), 0);
}

void check_table_sizes(const std::string& file_name, const CommitRecord& commit_record) {
  if (tables_too_large(commit_record)) {
    throw UsageError("cannot write " + file_name +
                     ": its tables would be larger than 2 GiB; register fewer variables, or boxes");
  }
}

void write_commit_record(const PosixFile& file, const CommitRecord& commit_record) {
  check_table_sizes(file.path().string(), commit_record);
  CommitWords words = {};
  words[Word::magic] = kMagic;
  words[Word::version] = static_cast<std::uint64_t>(commit_record.format_version);
  words[Word::file_size] = commit_record.file_size;
  words.put(Word::manifest, commit_record.manifest);
  words.put(Word::boxes, commit_record.boxes);
  words.put(Word::checksums, commit_record.checksums);
  words[Word::structure] = commit_record.structure_digest;
  words.write_to(file);
}

bool is_void(const Bytes& commit_record) { return is_zero(commit_record); }

bool is_foreign(const PosixFile& file) {
  std::array<std::byte, kCommitRecordBytes + kHdf5Signature.size()> bytes = {};
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), bytes.size()));
  file.read_all(std::span(bytes).first(size), 0);
  const bool has_magic = std::memcmp(bytes.data(), &kMagic, sizeof(kMagic)) == 0;
  const bool has_hdf5 =
      std::memcmp(bytes.data() + kCommitRecordBytes, kHdf5Signature.data(), kHdf5Signature.size()) == 0;
  return size == 0 || !(has_magic || has_hdf5 || is_zero(bytes));
}

struct stat void_commit_record(const PosixFile& file) {
  Bytes commit_record = commit_record_bytes(file);
  if (is_void(commit_record)) {
    return file.status();
  }
  std::ranges::fill(commit_record, std::byte{0});
  file.write_all(commit_record, 0);
  const struct stat status = file.status();
  file.sync();
  return status;
}

Bytes commit_record_bytes(const PosixFile& file) {
  Bytes bytes(static_cast<std::size_t>(std::min(file.size(), kCommitRecordBytes)));
  file.read_all(bytes, 0);
  return bytes;
}

void check_not_retired(const PosixFile& file, const Bytes& commit_record_at_begin) {
  std::string cause;
  try {
    // Opened again: a network file system asks its server then, and forgets what it knew before.
    const PosixFile named = PosixFile::open_to_read(file.address());
    Bytes commit_record(commit_record_at_begin.size());
    if (named.is(file) && named.size() >= commit_record.size()) {
      named.read_all_again(commit_record, 0);
      if (commit_record == commit_record_at_begin) {
        return;
      }
    }
  } catch (const Error& error) {
    cause = std::string(" (") + error.what() + ")";
  }
  throw StorageError(ErrorCode::io, file.path().string() +
                                        " was removed or replaced while it was read, as a run that lives does with its "
                                        "old checkpoints: nothing can be said about it" +
                                        cause);
}

CommitRecord read_commit_record(const PosixFile& file) {
  CommitWords words = {};
  const std::uint64_t size = file.size();
  if (size < kCommitRecordBytes) {
    reject_foreign(file);
  }
  file.read_all(std::as_writable_bytes(std::span(words)), 0);
  if (!words.is_intact()) {
    file.read_all_again(std::as_writable_bytes(std::span(words)), 0);
  }
  const bool intact = words.is_intact();
  if (!intact && words[Word::magic] != kMagic) {
    reject_foreign(file);
  }
  if (!intact || words[Word::magic] != kMagic) {
    throw CorruptError(file.path().string() + ": its commit record is corrupt (checksum differs)");
  }
  if (words[Word::version] == 0 || words[Word::version] > kFormatVersion) {
    throw MismatchError(file.path().string() + " has format version " + std::to_string(words[Word::version]) +
                        "; this library reads versions 1 to " + std::to_string(kFormatVersion));
  }
  if (words[Word::file_size] != size) {
    throw CorruptError(file.path().string() + " is " + std::to_string(size) + " bytes long, but was written with " +
                       std::to_string(words[Word::file_size]));
  }
  return {size,
          words.get(Word::manifest),
          words.get(Word::boxes),
          words.get(Word::checksums),
          words[Word::structure],
          static_cast<int>(words[Word::version])};
}

std::vector<Region> structure_regions(const FileIndex& index, const Region& checksums) {
  std::vector<Region> taken{checksums};
  for (const StoredVariable& variable : index.variables) {
    taken.push_back({variable.file_offset, variable.stored_bytes()});
  }
  return gaps_between(std::move(taken), kCommitRecordBytes, index.file_size);
}

std::uint64_t structure_digest(const PosixFile& file, const FileIndex& index, const Region& checksums) {
  Xxh3Stream digest;
  for_each_piece(file, structure_regions(index, checksums),
                 [&](std::span<const std::byte> piece, std::uint64_t /*offset*/) { digest.update(piece); });
  return digest.digest();
}

Bytes read_manifest_bytes(const PosixFile& file, const CommitRecord& commit_record) {
  check_size(file, commit_record);
  check_place(file, commit_record, commit_record.manifest.region, kManifest);
  Bytes manifest(static_cast<std::size_t>(commit_record.manifest.region.size));
  read_guarded(file, commit_record.manifest, kManifest, manifest);
  return manifest;
}

std::size_t table_bytes(const PosixFile& file, const CommitRecord& commit_record) {
  check_size(file, commit_record);
  check_place(file, commit_record, commit_record.manifest.region, kManifest);
  check_place(file, commit_record, commit_record.boxes.region, kBoxes);
  check_place(file, commit_record, commit_record.checksums.region, kChecksums);
  for (const GuardedRegion* table : {&commit_record.boxes, &commit_record.checksums}) {
    if (table->region.size % sizeof(std::uint64_t) != 0) {
      throw CorruptError(file.path().string() + " contradicts itself: a table is cut short");
    }
  }
  return static_cast<std::size_t>(commit_record.boxes.region.size + commit_record.checksums.region.size +
                                  commit_record.manifest.region.size);
}

void read_tables(const PosixFile& file, const CommitRecord& commit_record, std::span<std::byte> tables) {
  const auto boxes = static_cast<std::size_t>(commit_record.boxes.region.size);
  const auto checksums = static_cast<std::size_t>(commit_record.checksums.region.size);
  read_guarded(file, commit_record.manifest, kManifest, tables.subspan(boxes + checksums));
  read_guarded(file, commit_record.boxes, kBoxes, tables.first(boxes));
  read_guarded(file, commit_record.checksums, kChecksums, tables.subspan(boxes, checksums));
}

IndexBytes index_bytes(const CommitRecord& commit_record, std::span<const std::byte> tables,
                       std::shared_ptr<const void> owner) {
  const auto boxes = static_cast<std::size_t>(commit_record.boxes.region.size / sizeof(std::uint64_t));
  const auto checksums = static_cast<std::size_t>(commit_record.checksums.region.size / sizeof(std::uint64_t));
  const SharedWords words({reinterpret_cast<const std::uint64_t*>(tables.data()), boxes + checksums}, std::move(owner));
  return {commit_record, words.part(0, boxes), words.part(boxes, checksums),
          tables.subspan((boxes + checksums) * sizeof(std::uint64_t))};
}

IndexBytes read_index_bytes(const PosixFile& file, const CommitRecord& commit_record) {
  const std::size_t bytes = table_bytes(file, commit_record);
  const auto memory = std::make_shared<std::vector<std::uint64_t>>(bytes / sizeof(std::uint64_t) + 1);
  const auto tables = std::as_writable_bytes(std::span(*memory)).first(bytes);
  read_tables(file, commit_record, tables);
  return index_bytes(commit_record, tables, memory);
}

FileIndex read_index(const PosixFile& file) {
  FileIndex index = parse_index(read_index_bytes(file, read_commit_record(file)), file.path().string());
  check_boxes_apart(index, file.path().string());
  return index;
}

Bytes encode(const StructureImage& image) {
  Encoder message;
  message.put(image.commit_record);
  message.word(2 * image.regions.size());
  for (const Region& region : image.regions) {
    message.put(region);
  }
  message.bytes(image.content);
  return message.take();
}

StructureImage decode_structure_image(std::span<const std::byte> bytes) {
  try {
    return decode_all(Decoder(bytes));
  } catch (const CorruptError&) {
    throw;
  } catch (const Error&) {
    throw CorruptError("the structure of a checkpoint is cut off");
  }
}

void StructureImage::put_into(const PosixFile& file) const {
  file.allocate(commit_record.file_size);
  std::span<const std::byte> rest = content;
  for (const Region& region : regions) {
    file.write_all(rest.first(static_cast<std::size_t>(region.size)), region.offset);
    rest = rest.subspan(static_cast<std::size_t>(region.size));
  }
}

/// Tables lie in one region each.
std::span<const std::byte> StructureImage::part(const Region& region) const {
  std::size_t before = 0;
  for (const Region& kept : regions) {
    const Region within{region.offset - kept.offset, region.size};
    if (region.offset >= kept.offset && within.lies_before(kept.size)) {
      return std::span(content).subspan(before + static_cast<std::size_t>(within.offset),
                                        static_cast<std::size_t>(within.size));
    }
    before += static_cast<std::size_t>(kept.size);
  }
  throw CorruptError("the structure of a checkpoint lacks a table");
}

FileIndex StructureImage::index(const std::string& file_name) const {
  std::vector<std::uint64_t> checksums(
      static_cast<std::size_t>(commit_record.checksums.region.size / sizeof(std::uint64_t)));
  return parse_index({commit_record, SharedWords(as_words(part(commit_record.boxes.region))),
                      SharedWords(std::move(checksums)), part(commit_record.manifest.region)},
                     file_name);
}

void write_checksums(const PosixFile& file, CommitRecord& commit_record, const FileIndex& index) {
  Xxh3Stream digest;
  std::uint64_t offset = commit_record.checksums.region.offset;
  for (const SharedWords* const words : {&index.checksums, &index.compressed_sizes}) {
    const auto bytes = std::as_bytes(words->span());
    file.write_all(bytes, offset);
    digest.update(bytes);
    offset += bytes.size();
  }
  commit_record.checksums.digest = digest.digest();
}

}  // namespace reprieve::storage
