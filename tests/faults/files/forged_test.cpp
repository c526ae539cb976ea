// SPDX-License-Identifier: BSD-3-Clause
// Files that were made to do harm: each is refused with an error that names the place, in bounded memory and time, by
// the library and by the command line tool.

#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "faults/files/sample.hpp"
#include "reprieve/error.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/format/file_index.hpp"
#include "storage/read/inspect_file.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::test {
namespace {

// Checkpoint files that lie: everything in them has the right checksum, and the commit record is good.

/// What a valid checkpoint says about itself, to be changed and written again.
struct Forgery {
  explicit Forgery(const std::filesystem::path& valid) : content_(content_of(valid)) {
    const storage::PosixFile file = storage::PosixFile::open_to_read(valid);
    const storage::IndexBytes index = storage::read_index_bytes(file, storage::read_commit_record(file));
    const auto* text = reinterpret_cast<const char*>(index.manifest.data());
    manifest = nlohmann::json::parse(text, text + index.manifest.size());
    dimensions = manifest.at("box_dimensions").get<std::uint64_t>();
    boxes.assign(index.boxes.begin(), index.boxes.end());
    checksums.assign(index.checksums.begin(), index.checksums.end());
  }

  nlohmann::json manifest;
  std::string manifest_text;         ///< taken instead of the manifest, if not empty
  std::uint64_t dimensions = 1;      ///< of the rows of boxes
  std::vector<std::uint64_t> boxes;  ///< `3 + 2 * dimensions` words each
  std::vector<std::uint64_t> checksums;
  std::uint64_t claimed_version = 1;
  std::function<void(std::array<storage::Region, 3>&)>
      move_tables;  ///< where the commit record says that the tables are

  /// The manifest's entry of a variable.
  nlohmann::json& variable(const std::string& name) {
    for (nlohmann::json& variable : manifest.at("variables")) {
      if (variable.at("name") == name) {
        return variable;
      }
    }
    throw std::out_of_range(name);
  }
  /// The words of the first box of a variable.
  std::uint64_t* box_of(const std::string& name) {
    const auto& variables = manifest.at("variables");
    const std::size_t row_words = 3 + 2 * dimensions;
    for (std::size_t row = 0; row * row_words < boxes.size(); ++row) {
      if (variables.at(boxes[row * row_words]).at("name") == name) {
        return &boxes[row * row_words];
      }
    }
    throw std::out_of_range(name);
  }

  /// Writes the file. The data are those of the valid one; the tables lie behind them.
  void write(const std::filesystem::path& file) const {
    put_content(file, content_);
    const std::string text = manifest_text.empty() ? manifest.dump() : manifest_text;
    const storage::PosixFile out = storage::PosixFile::open_to_write(file);
    std::uint64_t end = out.size();
    const auto append = [&](std::span<const std::byte> bytes) {
      const storage::Region region{end, bytes.size()};
      out.write_all(bytes, end);
      end += bytes.size();
      return region;
    };
    std::array<storage::Region, 3> regions{append(std::as_bytes(std::span(text))),
                                           append(std::as_bytes(std::span(boxes))),
                                           append(std::as_bytes(std::span(checksums)))};
    if (move_tables) {
      move_tables(regions);
    }
    const auto guarded = [&](const storage::Region& region) {
      const bool inside = region.offset <= end && region.size <= end - region.offset;
      storage::Bytes bytes(inside ? static_cast<std::size_t>(region.size) : 0);
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

 private:
  storage::Bytes content_;
};

struct Lie {
  std::string name;
  std::string place;  ///< what the error must say
  std::function<void(Forgery&)> tell;
};

void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }

std::string nested(std::size_t depth) { return std::string(depth, '['); }

/// An entry of the manifest is another.
std::function<void(Forgery&)> in_manifest(const char* key, nlohmann::json value) {
  return [key, value = std::move(value)](Forgery& f) { f.manifest[key] = value; };
}
/// The same of an entry about the array with two dimensions.
std::function<void(Forgery&)> in_grid(const char* key, nlohmann::json value) {
  return [key, value = std::move(value)](Forgery& f) { f.variable("grid")[key] = value; };
}

constexpr std::uint64_t kHuge = std::uint64_t{1} << 40U;
constexpr std::uint64_t kLast = ~std::uint64_t{0};

// Of wrong numbers of all kinds in the tables: IndexOfAFile.*. Here are those that another check or a reader has to
// bear.

std::vector<Lie> lies_about_places() {
  return {
      {"on_the_commit_record", "the commit record and variable 'grid'", in_grid("file_offset", 0)},
      {"manifest_on_a_variable", "share bytes",
       [](Forgery& f) {
         const std::uint64_t place = f.variable("grid")["file_offset"];
         f.move_tables = [place](auto& regions) { regions[2] = {place, regions[2].size}; };
       }},
      {"manifest_outside", "its manifest would lie outside",
       [](Forgery& f) { f.move_tables = [](auto& r) {
                          r[0] = {kHuge, 100};
                        }; }},
      {"boxes_wrap", "its table of boxes would lie outside",
       [](Forgery& f) { f.move_tables = [](auto& r) {
                          r[1] = {kLast - 8, 64};
                        }; }},
      {"checksums_outside", "its table of checksums would lie outside",
       [](Forgery& f) { f.move_tables = [](auto& r) { r[2].size = kHuge >> 12U; }; }},
      {"boxes_overlap", "'grid': the boxes [0:3, 0:6] and [2:3, 0:6] overlap",
       [](Forgery& f) { f.box_of("grid")[3 + 2 * f.dimensions + 3] = 2; }},
      {"boxes_in_disorder", "'flag': not one value",
       [](Forgery& f) { std::swap(f.boxes.front(), f.boxes[f.boxes.size() - 3 - 2 * f.dimensions]); }},
      {"copy_of_nothing", "'own': said to stand beside", [](Forgery& f) { f.variable("own")["copy"] = true; }},
      {"pieces_apart", "'own': a", [](Forgery& f) { f.box_of("own")[3] = 1; }},
      {"future_version", "has format version 4; this library reads versions 1 to 3",
       [](Forgery& f) { f.claimed_version = 4; }},
      {"version_0", "has format version 0", [](Forgery& f) { f.claimed_version = 0; }},
      {"chunks_of_ranks", "'own': chunks of what is not distributed",
       [](Forgery& f) {
         f.manifest["format_version"] = 2;
         f.variable("own")["tile"] = {1};
       }},
  };
}

std::vector<Lie> lies_about_variables() {
  const auto rename = [](const std::string& name) { return [name](Forgery& f) { f.variable("flag")["name"] = name; }; };
  return {
      {"name_climbs", "has the part '..'", rename("../../etc/cron.d/x")},
      {"name_absolute", "has an empty part", rename("/etc/passwd")},
      {"name_empty", "must not be empty", rename("")},
      {"name_controls_terminals", "holds a control character", rename("a\x1b[2J")},
      {"name_long", "at most 255", rename(std::string(100'000, 'a'))},
      {"size_negative", "where an integer is expected", in_grid("size_bytes", -8)},
      {"size_3", "'grid': impossible element type", in_grid("size_bytes", 3)},
      {"size_huge", "'grid': impossible element type", in_grid("size_bytes", 0xffff'ffffU)},
      {"offset_1e300", "where an integer is expected", in_grid("file_offset", 1e300)},
      {"shape_huge", "'grid': impossible shape", in_grid("shape", nlohmann::json::array({kHuge, kHuge}))},
      {"shape_large", "'grid': lies outside", in_grid("shape", nlohmann::json::array({kHuge, 6}))},
      {"shape_is_text", "where a list of integers is expected", in_grid("shape", "4 6")},
      {"shape_in_a_shape", "'[[]]' where an integer is expected", in_grid("shape", nlohmann::json::parse("[[[]]]"))},
      {"shape_in_chunks", "'[4]' where an integer is expected", in_grid("tile", nlohmann::json::parse("[[4],[6]]"))},
      {"shape_of_100_dimensions", "more dimensions than", in_grid("shape", std::vector<int>(100, 1))},
      {"pieces_of_many_dimensions", "more dimensions than",
       [](Forgery& f) { f.variable("own")["piece_dimensions"] = kLast; }},
      {"class_a_number", "impossible manifest", in_grid("class", 3)},
      {"another_type", "'grid': registered with elements of type float64, stored with int64",
       in_grid("class", "signed")},
      {"another_kind", "'scalar'", [](Forgery& f) { f.variable("scalar")["distribution"] = "per_rank"; }},
  };
}

std::vector<Lie> lies_about_meanings() {
  const auto member = [](const char* name, std::uint64_t offset) {
    return nlohmann::json{{"name", name}, {"class", "floating"}, {"size_bytes", 4}, {"offset", offset}};
  };
  const auto of_structs = [](nlohmann::json members) {
    return [members = std::move(members)](Forgery& f) {
      f.variable("grid")["class"] = "opaque";
      f.variable("grid")["members"] = members;
    };
  };
  using nlohmann::json;
  return {
      {"units_a_number", "impossible manifest", in_grid("units", 3)},
      {"units_long", "'grid': units of 100000 bytes", in_grid("units", std::string(100'000, 'm'))},
      {"dimensions_too_many", "3 names of dimensions were given", in_grid("dims", json::array({"a", "b", "c"}))},
      {"dimension_climbs", "'..'", in_grid("dims", json::array({"..", "x"}))},
      {"texts_of_numbers", "impossible texts", in_grid("texts", true)},
      {"members_of_numbers", "elements of type float64 have no members",
       in_grid("members", json::array({member("a", 0)}))},
      {"member_outside", "'a' does not lie in 8 bytes", of_structs(json::array({member("a", 5)}))},
      {"member_far_outside", "'a' does not lie in 8 bytes", of_structs(json::array({member("a", kLast)}))},
      {"members_overlap", "two members share the byte 3", of_structs(json::array({member("a", 0), member("b", 3)}))},
      {"members_a_text", "impossible manifest", of_structs("members")},
  };
}

std::vector<Lie> lies_about_the_whole() {
  const auto with_text = [](std::string text) { return [text](Forgery& f) { f.manifest_text = text; }; };
  return {
      {"manifest_not_json", "impossible manifest", with_text("{\"number\": 1,,}")},
      {"manifest_a_list", "impossible manifest", with_text("[]")},
      {"manifest_not_utf8", "impossible manifest", with_text("{\"reason\": \"\xff\xfe\"}")},
      {"manifest_deep", "nested too deep", with_text(nested(5'000'000))},
      {"manifest_deep_inside", "nested too deep",
       with_text("{\"reason\":{}, \"format_version\":" + nested(1'000'000) + std::string(1'000'000, ']') + "}")},
      {"manifest_of_zeros", "impossible manifest", with_text(std::string(1 << 20, '\0'))},
      {"key_missing", "impossible manifest", [](Forgery& f) { f.manifest.erase("variables"); }},
      {"variables_a_number", "impossible manifest", in_manifest("variables", 17)},
      {"million_variables", "a variable without one of its fields",
       in_manifest("variables", std::vector<nlohmann::json>(100'000, nlohmann::json::object()))},
      {"ranks_negative", "written by no ranks", in_manifest("world_size", -1)},
      {"ranks_2_31", "where an integer is expected", in_manifest("world_size", 1LL << 31)},
      {"ranks_10_9", "not one value for each rank", in_manifest("world_size", 1'000'000'000)},
      {"dimensions_0", "impossible number of dimensions", in_manifest("box_dimensions", 0)},
      {"reason_unknown", "unknown name", [](Forgery& f) { f.manifest["reason"]["kind"] = "whim"; }},
      {"reason_a_list", "impossible manifest",
       [](Forgery& f) {
         f.manifest["reason"] = {1, 2};
       }},
  };
}

std::vector<Lie> all_lies() {
  std::vector<Lie> lies = lies_about_places();
  for (const auto& more : {lies_about_variables(), lies_about_meanings(), lies_about_the_whole()}) {
    lies.insert(lies.end(), more.begin(), more.end());
  }
  return lies;
}

/// Exit code of the tool; 128 and more if a signal ended it.
int run_tool(const std::string& arguments) {
  const std::string command = std::string("timeout -k 3 60 ") + REPRIEVE_BIN_DIR + "/reprieve " + arguments;
  const int status = std::system((command + " > /dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class Forged : public testing::Test {
 protected:
  Forged() { save_sample(valid_); }

  const TemporaryDirectory directory_{"/dev/shm"};
  const std::filesystem::path valid_ = directory_ / "ckpt-7.h5";
  const std::filesystem::path file_ = directory_ / "ckpt-8.h5";
};

/// What the other tests rest on: the forger's files are taken if they do not lie.
TEST_F(Forged, AnHonestForgeryIsTaken) {
  Forgery(valid_).write(file_);
  SampleReader reader;
  EXPECT_EQ(reader.restore(file_, ""), Fate::unchanged);
  EXPECT_TRUE(storage::verify_file(file_).empty());
  EXPECT_EQ(run_tool("verify " + file_.string()), 0);
  EXPECT_EQ(run_tool("show " + file_.string()), 0);
}

class ForgedLie : public Forged, public testing::WithParamInterface<Lie> {};

TEST_P(ForgedLie, IsRefusedAndNamed) {
  Forgery forgery(valid_);
  GetParam().tell(forgery);
  forgery.write(file_);
  // Another type than the registered one is a lie that only a restore can tell.
  const bool is_told_by_all = GetParam().name != "another_type";
  const auto corruption = [&] {
    const auto corruptions = storage::verify_file(file_);
    return corruptions.empty() ? "valid" : corruptions[0].problem;
  };
  const Tally tally = try_all(
      2, [] {},
      [&](std::size_t i) {
        if (i == 0) {
          SampleReader reader;
          return reader.restore(file_, GetParam().place);
        }
        const bool is_told = corruption().find(GetParam().place) != std::string::npos;
        return is_told == is_told_by_all ? Fate::refused : Fate::wrong;
      });
  ASSERT_EQ(tally[Fate::refused], 2U) << testing::PrintToString(tally.bad) << corruption();
  const int good = is_told_by_all ? 1 : 0;
  EXPECT_EQ(run_tool("verify " + file_.string()), good);
  for (const std::string& command :
       {std::string("show "), std::string("verify --json "), "diff " + valid_.string() + " "}) {
    EXPECT_LE(run_tool(command + file_.string()), 5) << command;
  }
  EXPECT_LE(run_tool("ls " + directory_.path().string()), 5);
}

INSTANTIATE_TEST_SUITE_P(All, ForgedLie, testing::ValuesIn(all_lies()),
                         [](const auto& instance) { return instance.param.name; });

/// Changes what a file says about itself, somewhere: values become others, also lists and objects in them, and the text
/// need not stay JSON. The digests are right all the same.
class Distortion {
 public:
  explicit Distortion(unsigned seed) : random_(seed) {}

  void of(Forgery& forgery) {
    for (std::size_t times = 1 + below(3); times > 0; --times) {
      if (below(4) == 0) {
        auto& words = below(2) == 0 ? forgery.boxes : forgery.checksums;
        words.at(below(words.size())) = any_number();
      } else {
        change(forgery.manifest);
      }
    }
    if (below(8) == 0) {
      forgery.manifest_text = forgery.manifest.dump();
      const std::size_t place = below(forgery.manifest_text.size());
      forgery.manifest_text.replace(place, below(4), 1, "[]{},:\"\\0-\x9b"[below(11)]);
    }
  }

 private:
  std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_); }
  std::uint64_t any_number() { return std::array<std::uint64_t, 7>{0, 1, 2, 7, 4096, kHuge, kLast}.at(below(7)); }

  void change(nlohmann::json& value) {
    if (value.is_structured() && !value.empty() && below(8) != 0) {
      const auto item = std::next(value.begin(), static_cast<std::ptrdiff_t>(below(value.size())));
      below(12) == 0 ? static_cast<void>(value.erase(item)) : change(*item);
      return;
    }
    const nlohmann::json old = value;
    const std::array<nlohmann::json, 12> others{nullptr,
                                                true,
                                                -1,
                                                1.5,
                                                any_number(),
                                                "",
                                                "\n\u009b",
                                                nlohmann::json::array(),
                                                nlohmann::json::object(),
                                                nlohmann::json::parse("[[[]]]"),
                                                nlohmann::json::array({old, old}),
                                                nlohmann::json{{"name", old}}};
    value = others.at(below(others.size()));
  }

  std::mt19937_64 random_;
};

/// What is read of a file is what was saved; or the error says so in words of this project.
Fate fate_of(const std::filesystem::path& file) {
  SampleReader reader;
  const Fate fate = reader.restore(file, "");
  for (const storage::Corruption& corruption : storage::verify_file(file)) {
    if (corruption.problem.find("json.exception") != std::string::npos) {
      return Fate::odd;
    }
  }
  return fate;
}

TEST_F(Forged, NoDistortionDoesHarm) {
  constexpr std::size_t kTries = 4000;
  const Tally tally = try_all(
      kTries, [] {},
      [&](std::size_t i) {
        Forgery forgery(valid_);
        Distortion(static_cast<unsigned>(i)).of(forgery);
        forgery.write(file_);
        return fate_of(file_);
      });
  EXPECT_THAT(tally.bad, testing::IsEmpty());
  EXPECT_GT(tally[Fate::refused], kTries / 2);
  EXPECT_EQ(tally[Fate::refused] + tally[Fate::unchanged], kTries);
  for (unsigned i = 0; i < 40; ++i) {
    Forgery forgery(valid_);
    Distortion(i).of(forgery);
    forgery.write(file_);
    EXPECT_LE(run_tool("show " + file_.string()), 5) << "distortion " << i;
    EXPECT_LE(run_tool("ls " + directory_.path().string()), 5) << "distortion " << i;
  }
}

/// Tables in a hole of a terabyte cost nothing on the disk, and must not in memory or time.
TEST_F(Forged, TablesOfATerabyteAreNotRead) {
  Forgery forgery(valid_);
  forgery.write(file_);
  constexpr std::uint64_t kSize = std::uint64_t{1} << 40U;
  std::filesystem::resize_file(file_, kSize);
  std::vector<std::uint64_t> words(storage::kCommitRecordBytes / sizeof(std::uint64_t));
  for (const std::size_t table : {3U, 6U, 9U}) {
    const storage::PosixFile out = storage::PosixFile::open_to_write(file_);
    out.read_all(std::as_writable_bytes(std::span(words)), 0);
    words[2] = kSize;
    words[table] = 8192;
    words[table + 1] = kSize - 8192;
    words.back() = storage::xxh3(std::as_bytes(std::span(words)).first(storage::kCommitRecordBytes - 8));
    out.write_all(std::as_bytes(std::span(words)), 0);
    const Tally tally = try_all(
        1, [] {},
        [&](std::size_t) {
          SampleReader reader;
          return reader.restore(file_, "its tables would be larger than 2 GiB");
        });
    EXPECT_EQ(tally[Fate::refused], 1U) << testing::PrintToString(tally.bad);
  }
}

}  // namespace
}  // namespace reprieve::test
