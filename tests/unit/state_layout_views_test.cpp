// SPDX-License-Identifier: BSD-3-Clause
// Views of memory that is not dense, and the values that are reached through them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "reprieve/checkpoint.hpp"
#include "reprieve/error.hpp"
#include "state/registry.hpp"

namespace reprieve {
namespace {

using ::testing::ElementsAre;

struct Particle {
  double mass;
  float position[3];
  int id;
};

/// What std::mdspan with a strided layout offers.
class Mdspan {
 public:
  using element_type = double;
  Mdspan(double* data, std::array<std::size_t, 2> extents, std::array<std::size_t, 2> strides)
      : data_(data), extents_(extents), strides_(strides) {}
  [[nodiscard]] double* data_handle() const { return data_; }
  static constexpr std::size_t rank() { return 2; }
  [[nodiscard]] std::size_t extent(std::size_t d) const { return extents_.at(d); }
  [[nodiscard]] std::size_t stride(std::size_t d) const { return strides_.at(d); }

 private:
  double* data_;
  std::array<std::size_t, 2> extents_;
  std::array<std::size_t, 2> strides_;
};

/// The bytes of a value as a save takes them.
template <class T>
std::vector<T> saved_elements(ValueAccess& value) {
  const auto bytes = value.bytes();
  std::vector<T> elements(bytes.size() / sizeof(T));
  if (!elements.empty()) {
    std::memcpy(elements.data(), bytes.data(), bytes.size());
  }
  return elements;
}

/// Gives a value what a restore would.
template <class T>
void restore_elements(ValueAccess& value, const std::vector<T>& elements) {
  const auto memory = value.prepare(elements.size() * sizeof(T));
  ASSERT_EQ(memory.size(), elements.size() * sizeof(T));
  std::memcpy(memory.data(), elements.data(), memory.size());
  value.commit();
}

TEST(Views, OneMemberOfManyStructs) {
  std::vector<Particle> particles{{1.5, {1, 2, 3}, 7}, {2.5, {4, 5, 6}, 8}};
  const auto masses = member_view(std::span(particles), &Particle::mass);
  EXPECT_THAT(masses.extent, ElementsAre(2));
  const auto access = detail::make_access(masses);
  EXPECT_EQ(access->type(), element_type_of<double>());
  EXPECT_THAT(saved_elements<double>(*access), ElementsAre(1.5, 2.5));
  restore_elements<double>(*access, {10, 20});
  EXPECT_EQ(particles[1].mass, 20);
  EXPECT_EQ(particles[1].id, 8) << "the neighbours in memory stay";
  EXPECT_EQ(particles[1].position[0], 4);
}

TEST(Views, AMemberThatIsAnArrayIsOneMoreDimension) {
  std::vector<Particle> particles{{1.5, {1, 2, 3}, 7}, {2.5, {4, 5, 6}, 8}};
  const auto positions = member_view(std::span(particles), &Particle::position);
  EXPECT_THAT(positions.extent, ElementsAre(2, 3));
  EXPECT_THAT(saved_elements<float>(*detail::make_access(positions)), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Views, OfNoStructsHoldNothing) {
  std::vector<Particle> none;
  EXPECT_THAT(saved_elements<double>(*detail::make_access(member_view(std::span(none), &Particle::mass))),
              ElementsAre());
  EXPECT_THAT(saved_elements<float>(*detail::make_access(member_view(std::span(none), &Particle::position))),
              ElementsAre());
}

TEST(Views, MdspansKeepTheirStrides) {
  std::vector<double> memory(12);
  std::iota(memory.begin(), memory.end(), 0);
  // The middle two columns of a 3 x 4 matrix, and the whole of it transposed.
  const auto middle = strided_view(Mdspan(memory.data() + 1, {3, 2}, {4, 1}));
  EXPECT_THAT(saved_elements<double>(*detail::make_access(middle)), ElementsAre(1, 2, 5, 6, 9, 10));
  const auto transposed = strided_view(Mdspan(memory.data(), {4, 3}, {1, 4}));
  EXPECT_THAT(saved_elements<double>(*detail::make_access(transposed)),
              ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
}

TEST(Views, DenseOnesAreUsedInPlace) {
  std::vector<double> memory{1, 2, 3, 4};
  const auto access = detail::make_access(StridedView<double>{memory.data(), {2, 2}});
  EXPECT_EQ(static_cast<const void*>(access->bytes().data()), memory.data());
  EXPECT_EQ(static_cast<void*>(access->prepare(32).data()), memory.data());
}

TEST(Views, AreRegisteredAsEveryKind) {
  std::vector<Particle> particles(4);
  const auto masses = member_view(std::span(particles), &Particle::mass);
  Checkpoint state;
  state.add_replicated("replicated", masses);
  state.add_per_rank("per_rank", masses);
  state.add_distributed("distributed", masses, {10}, {3});
  const DistributedArray array = state.registry().variables.at("distributed").describe();
  EXPECT_THAT(array.global_shape, ElementsAre(10));
  ASSERT_EQ(array.boxes.size(), 1U);
  EXPECT_THAT(array.boxes[0].offset, ElementsAre(3));
  EXPECT_THAT(array.boxes[0].extent, ElementsAre(4));
  EXPECT_THAT(array.boxes[0].strides_bytes, ElementsAre(sizeof(Particle)));
  EXPECT_THROW(state.add_distributed("outside", masses, {6}, {3}), UsageError);
}

TEST(Views, ThatCannotBeAreRefused) {
  double value = 0;
  EXPECT_THROW(detail::make_access(StridedView<double>{nullptr, {2}}), UsageError);
  EXPECT_THROW(detail::make_access(StridedView<double>{&value, {1, 1}, {8}}), UsageError);
}

TEST(Values, VectorsOfBoolHaveAByteForEachInTheFile) {
  std::vector<bool> flags{true, false, true};
  const auto access = detail::make_access(flags);
  EXPECT_EQ(access->type(), element_type_of<bool>());
  EXPECT_THAT(access->shape(), ElementsAre(3));
  EXPECT_THAT(saved_elements<unsigned char>(*access), ElementsAre(1, 0, 1));
  restore_elements<unsigned char>(*access, {0, 1, 1, 0, 1});
  EXPECT_THAT(flags, ElementsAre(false, true, true, false, true));
}

}  // namespace
}  // namespace reprieve
