// SPDX-License-Identifier: BSD-3-Clause
// What reprieve-heat writes for ParaView: well-formed, and true of every dataset that it names, after every save.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <tinyxml2.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "e2e/limits.hpp"
#include "support/process.hpp"

namespace reprieve::test {
namespace {

using testing::HasSubstr;
using tinyxml2::XMLElement;
namespace fs = std::filesystem;

std::string attribute(const XMLElement& element, const char* name) {
  const char* const value = element.Attribute(name);
  EXPECT_NE(value, nullptr) << element.Name() << " has no " << name;
  return value == nullptr ? "" : value;
}

const XMLElement& child(const XMLElement& element, const char* name) {
  const XMLElement* const found = element.FirstChildElement(name);
  if (found == nullptr) {
    throw std::runtime_error(std::string(element.Name()) + " has no " + name);
  }
  return *found;
}

std::vector<double> numbers(const std::string& text) {
  std::istringstream stream(text);
  std::vector<double> values;
  for (double value = 0; stream >> value;) {
    values.push_back(value);
  }
  return values;
}

/// What h5dump says of a dataset.
std::string h5dump(const fs::path& file, const std::string& dataset, bool with_data) {
  std::vector<std::string> words{"h5dump", "-d", dataset, file.string()};
  if (!with_data) {
    words.insert(words.begin() + 1, "-H");
  }
  Process process({words});
  EXPECT_EQ(process.wait(kHang), 0) << process.err();
  return process.out();
}

/// "H5T_IEEE_F64LE" and "9 7 5" of the header of a dataset.
void expect_dataset(const fs::path& file, const std::string& dataset, const std::string& type,
                    const std::string& dimensions) {
  const std::string header = h5dump(file, dataset, false);
  EXPECT_THAT(header, HasSubstr("DATATYPE  " + type)) << header;
  EXPECT_THAT(header, HasSubstr("SIMPLE { ( " + std::regex_replace(dimensions, std::regex(" "), ", ") + " )"))
      << header;
}

double scalar(const fs::path& file, const std::string& dataset) {
  const std::string text = h5dump(file, dataset, true);
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(R"(\(0\): (\S+))"))) {
    throw std::runtime_error("no value in " + text);
  }
  return std::stod(match[1]);
}

class HeatXdmf : public ::testing::Test {
 protected:
  [[nodiscard]] int run(int ranks, std::vector<std::string> options) const {
    std::vector<std::string> words{program("reprieve-heat"), "--grid", "5,7,9", "--checkpoint-dir",
                                   checkpoints_.string()};
    words.insert(words.end(), options.begin(), options.end());
    Mpirun job({.ranks = ranks, .arguments = words});
    const int code = job.wait(kHang).value_or(-1);
    EXPECT_NE(code, -1);
    if (code != 0) {
      ADD_FAILURE() << job.out() << job.err();
    }
    return code;
  }

  /// One checkpoint as it is described. Returns its file.
  fs::path check_grid(const XMLElement& grid) const {
    EXPECT_EQ(attribute(grid, "GridType"), "Uniform");
    const XMLElement& topology = child(grid, "Topology");
    EXPECT_EQ(attribute(topology, "TopologyType"), "3DCoRectMesh");
    const std::string dimensions = attribute(topology, "Dimensions");
    EXPECT_EQ(dimensions, "9 7 5") << "z y x";

    const XMLElement& geometry = child(grid, "Geometry");
    EXPECT_EQ(attribute(geometry, "GeometryType"), "ORIGIN_DXDYDZ");
    const XMLElement& origin = child(geometry, "DataItem");
    const std::vector<double> spacing{1.0 / 10, 1.0 / 8, 1.0 / 6};
    EXPECT_EQ(numbers(origin.GetText()), spacing);
    EXPECT_EQ(numbers(origin.NextSiblingElement("DataItem")->GetText()), spacing);

    const XMLElement& array = child(grid, "Attribute");
    EXPECT_EQ(attribute(array, "Name"), "temperature");
    EXPECT_EQ(attribute(array, "Center"), "Node");
    const XMLElement& data = child(array, "DataItem");
    EXPECT_EQ(attribute(data, "Format"), "HDF");
    EXPECT_EQ(attribute(data, "NumberType"), "Float");
    EXPECT_EQ(attribute(data, "Precision"), "8");
    EXPECT_EQ(attribute(data, "Dimensions"), dimensions);
    const std::string place = data.GetText();
    const std::size_t colon = place.find(':');
    const fs::path file = checkpoints_ / place.substr(0, colon);
    expect_dataset(file, place.substr(colon + 1), "H5T_IEEE_F64LE", dimensions);
    EXPECT_NEAR(std::stod(attribute(child(grid, "Time"), "Value")), scalar(file, "/state/progress/time"), 1e-6);
    return file;
  }

  /// The checkpoints in the file, in its order, each of which was looked at.
  [[nodiscard]] std::vector<fs::path> described() const {
    tinyxml2::XMLDocument document;
    EXPECT_EQ(document.LoadFile((checkpoints_ / "heat.xdmf").c_str()), tinyxml2::XML_SUCCESS) << document.ErrorStr();
    const XMLElement& domain = child(*document.RootElement(), "Domain");
    const XMLElement* const series = domain.FirstChildElement("Grid");
    std::vector<fs::path> files;
    if (series == nullptr) {
      return files;
    }
    EXPECT_EQ(attribute(*series, "CollectionType"), "Temporal");
    EXPECT_EQ(series->NextSiblingElement("Grid"), nullptr);
    double last_time = -1;
    for (auto* grid = series->FirstChildElement("Grid"); grid != nullptr; grid = grid->NextSiblingElement("Grid")) {
      files.push_back(check_grid(*grid));
      const double time = std::stod(attribute(child(*grid, "Time"), "Value"));
      EXPECT_GT(time, last_time);
      last_time = time;
    }
    return files;
  }

  [[nodiscard]] std::set<fs::path> committed() const {
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(checkpoints_)) {
      if (entry.path().extension() == ".h5") {
        files.insert(entry.path());
      }
    }
    return files;
  }

  void expect_true_description() const {
    const std::vector<fs::path> files = described();
    EXPECT_EQ(std::set<fs::path>(files.begin(), files.end()), committed());
  }

  TemporaryDirectory directory_;
  fs::path checkpoints_ = directory_ / "checkpoints";
};

TEST_F(HeatXdmf, DescribesWhatRetentionLeaves) {
  ASSERT_EQ(run(3, {"--steps", "50", "--checkpoint-every", "10", "--max-to-keep", "3"}), 0);
  EXPECT_EQ(committed().size(), 3U);
  expect_true_description();
}

TEST_F(HeatXdmf, IsTrueWhileItRunsAndAfterAPreemption) {
  std::vector<std::string> words{program("reprieve-heat"),
                                 "--grid",
                                 "5,7,9",
                                 "--checkpoint-dir",
                                 checkpoints_.string(),
                                 "--steps",
                                 "100000",
                                 "--checkpoint-every",
                                 "5",
                                 "--step-delay-ms",
                                 "20",
                                 "--max-to-keep",
                                 "0"};
  Mpirun job({.ranks = 2, .arguments = words});
  const auto saved_three = [&] { return fs::exists(checkpoints_ / "ckpt-15.h5"); };
  ASSERT_TRUE(wait_until([&] { return saved_three() || !job.running(); }, kHang)) << job.err();
  EXPECT_GE(described().size(), 1U) << "while it runs";
  ASSERT_TRUE(job.send_to_rank(1, SIGTERM)) << job.out() << job.err();
  EXPECT_EQ(job.wait(kHang), 42) << job.out() << job.err();
  expect_true_description();
}

TEST_F(HeatXdmf, TheToolWritesTheSame) {
  ASSERT_EQ(run(2, {"--steps", "20", "--checkpoint-every", "10"}), 0);
  const std::string written = read_text(checkpoints_ / "heat.xdmf");
  Process tool({{program("reprieve"), "xdmf", checkpoints_.string(), "--time", "progress/time", "--output",
                 (checkpoints_ / "heat.xdmf").string(), "--origin", "0.1,0.125,0.16666666666666666", "--spacing",
                 "0.1,0.125,0.16666666666666666"}});
  EXPECT_EQ(tool.wait(kHang), 0) << tool.err();
  EXPECT_EQ(tool.out(), (checkpoints_ / "heat.xdmf").string() + ": 2 checkpoints with 2 arrays\n");
  EXPECT_EQ(read_text(checkpoints_ / "heat.xdmf"), written);
}

TEST_F(HeatXdmf, TheToolTellsWhatIsWrong) {
  ASSERT_EQ(run(1, {"--steps", "5", "--xdmf", "none"}), 0);
  EXPECT_FALSE(fs::exists(checkpoints_ / "heat.xdmf"));
  Process wrong_time({{program("reprieve"), "xdmf", checkpoints_.string(), "--time", "tmie"}});
  EXPECT_EQ(wrong_time.wait(kHang), 2);
  EXPECT_THAT(wrong_time.err(), HasSubstr("no checkpoint in"));
  Process nowhere({{program("reprieve"), "xdmf", (directory_ / "nothing").string()}});
  EXPECT_EQ(nowhere.wait(kHang), 2);
  EXPECT_THAT(nowhere.err(), HasSubstr("does not exist"));
}

}  // namespace
}  // namespace reprieve::test
