// SPDX-License-Identifier: BSD-3-Clause
// The list of variables is read without a parser of JSON where it can be: what comes out must be what that would read.

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/values.hpp"
#include "storage/format/manifest.hpp"

namespace reprieve::storage {
namespace {

/// The end of a manifest, and how many of its entries were left to the parser.
struct PlainRead {
  std::optional<std::vector<StoredVariable>> variables;
  std::vector<std::string> others;
};

PlainRead read_plainly(std::string_view list) {
  PlainRead read;
  read.variables = read_plain_list(list, [&](std::string_view entry) {
    read.others.emplace_back(entry);
    StoredVariable variable;
    variable.name = "other";
    return variable;
  });
  return read;
}

FileIndex index_of(std::vector<std::string> names) {
  FileIndex index;
  for (std::string& name : names) {
    StoredVariable& variable = index.variables.emplace_back();
    variable.name = std::move(name);
    variable.type = {ElementClass::floating, 8};
    variable.shape = {7, index.variables.size()};
    variable.file_offset = 4096 * index.variables.size();
  }
  return index;
}

std::string list_in(const std::string& manifest) { return manifest.substr(manifest.find('[') + 1); }

ReadManifest read_text(const std::string& manifest) { return read_manifest(core::to_bytes(manifest)); }

void expect_same(const StoredVariable& a, const StoredVariable& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.distribution, b.distribution);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.file_offset, b.file_offset);
  EXPECT_EQ(a.piece_dimensions, b.piece_dimensions);
  EXPECT_EQ(a.tile, b.tile);
  EXPECT_EQ(a.annotation, b.annotation);
  EXPECT_EQ(a.is_copy, b.is_copy);
}

TEST(PlainList, HasMostVariablesWithoutAParser) {
  const FileIndex index = index_of({"a", "group/b", "z"});
  const PlainRead read = read_plainly(list_in(encode_manifest(index)));
  ASSERT_TRUE(read.variables);
  EXPECT_TRUE(read.others.empty());
  ASSERT_EQ(read.variables->size(), index.variables.size());
  for (std::size_t v = 0; v < index.variables.size(); ++v) {
    expect_same((*read.variables)[v], index.variables[v]);
  }
}

TEST(PlainList, LeavesToTheParserWhatHasMore) {
  FileIndex index = index_of({"a", "back\\slash", "quote\"}{", "t\u00e9mp\u00e9rature", "tiles", "units", "z"});
  index.variables[4].tile = {7, 1};
  index.variables[5].annotation = Annotation{"m }s\"[", "what \\ it is", {"x"}};
  index.variables[6].is_copy = true;
  const std::string manifest = encode_manifest(index, 10);
  EXPECT_EQ(read_plainly(list_in(manifest)).others.size(), 6U);
  const ReadManifest read = read_text(manifest);
  ASSERT_EQ(read.variables.size(), index.variables.size());
  for (std::size_t v = 0; v < index.variables.size(); ++v) {
    expect_same(read.variables[v], index.variables[v]);
  }
  EXPECT_FALSE(read.fields.contains("variables"));
  EXPECT_TRUE(read.fields.contains("box_dimensions"));
}

TEST(PlainList, OfNoVariablesIsOne) {
  const PlainRead read = read_plainly("]}");
  ASSERT_TRUE(read.variables);
  EXPECT_TRUE(read.variables->empty());
}

TEST(PlainList, IsNoneIfItIsCutOffOrGoesOn) {
  const std::string list = list_in(encode_manifest(index_of({"a", "b"})));
  for (std::size_t size = 0; size < list.size(); ++size) {
    EXPECT_FALSE(read_plainly(std::string_view(list).substr(0, size)).variables) << size;
  }
  for (const char* more : {" ", "}", ",{}", "]}"}) {
    EXPECT_FALSE(read_plainly(list + more).variables) << more;
  }
}

/// Each of these is refused, or read alike, by a parser alone.
TEST(PlainList, ReadsNoNumberThatJsonDoesNotHave) {
  const std::string manifest = encode_manifest(index_of({"a"}));
  const auto with = [&](const std::string& number) {
    std::string text = manifest;
    return text.replace(text.find("4096"), 4, number);
  };
  for (const char* number : {"04096", "+4096", "0x10", "4096.", "", "-", "40 96", "99999999999999999999999"}) {
    EXPECT_ANY_THROW(static_cast<void>(read_text(with(number)))) << number;
  }
  EXPECT_ANY_THROW(static_cast<void>(read_text(with("4096.5"))));
  EXPECT_EQ(read_text(with("18446744073709551615")).variables.front().file_offset, 18446744073709551615U);
  EXPECT_EQ(read_text(with(" 4096 ")).variables.front().file_offset, 4096U);
}

TEST(PlainList, RefusesNamesThatAreNoTextOfJson) {
  const std::string manifest = encode_manifest(index_of({"name"}));
  for (const char* name : {"na\nme", "na\xff\xfeme", "na\\qme"}) {
    std::string text = manifest;
    EXPECT_ANY_THROW(static_cast<void>(read_text(text.replace(text.find("\"name\":\"name\"") + 8, 4, name)))) << name;
  }
}

/// In whatever way a byte is changed, the outcome is that of the parser alone, to which a space in the list leaves it.
TEST(PlainList, MakesNoDifferenceForDamagedManifests) {
  const std::string manifest = encode_manifest(index_of({"a", "b"}));
  const std::size_t list = manifest.find("[{") + 1;
  const auto outcome = [](const std::string& text) -> std::string {
    try {
      const ReadManifest read = read_text(text);
      std::string all = std::to_string(read.variables.size());
      for (const StoredVariable& variable : read.variables) {
        all += " " + variable.name + " " + std::to_string(variable.file_offset) + " " + to_string(variable.type);
        for (const std::uint64_t length : variable.shape) {
          all += "," + std::to_string(length);
        }
      }
      return all;
    } catch (const std::exception&) {
      return "refused";
    }
  };
  for (std::size_t at = list; at < manifest.size(); ++at) {
    for (const char c : {'"', '{', '}', '[', ']', ',', ':', '0', '9', ' ', 'x', '\\', '-', '\x01'}) {
      std::string damaged = manifest;
      damaged[at] = c;
      std::string parsed = damaged;
      parsed.insert(list, " ");
      EXPECT_EQ(outcome(damaged), outcome(parsed)) << at << " " << c;
    }
  }
}

/// The name of the list within something else does not make it one.
TEST(PlainList, IsNoListOfSomethingElse) {
  const std::string entry = list_in(encode_manifest(index_of({"a"})));
  EXPECT_ANY_THROW(static_cast<void>(read_text(R"({"constants":{"a":"b","variables":[)" + entry)));
  EXPECT_ANY_THROW(static_cast<void>(read_text(R"({"a":","variables":[)" + entry)));
  EXPECT_EQ(read_text(R"({"constants":{"a":"b","variables":[]},"variables":[)" + entry).variables.size(), 1U);
}

}  // namespace
}  // namespace reprieve::storage
