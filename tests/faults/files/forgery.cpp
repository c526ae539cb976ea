// SPDX-License-Identifier: BSD-3-Clause
#include "faults/files/forgery.hpp"

#include "faults/files/sample.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/format/commit_record.hpp"

namespace reprieve::test {

namespace {

using storage::Bytes;
using storage::PosixFile;
using storage::Region;

}  // namespace

Forgery::Forgery(const std::filesystem::path& valid) : content_(content_of(valid)) {
  const PosixFile file = PosixFile::open_to_read(valid);
  const storage::IndexBytes index = storage::read_index_bytes(file, storage::read_commit_record(file));
  const auto* text = reinterpret_cast<const char*>(index.manifest.data());
  manifest = nlohmann::json::parse(text, text + index.manifest.size());
  dimensions = manifest.at("box_dimensions").get<std::uint64_t>();
  boxes.assign(index.boxes.begin(), index.boxes.end());
  checksums.assign(index.checksums.begin(), index.checksums.end());
}

nlohmann::json& Forgery::variable(const std::string& name) {
  for (nlohmann::json& variable : manifest.at("variables")) {
    if (variable.at("name") == name) {
      return variable;
    }
  }
  throw std::out_of_range(name);
}

std::uint64_t* Forgery::box_of(const std::string& name) {
  const auto& variables = manifest.at("variables");
  const std::size_t row_words = 3 + 2 * dimensions;
  for (std::size_t row = 0; row * row_words < boxes.size(); ++row) {
    if (variables.at(boxes[row * row_words]).at("name") == name) {
      return &boxes[row * row_words];
    }
  }
  throw std::out_of_range(name);
}

void Forgery::write(const std::filesystem::path& file) const {
  put_content(file, content_);
  const std::string text = manifest_text.empty() ? manifest.dump() : manifest_text;
  const PosixFile out = PosixFile::open_to_write(file);
  std::uint64_t end = out.size();
  const auto append = [&](std::span<const std::byte> bytes) {
    const Region region{end, bytes.size()};
    out.write_all(bytes, end);
    end += bytes.size();
    return region;
  };
  std::array<Region, 3> regions{append(std::as_bytes(std::span(text))), append(std::as_bytes(std::span(boxes))),
                                append(std::as_bytes(std::span(checksums)))};
  if (move_tables) {
    move_tables(regions);
  }
  const auto guarded = [&](const Region& region) {
    const bool inside = region.offset <= end && region.size <= end - region.offset;
    Bytes bytes(inside ? static_cast<std::size_t>(region.size) : 0);
    out.read_all(bytes, region.offset);
    return storage::GuardedRegion{region, storage::xxh3(bytes)};
  };
  storage::CommitRecord commit_record{end, guarded(regions[0]), guarded(regions[1]), guarded(regions[2]), 0};
  storage::write_commit_record(out, commit_record);
  try {
    commit_record.structure_digest = storage::structure_digest(out, storage::read_index(out), regions[2]);
  } catch (const Error&) {
    // A reader does not come so far either.
  }
  std::vector<std::uint64_t> words(storage::kCommitRecordBytes / sizeof(std::uint64_t));
  storage::write_commit_record(out, commit_record);
  out.read_all(std::as_writable_bytes(std::span(words)), 0);
  words[1] = claimed_version;
  words.back() =
      storage::xxh3(std::as_bytes(std::span(words)).first(storage::kCommitRecordBytes - sizeof(std::uint64_t)));
  out.write_all(std::as_bytes(std::span(words)), 0);
}

}  // namespace reprieve::test
