// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read/index_message.hpp"

#include <span>

namespace reprieve::storage {

std::array<std::uint64_t, 2> mark_of(const Seal& seal) { return {seal.manifest.digest, seal.checksums.digest}; }

Bytes encode(const Seal& seal, const Bytes& manifest) {
  Encoder message;
  for (const std::uint64_t word : mark_of(seal)) {
    message.word(word);
  }
  message.word(seal.file_size);
  for (const GuardedRegion* table : {&seal.manifest, &seal.boxes, &seal.checksums}) {
    message.word(table->region.offset);
    message.word(table->region.size);
  }
  message.bytes(manifest);
  return message.take();
}

namespace {

/// The manifest stands behind them.
SealFacts decode_facts(Decoder& decoder) {
  SealFacts facts;
  for (std::uint64_t& word : facts.mark) {
    word = decoder.word();
  }
  facts.file_size = decoder.word();
  for (Region& region : facts.tables) {
    region.offset = decoder.word();
    region.size = decoder.word();
  }
  return facts;
}

}  // namespace

SealFacts decode_facts(const Bytes& message) {
  Decoder decoder(message);
  return decode_facts(decoder);
}

std::size_t SealFacts::table_bytes() const noexcept {
  return static_cast<std::size_t>(tables[1].size + tables[2].size);
}

IndexBytes decode(const Bytes& message, const cluster::CommonBytes& tables) {
  Decoder decoder(message);
  const SealFacts facts = decode_facts(decoder);
  const std::span words(reinterpret_cast<const std::uint64_t*>(tables.bytes.data()),
                        tables.bytes.size() / sizeof(std::uint64_t));
  return index_bytes(decoder.bytes(), SharedWords(words, tables.owner), facts.file_size, facts.tables);
}

}  // namespace reprieve::storage
