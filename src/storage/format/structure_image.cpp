// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/structure_image.hpp"

#include <cstring>
#include <utility>

#include "storage/bytes/checksum.hpp"
#include "storage/format/manifest.hpp"

namespace reprieve::storage {

namespace {

void put(Encoder& message, const GuardedRegion& guarded) {
  message.word(guarded.region.offset);
  message.word(guarded.region.size);
  message.word(guarded.digest);
}

GuardedRegion take_guarded(Decoder& message) {
  GuardedRegion guarded;
  guarded.region.offset = message.word();
  guarded.region.size = message.word();
  guarded.digest = message.word();
  return guarded;
}

std::vector<std::uint64_t> as_words(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  if (!words.empty()) {
    std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint64_t));
  }
  return words;
}

StructureImage decode_all(Decoder message) {
  StructureImage image;
  image.seal.file_size = message.word();
  image.seal.manifest = take_guarded(message);
  image.seal.boxes = take_guarded(message);
  image.seal.checksums = take_guarded(message);
  image.seal.structure_digest = message.word();
  image.seal.format_version = static_cast<int>(message.word());
  const std::vector<std::uint64_t> numbers = message.words();
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    image.regions.push_back({numbers[i], numbers[i + 1]});
    bytes += numbers[i + 1];
  }
  image.content = message.bytes();
  require(bytes == image.content.size(), "the structure of a checkpoint is not as long as it says");
  return image;
}

}  // namespace

Bytes encode(const StructureImage& image) {
  Encoder message;
  message.word(image.seal.file_size);
  put(message, image.seal.manifest);
  put(message, image.seal.boxes);
  put(message, image.seal.checksums);
  message.word(image.seal.structure_digest);
  message.word(static_cast<std::uint64_t>(image.seal.format_version));
  std::vector<std::uint64_t> numbers;
  for (const Region& region : image.regions) {
    numbers.push_back(region.offset);
    numbers.push_back(region.size);
  }
  message.words(numbers);
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
  file.allocate(seal.file_size);
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
    if (region.offset >= kept.offset && region.offset - kept.offset <= kept.size &&
        region.size <= kept.size - (region.offset - kept.offset)) {
      return std::span(content).subspan(before + static_cast<std::size_t>(region.offset - kept.offset),
                                        static_cast<std::size_t>(region.size));
    }
    before += static_cast<std::size_t>(kept.size);
  }
  throw CorruptError("the structure of a checkpoint lacks a table");
}

FileIndex StructureImage::index(const std::string& file_name) const {
  const auto manifest = part(seal.manifest.region);
  IndexBytes bytes{Bytes(manifest.begin(), manifest.end()),
                   SharedWords(as_words(part(seal.boxes.region))),
                   SharedWords(std::vector<std::uint64_t>(
                       static_cast<std::size_t>(seal.checksums.region.size / sizeof(std::uint64_t)))),
                   seal.file_size,
                   {seal.manifest.region, seal.boxes.region, seal.checksums.region}};
  return parse_index(bytes, file_name);
}

void complete_file(const PosixFile& file, Seal seal, std::span<const std::uint64_t> checksums) {
  const auto bytes = std::as_bytes(checksums);
  file.write_all(bytes, seal.checksums.region.offset);
  seal.checksums.digest = xxh3(bytes);
  write_seal(file, seal);
}

}  // namespace reprieve::storage
