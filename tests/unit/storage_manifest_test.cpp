// SPDX-License-Identifier: BSD-3-Clause
// The manifest is read without a document in memory: what comes out must be what the JSON library would read.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/values.hpp"
#include "storage/format/manifest.hpp"

namespace reprieve::storage {
namespace {

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

std::vector<StoredVariable> read_text(const std::string& manifest) {
  std::vector<StoredVariable> variables;
  static_cast<void>(read_manifest(core::to_bytes(manifest), &variables));
  return variables;
}

void expect_same(const StoredVariable& a, const StoredVariable& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.distribution, b.distribution);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.file_offset, b.file_offset);
  EXPECT_EQ(a.piece_dimensions, b.piece_dimensions);
  EXPECT_EQ(a.chunk, b.chunk);
  EXPECT_EQ(a.annotation, b.annotation);
  EXPECT_EQ(a.is_copy, b.is_copy);
}

TEST(Manifest, IsReadAsItWasWritten) {
  FileIndex index = index_of({"a", "back\\slash", "quote\"}{", "t\u00e9mp\u00e9rature", "chunks", "units", "z"});
  index.variables[4].chunk = {7, 1};
  index.variables[5].annotation = Annotation{"m }s\"[", "what \\ it is", {"x"}};
  index.variables[6].is_copy = true;
  std::vector<StoredVariable> read;
  const nlohmann::json fields = read_manifest(core::to_bytes(encode_manifest(index, 10)), &read);
  ASSERT_EQ(read.size(), index.variables.size());
  for (std::size_t v = 0; v < index.variables.size(); ++v) {
    expect_same(read[v], index.variables[v]);
  }
  EXPECT_FALSE(fields.contains("variables"));
  EXPECT_TRUE(fields.contains("box_dimensions"));
}

TEST(Manifest, MayHaveNoVariables) { EXPECT_TRUE(read_text(encode_manifest(FileIndex())).empty()); }

/// Those of the first versions have it in the order of their names.
TEST(Manifest, MayHaveItsListAnywhere) {
  const std::string manifest = encode_manifest(index_of({"a", "b"}));
  const auto sorted = core::to_bytes(nlohmann::json::parse(manifest).dump(2));
  std::vector<StoredVariable> variables;
  EXPECT_EQ(read_manifest(sorted, &variables), read_manifest(core::to_bytes(manifest), nullptr));
  EXPECT_EQ(read_manifest(sorted, nullptr), read_manifest(core::to_bytes(manifest), nullptr));
  EXPECT_EQ(variables.size(), 2U);
}

TEST(Manifest, IsNoneIfItIsCutOffOrContinues) {
  const std::string manifest = encode_manifest(index_of({"a", "b"}));
  for (std::size_t size = 0; size < manifest.size(); ++size) {
    EXPECT_ANY_THROW(static_cast<void>(read_text(manifest.substr(0, size)))) << size;
  }
  for (const char* more : {"x", "}", ",{}", "]}"}) {
    EXPECT_ANY_THROW(static_cast<void>(read_text(manifest + more))) << more;
  }
}

/// Each of these is refused, or read alike, by a parser alone.
TEST(Manifest, ReadsNoNumberThatJsonDoesNotHave) {
  const std::string manifest = encode_manifest(index_of({"a"}));
  const auto with = [&](const std::string& number) {
    std::string text = manifest;
    return text.replace(text.find("4096"), 4, number);
  };
  for (const char* number : {"04096", "+4096", "0x10", "4096.", "", "-", "40 96", "99999999999999999999999"}) {
    EXPECT_ANY_THROW(static_cast<void>(read_text(with(number)))) << number;
  }
  EXPECT_ANY_THROW(static_cast<void>(read_text(with("4096.5"))));
  EXPECT_EQ(read_text(with("18446744073709551615")).front().file_offset, 18446744073709551615U);
  EXPECT_EQ(read_text(with(" 4096 ")).front().file_offset, 4096U);
}

TEST(Manifest, RefusesNamesThatAreNoTextOfJson) {
  const std::string manifest = encode_manifest(index_of({"name"}));
  for (const char* name : {"na\nme", "na\xff\xfeme", "na\\qme"}) {
    std::string text = manifest;
    EXPECT_ANY_THROW(static_cast<void>(read_text(text.replace(text.find("\"name\":\"name\"") + 8, 4, name)))) << name;
  }
}

/// In whatever way a byte is changed: what is no JSON is refused, and the rest is read as the JSON library reads it.
TEST(Manifest, IsReadAsJsonIfItIsCorrupt) {
  const std::string manifest = encode_manifest(index_of({"a", "b"}));
  int read_all_the_same = 0;
  for (std::size_t at = 0; at < manifest.size(); ++at) {
    for (const char c : {'"', '{', '}', '[', ']', ',', ':', '0', '9', ' ', 'x', '\\', '-', '\x01'}) {
      std::string corrupt = manifest;
      corrupt[at] = c;
      std::vector<StoredVariable> variables;
      try {
        variables = read_text(corrupt);
      } catch (const std::exception&) {
        continue;
      }
      ++read_all_the_same;
      ASSERT_TRUE(nlohmann::json::accept(corrupt)) << at << " " << c;
      const nlohmann::json list = nlohmann::json::parse(corrupt).at("variables");
      ASSERT_EQ(variables.size(), list.size()) << at << " " << c;
      for (std::size_t v = 0; v < list.size(); ++v) {
        EXPECT_EQ(variables[v].name, list[v].at("name").get<std::string>()) << at << " " << c;
        EXPECT_EQ(variables[v].file_offset, list[v].at("file_offset")) << at << " " << c;
        EXPECT_EQ(variables[v].shape, list[v].at("shape").get<Extents>()) << at << " " << c;
        EXPECT_EQ(variables[v].type.size_bytes, list[v].at("size_bytes")) << at << " " << c;
      }
    }
  }
  EXPECT_GT(read_all_the_same, 0);
}

/// The name of the list within something else does not make it one.
TEST(Manifest, IsNoListOfSomethingElse) {
  const std::string entry = list_in(encode_manifest(index_of({"a"})));
  EXPECT_ANY_THROW(static_cast<void>(read_text(R"({"constants":{"a":"b","variables":[)" + entry)));
  EXPECT_ANY_THROW(static_cast<void>(read_text(R"({"a":","variables":[)" + entry)));
  EXPECT_EQ(read_text(R"({"constants":{"a":"b","variables":[]},"variables":[)" + entry).size(), 1U);
}

}  // namespace
}  // namespace reprieve::storage
