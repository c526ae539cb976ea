// SPDX-License-Identifier: BSD-3-Clause
// Views of Kokkos as state.

#include "reprieve/kokkos.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

namespace reprieve {
namespace {

using ::testing::ElementsAre;

std::vector<double> saved_elements(ValueAccess& access) {
  const auto bytes = access.bytes();
  std::vector<double> elements(bytes.size() / sizeof(double));
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

template <class View>
void number(const View& view) {
  for (std::size_t i = 0; i < view.extent(0); ++i) {
    for (std::size_t j = 0; j < view.extent(1); ++j) {
      view(i, j) = static_cast<double>(10 * i + j);
    }
  }
}

TEST(Kokkos, ViewsHaveTheirDimensionsInAnyLayout) {
  Kokkos::View<double**, Kokkos::LayoutLeft, Kokkos::HostSpace> left("left", 2, 3);
  Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> right("right", 2, 3);
  number(left);
  number(right);
  EXPECT_THAT(strided_view(left).extent, ElementsAre(2, 3));
  EXPECT_THAT(saved_elements(*detail::make_access(strided_view(left))), ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_THAT(saved_elements(*detail::make_access(strided_view(right))), ElementsAre(0, 1, 2, 10, 11, 12));
}

TEST(Kokkos, SubviewsAreDistributedInPlace) {
  Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> padded("padded", 4, 5);
  number(padded);
  const auto inside = Kokkos::subview(padded, std::pair(1, 3), std::pair(1, 4));
  EXPECT_THAT(saved_elements(*detail::make_access(strided_view(inside))), ElementsAre(11, 12, 13, 21, 22, 23));
  Checkpoint state;
  state.add_distributed("field", strided_view(inside), {8, 3}, {2, 0});
  EXPECT_TRUE(state.contains("field"));
}

TEST(Kokkos, DeviceViewsGoThroughTheHost) {
  Kokkos::View<double**> device("device", 2, 2);
  const auto host = Kokkos::create_mirror_view(device);
  number(host);
  Kokkos::deep_copy(device, host);
  Checkpoint state;
  state.add_replicated_value("device", device_access(device));
  const auto access = device_access(device);
  EXPECT_THAT(saved_elements(*access), ElementsAre(0, 1, 10, 11));
  const std::vector<double> values{5, 6, 7, 8};
  std::memcpy(access->prepare(32).data(), values.data(), 32);
  access->commit();
  Kokkos::deep_copy(host, device);
  EXPECT_EQ(host(0, 1), 6);
  EXPECT_EQ(host(1, 0), 7);
}

}  // namespace
}  // namespace reprieve

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return RUN_ALL_TESTS();
}
