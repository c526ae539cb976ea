// SPDX-License-Identifier: BSD-3-Clause
// What the tools see of directories in which runs work at that moment.

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <complex>
#include <fstream>
#include <sstream>
#include <thread>

#include "files.hpp"
#include "reprieve/error.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"
#include "text.hpp"
#include "values.hpp"

namespace reprieve::tool {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class ToolFiles : public testing::Test {
 protected:
  void put(const std::string& name) const { std::ofstream(directory / name) << name; }

  /// The numbers of those that are still there when their turn comes.
  [[nodiscard]] std::vector<std::uint64_t> look(const std::function<void(std::uint64_t)>& meanwhile) const {
    std::vector<std::uint64_t> seen;
    for_each_checkpoint(directory.path(), [&](const CheckpointFile& file) {
      meanwhile(file.number);
      if (is_gone(file.path)) {
        return false;
      }
      seen.push_back(file.number);
      return true;
    });
    return seen;
  }

  const test::TemporaryDirectory directory;
};

TEST_F(ToolFiles, WhatIsRetiredBeforeItsTurnIsLeftOut) {
  EXPECT_THAT(look([](std::uint64_t) {}), IsEmpty());
  put("ckpt-1.h5");
  put("ckpt-2.h5");
  EXPECT_THAT(look([](std::uint64_t) {}), ElementsAre(1, 2));
  EXPECT_THAT(look([&](std::uint64_t) { fs::remove(directory / "ckpt-1.h5"); }), ElementsAre(2));
}

TEST_F(ToolFiles, WhereAllAreRetiredTheNextOnesAreRead) {
  put("ckpt-1.h5");
  const auto save_next = [&](std::uint64_t number) {
    if (number < 3) {
      put("ckpt-" + std::to_string(number + 1) + ".h5");
      fs::remove(directory / ("ckpt-" + std::to_string(number) + ".h5"));
    }
  };
  EXPECT_THAT(look(save_next), ElementsAre(3));
}

TEST_F(ToolFiles, AnotherFileOfTheNameIsSeen) {
  put("ckpt-1.h5");
  const auto before = states_in(directory.path());
  EXPECT_EQ(states_in(directory.path()), before);
  put("new");
  fs::rename(directory / "new", directory / "ckpt-1.h5");
  EXPECT_NE(states_in(directory.path()), before);
  EXPECT_NE(state_of(directory / "ckpt-1.h5"), std::nullopt);
  EXPECT_EQ(state_of(directory / "ckpt-2.h5"), std::nullopt);
}

/// Ranks have directories of their own while they save, and files of checkpoints are in directories.
TEST_F(ToolFiles, RunsAreFoundBesideDirectoriesThatComeAndGo) {
  constexpr int kRuns = 8;
  for (int run = 0; run < kRuns; ++run) {
    const fs::path place = directory / ("run" + std::to_string(run));
    fs::create_directories(place);
    std::ofstream(place / "events.jsonl") << "{}\n";
  }
  std::atomic<bool> done{false};
  std::thread saves([&] {
    while (!done) {
      for (int run = 0; run < kRuns; ++run) {
        const fs::path place = directory / ("run" + std::to_string(run)) / "workertemp_0";
        std::error_code ignored;
        fs::create_directory(place, ignored);
        fs::remove(place, ignored);
      }
    }
  });
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    EXPECT_EQ(run_directories(directory.path()).size(), kRuns);
  }
  done = true;
  saves.join();
}

TEST_F(ToolFiles, ARunBelowSeveralOfTheDirectoriesIsFoundOnce) {
  for (const char* run : {"b", "a"}) {
    fs::create_directories(directory / run);
    std::ofstream(directory / run / "events.jsonl") << R"({"event":"start","time":"2026-01-01T00:00:00.000Z"})" << '\n';
  }
  std::vector<std::string> found;
  for_each_run({directory / "b", directory.path(), directory / "a" / "."},
               [&](const Timeline&, const RunStatus& run) { found.push_back(run.directory.filename().string()); });
  EXPECT_THAT(found, ElementsAre("b", "a"));
}

using namespace std::chrono_literals;

TEST(ToolText, TimesAndAges) {
  EXPECT_EQ(utc_time(std::chrono::system_clock::time_point(1'000'000'000s)), "2001-09-09T01:46:40Z");
  // Half a second more, so that the time that passes here does not change the answer.
  const auto ago = [](auto duration) { return human_age(std::chrono::system_clock::now() - duration - 500ms); };
  EXPECT_EQ(ago(59min + 10s), "59 min");
  EXPECT_EQ(ago(2h + 5min), "2 h 5 min");
  EXPECT_EQ(ago(49h), "2 d 1 h");
  EXPECT_EQ(human_age(std::chrono::system_clock::now() + 1h), "in the future");
}

TEST(ToolText, ShapesAndCounts) {
  EXPECT_EQ(shape_text({}), "scalar");
  EXPECT_EQ(shape_text({3, 4}), "[3, 4]");
  EXPECT_EQ(count_text(1, "place"), "1 place");
  EXPECT_EQ(count_text(0, "place"), "0 places");
}

TEST(ToolText, Reasons) {
  SaveReason reason;
  EXPECT_EQ(reason_text(reason), "user");
  reason.message = "before the experiment";
  EXPECT_EQ(reason_text(reason), "user: before the experiment");
  reason.message = "\x1b[2J gone\n";
  EXPECT_EQ(reason_text(reason), "user: \\x1b[2J gone") << "files do not steer the terminal";
  reason = {SaveReason::Kind::preemption, 2, "node17", "signal SIGTERM", ""};
  EXPECT_EQ(reason_text(reason), "preemption: signal SIGTERM on rank 2 (node17)");
}

TEST(ToolText, SeveralLinesBecomeOneOrTheFirst) {
  EXPECT_EQ(printable("does not fit:\n  variable 'a'\n  variable 'b'\n"), "does not fit: variable 'a'; variable 'b'");
  EXPECT_EQ(printable("  "), "");
  EXPECT_EQ(first_line("does not fit:\n  variable 'a'"), "does not fit");
  EXPECT_EQ(first_line("it ends with a colon:"), "it ends with a colon:");
}

TEST(ToolText, LongLinesAreWrappedBelowTheirText) {
  EXPECT_EQ(wrapped("  --json      Print the report as JSON\nshort\n", 30),
            "  --json      Print the report\n              as JSON\nshort\n");
  EXPECT_EQ(wrapped("one two three", 8), "one two\nthree\n");
  EXPECT_EQ(wrapped("averyverylongword", 8), "averyverylongword\n");
  EXPECT_EQ(wrapped("  averyverylongword", 8), "  averyverylongword\n");
  EXPECT_EQ(wrapped("", 8), "");
}

TEST(ToolText, JsonSurvivesBytesThatAreNotText) {
  std::ostringstream out;
  print_json(out, {{"name", "\xff"}});
  EXPECT_EQ(nlohmann::json::parse(out.str())["name"], "\xef\xbf\xbd");  // the replacement character
}

TEST(ToolText, TableAlignsColumnsWithoutTrailingBlanks) {
  Table table({{"NAME"}, {"SIZE", Table::Align::right}, {"NOTE"}});
  table.add_row({"a", "10", ""});
  table.add_row({"longer", "9", "x"});
  std::ostringstream out;
  table.print(out);
  EXPECT_EQ(out.str(),
            "NAME    SIZE  NOTE\n"
            "a         10\n"
            "longer     9  x\n");
}

// Slices, and the values of elements as `show` and `export` print them.

using testing::HasSubstr;
TEST(ToolSlices, AreThoseOfPython) {
  const Extents shape{100, 20};
  EXPECT_THAT(parse_slices("", shape), ElementsAre(Slice{0, 100, 1, false}, Slice{0, 20, 1, false}));
  EXPECT_THAT(parse_slices("0:10, 5", shape), ElementsAre(Slice{0, 10, 1, false}, Slice{5, 1, 1, true}));
  EXPECT_THAT(parse_slices("-3:", shape), ElementsAre(Slice{97, 3, 1, false}, Slice{0, 20, 1, false}));
  EXPECT_THAT(parse_slices(":-1:7,-1", shape), ElementsAre(Slice{0, 15, 7, false}, Slice{19, 1, 1, true}));
  EXPECT_THAT(parse_slices("90:1000", shape)[0], (Slice{90, 10, 1, false}));
  EXPECT_EQ(parse_slices("50:10", shape)[0].count, 0U);
  EXPECT_EQ(parse_slices("-1000:2", shape)[0].count, 2U);
  EXPECT_TRUE(parse_slices("", {}).empty());
}

TEST(ToolSlices, WrongOnesSayWhatIsWrong) {
  const auto error_of = [](const char* text, const Extents& shape) {
    return test::error_text<UsageError>([&] { static_cast<void>(parse_slices(text, shape)); });
  };
  EXPECT_THAT(error_of("10", {10}), HasSubstr("the index \"10\" is not in dimension 0, which has the length 10"));
  EXPECT_THAT(error_of("-11", {10}), HasSubstr("is not in dimension 0"));
  EXPECT_THAT(error_of("1,", {10, 10}), HasSubstr("is not in dimension 1"));
  EXPECT_THAT(error_of("1, 2", {10}), HasSubstr("too many slices: the shape is [10]"));
  EXPECT_THAT(error_of("0", {}), HasSubstr("too many slices: the shape is scalar"));
  EXPECT_THAT(error_of("a:", {10}), HasSubstr("\"a\" is no whole number"));
  EXPECT_THAT(error_of("::0", {10}), HasSubstr("a slice goes forward"));
  EXPECT_THAT(error_of("::-1", {10}), HasSubstr("a slice goes forward"));
}

template <class T>
std::string text(ElementType type, const T& value) {
  return value_text(type, {}, std::as_bytes(std::span(&value, 1)));
}

TEST(ToolValues, HaveAllTheirDigits) {
  EXPECT_EQ(text({ElementClass::floating, 8}, 0.1), "0.1");
  EXPECT_EQ(text({ElementClass::floating, 4}, 0.1F), "0.1");
  EXPECT_EQ(text({ElementClass::floating, 8}, 1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(text({ElementClass::complex, 16}, std::complex<double>(1.5, -2)), "(1.5-2j)");
  EXPECT_EQ(text({ElementClass::signed_integer, 1}, std::int8_t{-7}), "-7");
  EXPECT_EQ(text({ElementClass::boolean, 1}, std::uint8_t{1}), "true");
  EXPECT_EQ(text({ElementClass::opaque, 2}, std::array<std::uint8_t, 2>{0x01, 0xab}), "0x01ab");
  EXPECT_EQ(text({ElementClass::text, 4}, std::array<char, 4>{'a', 'b', 0, 'x'}), "ab");
}

TEST(ToolValues, NumbersOfSixteenBits) {
  const auto half = [](std::uint16_t bits) { return text({ElementClass::floating, 2}, bits); };
  EXPECT_EQ(half(0x3c00), "1");
  EXPECT_EQ(half(0xc100), "-2.5");
  EXPECT_EQ(half(0x0001), "5.9604645e-08");
  EXPECT_EQ(half(0x7c00), "inf");
  EXPECT_EQ(half(0x7e00), "nan");
}

TEST(ToolValues, MembersOfStructs) {
  struct Particle {
    double x = 0.5;
    std::array<std::int32_t, 2> cell{3, 4};
  };
  const Members members{{"x", {ElementClass::floating, 8}, 0}, {"cell", {ElementClass::signed_integer, 4}, 8, {2}}};
  const Particle particle;
  const auto bytes = std::as_bytes(std::span(&particle, 1));
  EXPECT_EQ(value_text({ElementClass::opaque, 16}, members, bytes), R"({"x":0.5,"cell":[3,4]})");
}

}  // namespace
}  // namespace reprieve::tool
