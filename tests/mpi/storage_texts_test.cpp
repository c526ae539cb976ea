// SPDX-License-Identifier: BSD-3-Clause
// Texts as arrays of texts: lists of texts, and the text of each rank.

#include "reprieve/containers.hpp"
#include "storage_fixture.hpp"

namespace reprieve::storage {

/// A list of texts in the bytes of reprieve/containers.hpp, as it was stored before there were arrays of texts.
struct PackedTexts {
  std::vector<std::string> texts;
};

}  // namespace reprieve::storage

template <>
struct reprieve::Serializer<reprieve::storage::PackedTexts> {
  static std::vector<std::byte> save(const reprieve::storage::PackedTexts& value) {
    return Serializer<std::vector<std::string>>::save(value.texts);
  }
  static void load(reprieve::storage::PackedTexts& value, std::span<const std::byte> bytes) {
    Serializer<std::vector<std::string>>::load(value.texts, bytes);
  }
};

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;
using testing::HasSubstr;

using Texts = std::vector<std::string>;

constexpr ElementType kPacked{ElementClass::opaque, 1};
constexpr ElementType kPlain{ElementClass::text, 1};

ElementType texts_of(std::uint32_t length) { return {ElementClass::text, length}; }

class TextArrays : public StorageTest, public testing::WithParamInterface<WriterKind> {
 protected:
  [[nodiscard]] VariableInfo stored(const std::string& name) const {
    for (const VariableInfo& variable : list_variables(file)) {
      if (variable.name == name) {
        return variable;
      }
    }
    throw std::runtime_error("no variable " + name);
  }

  void expect_stored(const std::string& name, ElementType type, const Extents& shape) const {
    on_rank_0([&] {
      EXPECT_TRUE(verify_file(file).empty());
      EXPECT_EQ(to_string(stored(name).type), to_string(type)) << name;
      EXPECT_EQ(stored(name).shape, shape) << name;
    });
  }

  static Texts own_texts() {
    Texts texts;
    for (int i = 0; i < world_rank(); ++i) {
      texts.push_back(std::string(static_cast<std::size_t>(world_rank()), 'a') + std::to_string(i));
    }
    return texts;
  }

  /// Saves, forgets, restores.
  void expect_back(Texts& texts) {
    const Texts before = texts;
    save(world, checkpoint, GetParam());
    texts = {"something else"};
    restore(world, checkpoint);
    EXPECT_EQ(texts, before);
  }

  Checkpoint checkpoint;
};

TEST_P(TextArrays, AListIsOne) {
  Texts texts{"alpha", "", "be\0ta", "caf\xC3\xA9"};
  texts[2] = std::string("be\0ta", 5);
  checkpoint.add_replicated("texts", texts);
  expect_back(texts);
  expect_stored("texts", texts_of(5), {4});
  texts = {"longer than before"};
  expect_back(texts);
  expect_stored("texts", texts_of(18), {1});
  texts = {"a", "b"};
  expect_back(texts);
  expect_stored("texts", texts_of(2), {2});
  texts.clear();
  expect_back(texts);
  expect_stored("texts", texts_of(2), {0});
}

TEST_P(TextArrays, TheListsOfRanksAreOne) {
  Texts texts = own_texts();
  checkpoint.add_per_rank("texts", texts);
  expect_back(texts);
  const auto ranks = static_cast<std::uint64_t>(world_size());
  expect_stored("texts", texts_of(static_cast<std::uint32_t>(std::max<std::uint64_t>(ranks, 2))),
                {ranks * (ranks - 1) / 2});
}

TEST_P(TextArrays, TheTextsOfRanksAreOne) {
  const std::string before(static_cast<std::size_t>(world_rank()) * 2, 'x');
  std::string text = before;
  checkpoint.add_per_rank("text", text);
  save(world, checkpoint, GetParam());
  text = "something else";
  restore(world, checkpoint);
  EXPECT_EQ(text, before);
  const auto ranks = static_cast<std::uint64_t>(world_size());
  expect_stored("text", texts_of(static_cast<std::uint32_t>(std::max<std::uint64_t>(2 * (ranks - 1), 2))), {ranks});
}

TEST_P(TextArrays, WhatNoneCanHoldIsStoredAsItIs) {
  Texts texts = own_texts();
  std::string text = "text";
  if (world_rank() == world_size() - 1) {  // one rank is enough
    texts.push_back(std::string("end\0", 4));
    text.push_back('\0');
  }
  const std::string text_before = text;
  checkpoint.add_per_rank("texts", texts);
  checkpoint.add_per_rank("text", text);
  expect_back(texts);
  EXPECT_EQ(text, text_before);
  on_rank_0([&] {
    EXPECT_EQ(stored("texts").type, kPacked);
    EXPECT_EQ(stored("text").type, kPlain);
  });
}

TEST_P(TextArrays, OneLongTextDoesNotMakeAllOthersLong) {
  Texts texts(1000, "short");
  texts[500] = std::string(100'000, 'l');
  checkpoint.add_replicated("texts", texts);
  expect_back(texts);
  on_rank_0([&] {
    EXPECT_EQ(stored("texts").type, kPacked);
    EXPECT_LT(stored("texts").bytes, 200'000U);
  });
}

TEST_P(TextArrays, WhatWasStoredBeforeThereWereArraysIsRestored) {
  PackedTexts packed{{"alpha", "beta"}};
  checkpoint.add_replicated("texts", packed);
  save(world, checkpoint, GetParam());
  Texts texts;
  checkpoint = Checkpoint();
  checkpoint.add_replicated("texts", texts);
  restore(world, checkpoint);
  EXPECT_EQ(texts, packed.texts);
}

TEST_P(TextArrays, OtherTypesDoNotFit) {
  Texts texts{"alpha"};
  std::string text = "beta";
  checkpoint.add_replicated("texts", texts);
  checkpoint.add_per_rank("text", text);
  save(world, checkpoint, GetParam());
  std::vector<std::byte> bytes;
  checkpoint = Checkpoint();
  checkpoint.add_replicated("texts", text);
  checkpoint.add_per_rank("text", texts);
  const SeenError error = same_error([&] { restore(world, checkpoint); });
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, HasSubstr("'texts': registered with elements of type text, stored with text[5]"));
  EXPECT_THAT(error.message, HasSubstr("'text': registered with elements of type opaque, stored with text[4]"));
}

TEST_P(TextArrays, OnAnotherNumberOfRanksFunctionsSeeTheTexts) {
  REPRIEVE_NEEDS_RANKS(2);
  Texts texts = own_texts();
  std::string text = "rank " + std::to_string(world_rank());
  const auto gather_texts = [](const PerRankPieces& pieces, int, int, Texts& all) {
    all.clear();
    for (int rank = 0; rank < pieces.count(); ++rank) {
      EXPECT_EQ(pieces.type(), kPacked);
      const auto bytes = pieces.bytes(rank);
      EXPECT_EQ(pieces.shape(rank), (Extents{bytes.size()}));
      Texts piece;
      Serializer<Texts>::load(piece, bytes);
      all.insert(all.end(), piece.begin(), piece.end());
    }
  };
  const auto gather_text = [](const PerRankPieces& pieces, int, int, std::string& all) {
    all.clear();
    for (int rank = 0; rank < pieces.count(); ++rank) {
      EXPECT_EQ(pieces.type(), kPlain);
      const auto bytes = pieces.bytes(rank);
      all += std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + ";";
    }
  };
  checkpoint.add_per_rank<Texts>("texts", texts, gather_texts);
  checkpoint.add_per_rank<std::string>("text", text, gather_text);
  save(world, checkpoint, GetParam());
  on_ranks(1, [&](cluster::Communicator& comm) {
    restore(comm, checkpoint);
    EXPECT_EQ(texts.size(), static_cast<std::size_t>(world_size() * (world_size() - 1) / 2));
    EXPECT_EQ(texts.front(), "a0");
    EXPECT_THAT(text, HasSubstr("rank 0;rank 1;"));
  });
}

INSTANTIATE_TEST_SUITE_P(Writers, TextArrays, testing::Values(WriterKind::direct, WriterKind::mpio),
                         [](const auto& writer) { return writer.param == WriterKind::direct ? "direct" : "mpio"; });

}  // namespace
}  // namespace reprieve::storage
