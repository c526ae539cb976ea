// SPDX-License-Identifier: BSD-3-Clause
// The text of the side file for ParaView.

#include <gmock/gmock.h>

#include <string>

#include "manager/xdmf.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::manager {
namespace {

using testing::HasSubstr;
using testing::Not;

const ElementType kDouble = element_type_of<double>();

XdmfCheckpoint checkpoint(const std::string& path, double time, std::vector<XdmfArray> arrays) {
  return {"ckpt", path, time, std::move(arrays)};
}

TEST(Xdmf, ShowsNumbersInOneToThreeDimensions) {
  EXPECT_TRUE(xdmf_can_show(kDouble, {4}));
  EXPECT_TRUE(xdmf_can_show(kDouble, {4, 5, 6}));
  EXPECT_TRUE(xdmf_can_show(element_type_of<std::uint8_t>(), {4, 5}));
  EXPECT_TRUE(xdmf_can_show(element_type_of<std::int64_t>(), {4, 5}));
  EXPECT_FALSE(xdmf_can_show(kDouble, {}));
  EXPECT_FALSE(xdmf_can_show(kDouble, {4, 5, 6, 7}));
  EXPECT_FALSE(xdmf_can_show(kDouble, {4, 0, 6})) << "no points";
  EXPECT_FALSE(xdmf_can_show(element_type_of<long double>(), {4}));
  EXPECT_FALSE(xdmf_can_show({ElementClass::floating, 2}, {4})) << "half";
  EXPECT_FALSE(xdmf_can_show(element_type_of<bool>(), {4}));
  EXPECT_FALSE(xdmf_can_show(element_type_of<std::complex<double>>(), {4}));
  EXPECT_FALSE(xdmf_can_show({ElementClass::text, 1}, {4}));
}

TEST(Xdmf, DescribesAnArrayOnAGrid) {
  const std::string text = xdmf_text({checkpoint("ckpt-7.h5", 0.25, {{"field/t", kDouble, {4, 5, 6}}})},
                                     {.time_variable = {}, .origin = {1, 2, 3}, .spacing = {0.5, 0.25, 0.125}});
  EXPECT_THAT(text, HasSubstr(R"(<Time Value="0.25"/>)"));
  EXPECT_THAT(text, HasSubstr(R"(<Topology TopologyType="3DCoRectMesh" Dimensions="4 5 6"/>)"));
  EXPECT_THAT(text, HasSubstr(R"(GeometryType="ORIGIN_DXDYDZ")"));
  EXPECT_THAT(text, HasSubstr(R"(Dimensions="3">1 2 3</DataItem>)"));
  EXPECT_THAT(text, HasSubstr(R"(Dimensions="3">0.5 0.25 0.125</DataItem>)"));
  EXPECT_THAT(text, HasSubstr(R"(<Attribute Name="field/t" AttributeType="Scalar" Center="Node">)"));
  EXPECT_THAT(text, HasSubstr(R"(NumberType="Float" Precision="8" Dimensions="4 5 6">ckpt-7.h5:/state/field/t<)"));
}

TEST(Xdmf, ArraysWithFewerDimensionsLieInSpaceAsWell) {
  const std::string plane = xdmf_text({checkpoint("a.h5", 0, {{"p", kDouble, {7, 9}}})}, {.spacing = {0.5, 0.25}});
  EXPECT_THAT(plane, HasSubstr(R"(<Topology TopologyType="3DCoRectMesh" Dimensions="1 7 9"/>)"));
  EXPECT_THAT(plane, HasSubstr(R"(Dimensions="3">1 0.5 0.25</DataItem>)"));
  EXPECT_THAT(plane, HasSubstr(R"(Dimensions="1 7 9">a.h5:/state/p<)"));
  const std::string line = xdmf_text({checkpoint("a.h5", 0, {{"l", kDouble, {9}}})}, {.spacing = {0.5}});
  EXPECT_THAT(line, HasSubstr(R"(<Topology TopologyType="3DCoRectMesh" Dimensions="1 1 9"/>)"));
  EXPECT_THAT(line, HasSubstr(R"(Dimensions="3">1 1 0.5</DataItem>)"));
  EXPECT_THAT(line, HasSubstr(R"(Dimensions="1 1 9">a.h5:/state/l<)"));
  const std::string other = xdmf_text({checkpoint("a.h5", 0, {{"v", kDouble, {2, 2}}})}, {.spacing = {0.5, 0.5, 0.5}});
  EXPECT_THAT(other, HasSubstr(R"(Dimensions="3">1 1 1</DataItem>)")) << "spacing is for as many dimensions";
  EXPECT_THAT(other, Not(HasSubstr("0.5")));
}

TEST(Xdmf, NamesTypesAsItsReadersDo) {
  const auto text_of = [](ElementType type) { return xdmf_text({checkpoint("a.h5", 0, {{"v", type, {2, 2}}})}, {}); };
  EXPECT_THAT(text_of(element_type_of<float>()), HasSubstr(R"(NumberType="Float" Precision="4")"));
  EXPECT_THAT(text_of(element_type_of<std::int32_t>()), HasSubstr(R"(NumberType="Int" Precision="4")"));
  EXPECT_THAT(text_of(element_type_of<std::uint64_t>()), HasSubstr(R"(NumberType="UInt" Precision="8")"));
  EXPECT_THAT(text_of(element_type_of<std::int8_t>()), HasSubstr(R"(NumberType="Char" Precision="1")"));
  EXPECT_THAT(text_of(element_type_of<std::uint8_t>()), HasSubstr(R"(NumberType="UChar" Precision="1")"));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Xdmf, OneSeriesForEachShapeInTheOrderOfTime) {
  const std::string text = xdmf_text(
      {
          checkpoint("ckpt-9.h5", 3, {{"a", kDouble, {2, 2}}}),
          checkpoint("ckpt-2.h5", 1, {{"a", kDouble, {2, 2}}, {"b", kDouble, {2, 2}}, {"c", kDouble, {4, 4, 4}}}),
      },
      {});
  EXPECT_EQ(count_of(text, R"(CollectionType="Temporal")"), 2U);
  EXPECT_EQ(count_of(text, R"(GridType="Uniform")"), 3U);
  EXPECT_EQ(count_of(text, "<Attribute"), 4U);
  EXPECT_LT(text.find("ckpt-2.h5:/state/a"), text.find("ckpt-9.h5:/state/a"));
}

TEST(Xdmf, EscapesWhatXmlTakesForItsOwn) {
  const std::string text = xdmf_text({checkpoint("a<b>.h5", 0, {{"p&q \"r\"", kDouble, {2, 2}}})}, {});
  EXPECT_THAT(text, HasSubstr("a&lt;b&gt;.h5:/state/p&amp;q &quot;r&quot;"));
  EXPECT_THAT(text, Not(HasSubstr("a<b>")));
}

TEST(Xdmf, ADirectoryWithoutCheckpointsIsDescribedAsWell) {
  const test::TemporaryDirectory directory;
  const auto file = directory / "empty.xdmf";
  const XdmfReport report = write_xdmf(directory.path(), file);
  EXPECT_EQ(report.checkpoints, 0U);
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_THROW(write_xdmf(directory / "none", file), StorageError);
  EXPECT_THROW(write_xdmf(directory.path(), directory / "none" / "a.xdmf"), StorageError);
}

}  // namespace
}  // namespace reprieve::manager
