// SPDX-License-Identifier: BSD-3-Clause
// Memory layouts of distributed arrays.

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "core/memory.hpp"
#include "reprieve/checkpoint.hpp"
#include "reprieve/error.hpp"
#include "state/registry.hpp"
#include "storage/format/description.hpp"
#include "support/error_text.hpp"

namespace reprieve {
namespace {

TEST(GhostLayers, FirstInteriorElementLiesBehindTheLayers) {
  EXPECT_EQ(first_interior_index({4, 5, 6}, {1, 0, 2}), 1U * 5 * 10 + 0 * 10 + 2);
  EXPECT_EQ(first_interior_index({7}, {3}), 3U);
  EXPECT_EQ(first_interior_index({4, 5}, {0, 0}), 0U);
}

TEST(GhostLayers, RefusesDifferentNumbersOfDimensions) {
  EXPECT_THROW(with_ghost_layers({4, 4}, {0, 0}, {4}, {1}, 8), UsageError);
  EXPECT_THROW(with_ghost_layers({4}, {0, 0}, {4}, {1}, 8), UsageError);
  EXPECT_THROW(with_ghost_layers({4}, {0}, {4}, {1, 1}, 8), UsageError);
  EXPECT_THROW((void)first_interior_index({4}, {1, 1}), UsageError);
}

class ArrayCheck : public testing::Test {
 protected:
  std::string problem() const {
    DistributedArray looked_at = array;
    return test::error_text<UsageError>([&] { state::check_array("field", looked_at, devices::Spaces()); });
  }

  void expect_problem(const std::string& part) const {
    EXPECT_NE(problem().find(part), std::string::npos) << problem();
    EXPECT_NE(problem().find("'field'"), std::string::npos) << problem();
  }

  std::array<double, 12> memory{};
  std::byte* data = reinterpret_cast<std::byte*>(memory.data());
  DistributedArray array{element_type_of<double>(), {8, 4}, {{data, {2, 0}, {3, 4}}}};
};

TEST_F(ArrayCheck, AcceptsBoxesInsideAndEmptyOnesAnywhere) {
  EXPECT_EQ(problem(), "no error");
  array.boxes[0].offset = {5, 0};
  EXPECT_EQ(problem(), "no error") << "it ends at the edge";
  array.boxes[0] = {nullptr, {99, 0}, {0, 4}};
  EXPECT_EQ(problem(), "no error");
  array.boxes.clear();
  EXPECT_EQ(problem(), "no error");
  array = {element_type_of<double>(), {0, 4}, {}};
  EXPECT_EQ(problem(), "no error") << "without elements";
}

TEST_F(ArrayCheck, RefusesWhatIsNoBoxOfTheArray) {
  const auto expect_refused = [this, good = array](const auto& change, const char* part) {
    change();
    expect_problem(part);
    array = good;
  };
  expect_refused([&] { array.boxes[0].offset = {6, 0}; }, "not inside of the global shape [8, 4]");
  const std::uint64_t overflows = std::numeric_limits<std::uint64_t>::max() - 1;
  expect_refused([&] { array.boxes[0].offset = {overflows, 0}; }, "not inside");
  expect_refused([&] { array.boxes[0].extent = {3}; }, "dimensions");
  expect_refused([&] { array.boxes[0].data = nullptr; }, "null");
  expect_refused([&] { array = {element_type_of<double>(), {}, {}}; }, "no dimensions");
}

TEST_F(ArrayCheck, RefusesMoreDimensionsThanHdf5HasAndShapesBeyondFileOffsets) {
  array = {element_type_of<double>(), Extents(33, 1), {}};
  expect_problem("33 dimensions; HDF5 allows at most 32");
  array.global_shape.pop_back();
  EXPECT_EQ(problem(), "no error");
  array.global_shape = {std::uint64_t{1} << 31, std::uint64_t{1} << 31};
  expect_problem("larger than");
  array.global_shape = {std::uint64_t{1} << 31, std::uint64_t{1} << 28};
  EXPECT_EQ(problem(), "no error");
}

TEST_F(ArrayCheck, ChecksStrides) {
  array.boxes[0].strides_bytes = {32, 8};
  EXPECT_EQ(problem(), "no error");
  array.boxes[0].strides_bytes = {-32, 8};
  EXPECT_EQ(problem(), "no error");
  array.boxes[0].strides_bytes = {32};
  expect_problem("1 strides for 2 dimensions");
  array.boxes[0].strides_bytes = {32, 4};
  expect_problem("stride of 4 bytes in dimension 1");
  array.boxes[0].strides_bytes = {0, 8};
  expect_problem("stride of 0 bytes in dimension 0");
  array.boxes[0].extent[0] = 0;  // a rank without rows of a matrix that lies by columns
  array.boxes[0].strides_bytes = {8, 0};
  EXPECT_EQ(problem(), "no error");
  array.boxes[0].strides_bytes = {0};
  expect_problem("1 strides for 2 dimensions");
}

TEST(DistributedRegistration, DescribesTheBoxThatWasRegistered) {
  std::vector<float> memory(6);
  Checkpoint checkpoint;
  EXPECT_THROW(checkpoint.add_distributed("field", memory.data(), {{6, 3}, {5, 0}, {2, 3}}), UsageError) << "outside";
  EXPECT_EQ(checkpoint.size(), 0U);
  checkpoint.add_distributed("field", memory.data(), {{6, 3}, {2, 0}, {2, 3}});
  const DistributedArray array = checkpoint.registry().variables.at("field").describe();
  EXPECT_EQ(array.type, element_type_of<float>());
  EXPECT_EQ(array.global_shape, (Extents{6, 3}));
  ASSERT_EQ(array.boxes.size(), 1U);
  EXPECT_EQ(array.boxes[0].data, reinterpret_cast<std::byte*>(memory.data()));
  EXPECT_EQ(array.boxes[0].extent, (Extents{2, 3}));
}

TEST(IndexList, TakesAllIntegersButNegativeOnes) {
  const int rows = 3;
  const std::size_t columns = 4;
  const DistributedLayout layout{.global_shape = {rows, columns}, .offset = {0, 0}, .extent = {rows, 2}};
  EXPECT_EQ(layout.global_shape, (Extents{3, 4}));
  EXPECT_EQ(layout.extent, (Extents{3, 2}));
  EXPECT_THROW((IndexList{rows - 5}), UsageError);
  enum { kWidth = 64 };
  EXPECT_EQ((IndexList{kWidth, rows}), (Extents{64, 3}));
}

// Views of memory that is not dense, and the values that are reached through them.

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  const std::span<Particle> none;
  EXPECT_THAT(saved_elements<double>(*detail::make_access(member_view(none, &Particle::mass))), ElementsAre());
  EXPECT_THAT(saved_elements<float>(*detail::make_access(member_view(none, &Particle::position))), ElementsAre());
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

// Memory that moves or changes its size after it was registered.

using storage::collect_variables;

/// Memory of its own pages, which can be taken away. They lie where the kernel puts nothing by itself: otherwise
/// something else could take their place once they are freed.
class Pages {
 public:
  explicit Pages(std::size_t doubles)
      : bytes_(doubles * sizeof(double)),
        data_(mmap(kPlace, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { free(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] double* data() const { return static_cast<double*>(data_); }
  void free() const { munmap(data_, bytes_); }

 private:
  /// Asked for, not certain: far from the heap and the libraries, with sanitizers too.
  static inline void* const kPlace = reinterpret_cast<void*>(std::uintptr_t{1} << 45U);  // NOLINT: a place in memory
  std::size_t bytes_;
  void* data_;
};

class MovingMemory : public testing::Test {
 protected:
  std::vector<storage::LocalVariable> collect() { return collect_variables(state.registry()); }

  std::string problem() {
    return test::error_text<UsageError>([&] { (void)collect(); });
  }

  /// The elements of the first box of the only variable, as they would be saved.
  template <class T>
  std::vector<T> saved() {
    const auto variables = collect();
    const auto& view = variables.at(0).views.at(0);
    std::vector<T> values(static_cast<std::size_t>(state::volume(view.box.extent)));
    state::copy_box(reinterpret_cast<std::byte*>(values.data()), state::dense_strides(view.box.extent, sizeof(T)),
                    view.data, view.strides_bytes, view.box.extent, sizeof(T));
    return values;
  }

  Checkpoint state;
};

TEST_F(MovingMemory, AVectorIsSavedFromWhereItIsNow) {
  std::vector<double> u{1, 2, 3, 4};
  state.add_distributed("u", u, {.global_shape = {4}, .offset = {0}, .extent = {4}});
  u = std::vector<double>{5, 6, 7, 8};
  std::vector<double> other{0, 0, 0, 0};
  std::swap(u, other);
  EXPECT_EQ(saved<double>(), (std::vector<double>{0, 0, 0, 0}));
  u.shrink_to_fit();
  u.assign({9, 9, 9, 9});
  EXPECT_EQ(saved<double>(), (std::vector<double>{9, 9, 9, 9}));
}

TEST_F(MovingMemory, AVectorThatNoLongerFitsItsBoxIsNamedWithBothSizes) {
  std::vector<double> u(4);
  state.add_distributed("u", u, {.global_shape = {2, 2}, .offset = {0, 0}, .extent = {2, 2}});
  u.resize(5);
  EXPECT_EQ(problem(),
            "distributed variable 'u': it was registered with a box of 2 x 2 elements in memory of 4, but its "
            "memory has 5 now [RPV-0406]");
  u.resize(3);
  EXPECT_NE(problem().find("but its memory has 3 now"), std::string::npos) << problem();
  u.resize(4);
  EXPECT_EQ(problem(), "no error");
}

TEST_F(MovingMemory, AVectorMayGetItsSizeAfterItsRegistration) {
  std::vector<double> u;
  state.add_distributed("u", u, {.global_shape = {4}, .offset = {0}, .extent = {4}});
  EXPECT_NE(problem(), "no error");
  u.resize(4);
  EXPECT_EQ(problem(), "no error");
}

TEST_F(MovingMemory, APaddedVectorIsRegisteredAsAWhole) {
  const Extents extent{2, 3};
  std::vector<int> padded(4 * 7);
  std::iota(padded.begin(), padded.end(), 0);
  state.add_distributed("u", padded, with_ghost_layers({2, 3}, {0, 0}, extent, {1, 2}, sizeof(int)));
  EXPECT_EQ(saved<int>(), (std::vector<int>{9, 10, 11, 16, 17, 18}));
  padded.resize(3 * 7);
  EXPECT_NE(problem().find("in memory of 28, but its memory has 21 now"), std::string::npos) << problem();
}

TEST_F(MovingMemory, StridesOfOnesOwnMustStayInside) {
  std::vector<int> every_second{0, 1, 2, 3, 4, 5};
  state.add_distributed("u", every_second,
                        {.global_shape = {3}, .offset = {0}, .extent = {3}, .strides_bytes = {2 * sizeof(int)}});
  EXPECT_EQ(saved<int>(), (std::vector<int>{0, 2, 4}));
  every_second.resize(5);
  EXPECT_NE(problem().find("in memory of 6, but its memory has 5 now"), std::string::npos) << problem();

  Checkpoint outside;
  std::vector<int> backwards(6);
  outside.add_distributed("v", backwards, {.global_shape = {3}, .offset = {0}, .extent = {3}, .strides_bytes = {-8}});
  EXPECT_THROW((void)collect_variables(outside.registry()), UsageError) << "it begins before the vector does";
  outside = Checkpoint();
  outside.add_distributed("v", backwards,
                          {.global_shape = {3},
                           .offset = {0},
                           .extent = {3},
                           .strides_bytes = {-8},
                           .memory_elements = 6,
                           .first_element = 4});
  EXPECT_NO_THROW((void)collect_variables(outside.registry()));
}

TEST_F(MovingMemory, AFunctionIsAskedAtEachSave) {
  std::array<std::vector<double>, 2> fields{std::vector<double>{1, 2}, std::vector<double>{3, 4}};
  std::size_t present = 0;
  const auto field = [&]() -> std::vector<double>& { return fields[present]; };
  state.add_distributed("u", field, {.global_shape = {2}, .offset = {0}, .extent = {2}});
  EXPECT_EQ(saved<double>(), (std::vector<double>{1, 2}));
  present = 1;
  EXPECT_EQ(saved<double>(), (std::vector<double>{3, 4}));
  fields[1].resize(1);
  EXPECT_NE(problem().find("its memory has 1 now"), std::string::npos) << problem();
}

TEST_F(MovingMemory, AFunctionMayGiveASpanOrAView) {
  std::vector<double> values{1, 2, 3, 4};
  std::size_t count = 4;
  const auto span = [&] { return std::span(values).first(count); };
  const auto view = [&] { return StridedView<double>{values.data(), {count}, {sizeof(double)}}; };
  const DistributedLayout layout{.global_shape = {4}, .offset = {0}, .extent = {4}};
  state.add_distributed("a", span, layout);
  state.add_distributed("b", view, layout);
  EXPECT_EQ(problem(), "no error");
  count = 2;
  EXPECT_NE(problem().find("'a'"), std::string::npos) << problem();
  Checkpoint b;
  b.add_distributed("b", view, layout);
  EXPECT_THROW((void)collect_variables(b.registry()), UsageError);
}

TEST_F(MovingMemory, TheExtentOfAViewMayFollowTheView) {
  std::vector<double> values{1, 2, 3, 4};
  std::size_t count = 4;
  state.add_distributed("u", [&] { return StridedView<double>{values.data(), {count}, {}}; }, {4}, {0});
  EXPECT_EQ(saved<double>().size(), 4U);
  count = 3;
  EXPECT_EQ(saved<double>().size(), 3U);
}

TEST_F(MovingMemory, FreedPagesAreNoticed) {
  for (const std::ptrdiff_t stride : {1, 2}) {
    const Pages pages(4096);
    Checkpoint checkpoint;
    checkpoint.add_distributed("u", pages.data(), {.global_shape = {4096}, .offset = {0}, .extent = {4096}});
    checkpoint.add_per_rank("v", std::span<double>(pages.data(), 4096));
    checkpoint.add_replicated(
        "w", StridedView<double>{pages.data(), {2048}, {stride * static_cast<std::ptrdiff_t>(sizeof(double))}});
    EXPECT_NO_THROW((void)collect_variables(checkpoint.registry()));
    pages.free();
    for (const auto& entry : checkpoint.registry().variables) {
      const auto look = [&name = entry.first, &variable = entry.second] {
        if (variable.describe) {
          DistributedArray array = variable.describe();
          state::check_array(name, array, devices::Spaces());
        } else {
          static_cast<void>(storage::check_value_memory(name, variable.value->bytes(), devices::Spaces(), nullptr));
        }
      };
      EXPECT_THAT(test::error_text<UsageError>(look), HasSubstr("not the program's")) << entry.first;
    }
    EXPECT_THROW((void)collect_variables(checkpoint.registry()), UsageError);
  }
}

TEST_F(MovingMemory, AValueThatAFunctionFinds) {
  std::array<std::vector<double>, 2> lists{std::vector<double>{1, 2}, std::vector<double>{3}};
  std::size_t present = 1;
  state.add_per_rank("list", [&]() -> std::vector<double>& { return lists[present]; });
  EXPECT_EQ(saved<double>(), (std::vector<double>{3}));
  present = 0;
  EXPECT_EQ(saved<double>(), (std::vector<double>{1, 2}));
  ValueAccess& access = *state.registry().variables.at("list").value;
  EXPECT_TRUE(access.resizable());
  present = 1;
  const std::array<double, 3> stored{7, 8, 9};
  std::ranges::copy(std::as_bytes(std::span(stored)), access.prepare(sizeof stored).begin());
  access.commit();
  EXPECT_EQ(lists[1], (std::vector<double>{7, 8, 9}));
  EXPECT_EQ(lists[0], (std::vector<double>{1, 2}));
}

TEST_F(MovingMemory, ASpanThatAFunctionFinds) {
  std::vector<int> values{1, 2, 3};
  state.add_replicated("values", [&] { return std::span<int>(values); });
  values.resize(1000, 4);
  EXPECT_EQ(saved<int>().size(), 1000U);
  EXPECT_FALSE(state.registry().variables.at("values").value->resizable());
}

// What would be saved from a copy, and restored into nothing, does not compile.
template <class M>
constexpr bool can_be_distributed = requires(Checkpoint& checkpoint, M&& memory, DistributedLayout layout) {
  checkpoint.add_distributed("u", std::forward<M>(memory), layout);
};
using Vector = std::vector<double>;
static_assert(can_be_distributed<Vector&> && can_be_distributed<std::array<double, 3>&>);
static_assert(can_be_distributed<std::span<double>> && can_be_distributed<std::span<double>&>);
static_assert(can_be_distributed<StridedView<double>> && can_be_distributed<double*>);
static_assert(!can_be_distributed<Vector> && !can_be_distributed<const Vector&>);
static_assert(!can_be_distributed<Vector (*)()> && can_be_distributed<Vector& (*)()>);
static_assert(can_be_distributed<std::span<double> (*)()>);
static_assert(!ValueFunction<double (*)()> && ValueFunction<double& (*)()>);

TEST(MappedMemory, IsDistinguishedFromWhatIsNone) {
  const std::vector<char> memory(100'000);
  EXPECT_TRUE(core::is_mapped(memory.data(), memory.size()));
  EXPECT_TRUE(core::is_mapped(nullptr, 0));
  EXPECT_FALSE(core::is_mapped(nullptr, 1));
  const Pages pages(4096);
  EXPECT_TRUE(core::is_mapped(pages.data() + 1, 4095 * sizeof(double)));
  pages.free();
  EXPECT_FALSE(core::is_mapped(pages.data() + 1, 1));
}

TEST(MappedMemory, IsAskedForOnceInAPassWhereVariablesLieInOnePage) {
  constexpr std::size_t page = 4096;
  const Pages pages(3 * page / sizeof(double));
  const auto* const first = reinterpret_cast<const std::byte*>(pages.data());
  ASSERT_EQ(mprotect(pages.data() + page / sizeof(double), page, PROT_NONE), 0);
  const devices::Spaces pass;
  EXPECT_FALSE(pass.is_mapped(nullptr, 1));
  EXPECT_FALSE(pass.is_mapped(reinterpret_cast<const std::byte*>(16), 8)) << "a member of a struct at null";  // NOLINT
  EXPECT_FALSE(pass.is_mapped(first + 8, page)) << "ends in the page that nobody reads";
  EXPECT_TRUE(pass.is_mapped(first + 8, 64));
  EXPECT_TRUE(pass.is_mapped(first + 80, page - 80));
  EXPECT_FALSE(pass.is_mapped(first + 80, page)) << "begins in a page that is known";
  EXPECT_FALSE(pass.is_mapped(first + page, 8)) << "between two pages that are mapped";
  EXPECT_TRUE(pass.is_mapped(first + 2 * page, page));
  EXPECT_FALSE(pass.is_mapped(first + 2 * page, page + 8)) << "ends outside";
  EXPECT_TRUE(pass.is_mapped(nullptr, 0));
  EXPECT_FALSE(pass.is_mapped(nullptr, 1));
  pages.free();
  EXPECT_FALSE(devices::Spaces().is_mapped(first + 8, 64));
}

}  // namespace
}  // namespace reprieve
