// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: a checkpoint file. Random bytes would not get past its checksums, so the input is what the commit record
// says of the tables (six words: offset and size of the manifest, the boxes, the checksums) and the bytes behind the
// commit record; the target makes the commit record, with the right checksums.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "reprieve/error.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/read/inspect_file.hpp"

namespace {

using reprieve::storage::GuardedRegion;
using reprieve::storage::kCommitRecordBytes;

constexpr std::size_t kHeader = 6;

GuardedRegion guard(std::span<const std::byte> file, std::uint64_t offset, std::uint64_t size) {
  const bool inside = offset <= file.size() && size <= file.size() - offset;
  return {{offset, size}, inside ? reprieve::storage::xxh3(file.subspan(offset, size)) : 0};
}

/// Reads everything that there is. Only errors that tell of a bad file may come out.
void read_all(const std::filesystem::path& file) {
  static_cast<void>(reprieve::storage::verify_file(file));
  try {
    for (const auto& variable : reprieve::storage::list_variables(file)) {
      try {
        static_cast<void>(reprieve::storage::read_variable(file, variable.name));
      } catch (const reprieve::CorruptError&) {
        continue;
      }
    }
  } catch (const reprieve::CorruptError&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<std::uint64_t, kHeader> header{};
  if (size < sizeof header) {
    return 0;
  }
  std::memcpy(header.data(), data, sizeof header);
  const auto body = std::as_bytes(std::span(data, size)).subspan(sizeof header);
  reprieve::storage::Bytes content(kCommitRecordBytes);
  content.insert(content.end(), body.begin(), body.end());

  static const auto file = reprieve::storage::PosixFile::create_in_memory();
  file.set_size(0);
  file.write_all(content, 0);
  const reprieve::storage::CommitRecord commit_record{content.size(), guard(content, header[0], header[1]),
                                                      guard(content, header[2], header[3]),
                                                      guard(content, header[4], header[5]), 0};
  try {
    reprieve::storage::write_commit_record(file, commit_record);
  } catch (const reprieve::UsageError&) {
    return 0;  // tables that are never written
  }
  read_all(file.path());
  return 0;
}
