// SPDX-License-Identifier: BSD-3-Clause
// Matrices of Eigen as state.

#include "reprieve/eigen.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "reprieve/checkpoint.hpp"

namespace reprieve {
namespace {

using ::testing::ElementsAre;

template <class T>
std::vector<T> saved_elements(const StridedView<T>& view) {
  const auto access = detail::make_access(view);
  const auto bytes = access->bytes();
  std::vector<T> elements(bytes.size() / sizeof(T));
  std::memcpy(static_cast<void*>(elements.data()), bytes.data(), bytes.size());
  return elements;
}

TEST(Eigen, MatricesHaveRowsAndColumnsInAnyOrderOfStorage) {
  Eigen::MatrixXd by_columns(2, 3);
  by_columns << 1, 2, 3, 4, 5, 6;
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> by_rows = by_columns;
  EXPECT_THAT(strided_view(by_columns).extent, ElementsAre(2, 3));
  EXPECT_THAT(saved_elements(strided_view(by_columns)), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(saved_elements(strided_view(by_rows)), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Eigen, VectorsHaveOneDimension) {
  Eigen::Vector3f fixed(1, 2, 3);
  Eigen::ArrayXi dynamic(2);
  dynamic << 7, 8;
  EXPECT_THAT(strided_view(fixed).extent, ElementsAre(3));
  EXPECT_THAT(saved_elements(strided_view(fixed)), ElementsAre(1, 2, 3));
  EXPECT_THAT(saved_elements(strided_view(dynamic)), ElementsAre(7, 8));
}

TEST(Eigen, BlocksAndMapsAreViewsOfTheirMatrix) {
  Eigen::MatrixXd matrix(3, 3);
  matrix << 1, 2, 3, 4, 5, 6, 7, 8, 9;
  auto block = matrix.block(1, 0, 2, 2);
  EXPECT_THAT(saved_elements(strided_view(block)), ElementsAre(4, 5, 7, 8));
  EXPECT_THAT(saved_elements(strided_view(matrix.block(0, 1, 2, 2))), ElementsAre(2, 3, 5, 6));
  auto row = matrix.row(1);
  EXPECT_THAT(saved_elements(strided_view(row)), ElementsAre(4, 5, 6));
  double memory[] = {1, 2, 3, 4, 5, 6};
  Eigen::Map<Eigen::VectorXd, 0, Eigen::InnerStride<2>> every_second(memory, 3);
  EXPECT_THAT(saved_elements(strided_view(every_second)), ElementsAre(1, 3, 5));
}

TEST(Eigen, AreRestoredInPlace) {
  Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(2, 2);
  Checkpoint state;
  state.add_replicated("matrix", strided_view(matrix));
  const auto access = detail::make_access(strided_view(matrix));
  const std::vector<double> values{1, 2, 3, 4};
  std::memcpy(access->prepare(32).data(), values.data(), 32);
  access->commit();
  EXPECT_EQ(matrix(0, 1), 2);
  EXPECT_EQ(matrix(1, 0), 3);
}

TEST(Eigen, HalfIsAnElement) {
  Eigen::Matrix<Eigen::half, 2, 1> halves(Eigen::half(0.5F), Eigen::half(2));
  EXPECT_EQ(to_string(element_type_of<Eigen::half>()), "float16");
  EXPECT_THAT(strided_view(halves).extent, ElementsAre(2));
}

}  // namespace
}  // namespace reprieve
