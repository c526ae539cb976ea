// SPDX-License-Identifier: BSD-3-Clause
// Memory that moves or changes its size after it was registered.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "core/memory.hpp"
#include "reprieve/checkpoint.hpp"
#include "reprieve/error.hpp"
#include "state/registry.hpp"
#include "storage/format/description.hpp"

namespace reprieve {
namespace {

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
    try {
      (void)collect();
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
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
            "memory has 5 now");
  u.resize(3);
  EXPECT_NE(problem().find("but its memory has 3 now"), std::string::npos) << problem();
  u.resize(4);
  EXPECT_EQ(problem(), "");
}

TEST_F(MovingMemory, AVectorMayGetItsSizeAfterItsRegistration) {
  std::vector<double> u;
  state.add_distributed("u", u, {.global_shape = {4}, .offset = {0}, .extent = {4}});
  EXPECT_NE(problem(), "");
  u.resize(4);
  EXPECT_EQ(problem(), "");
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
  state.add_distributed("a", [&] { return std::span(values).first(count); },
                        {.global_shape = {4}, .offset = {0}, .extent = {4}});
  state.add_distributed("b",
                        [&] {
                          return StridedView<double>{values.data(), {count}, {sizeof(double)}};
                        },
                        {.global_shape = {4}, .offset = {0}, .extent = {4}});
  EXPECT_EQ(problem(), "");
  count = 2;
  EXPECT_NE(problem().find("'a'"), std::string::npos) << problem();
  Checkpoint b;
  b.add_distributed("b",
                    [&] {
                      return StridedView<double>{values.data(), {count}, {sizeof(double)}};
                    },
                    {.global_shape = {4}, .offset = {0}, .extent = {4}});
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
  for (const bool strided : {false, true}) {
    const Pages pages(4096);
    Checkpoint checkpoint;
    checkpoint.add_distributed("u", pages.data(), {.global_shape = {4096}, .offset = {0}, .extent = {4096}});
    checkpoint.add_per_rank("v", std::span<double>(pages.data(), 4096));
    checkpoint.add_replicated(
        "w",
        StridedView<double>{pages.data(), {2048}, {(strided ? 2 : 1) * static_cast<std::ptrdiff_t>(sizeof(double))}});
    EXPECT_NO_THROW((void)collect_variables(checkpoint.registry()));
    pages.free();
    for (const auto& [name, variable] : checkpoint.registry().variables) {
      Checkpoint one;
      try {
        if (variable.describe) {
          DistributedArray array = variable.describe();
          state::check_array(name, array, devices::Spaces());
        } else {
          static_cast<void>(storage::check_value_memory(name, variable.value->bytes(), devices::Spaces(), nullptr));
        }
        ADD_FAILURE() << name;
      } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find("not the program's"), std::string::npos) << error.what();
      }
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

TEST(MappedMemory, IsToldFromWhatIsNone) {
  const std::vector<char> memory(100'000);
  EXPECT_TRUE(core::is_mapped(memory.data(), memory.size()));
  EXPECT_TRUE(core::is_mapped(nullptr, 0));
  EXPECT_FALSE(core::is_mapped(nullptr, 1));
  const Pages pages(4096);
  EXPECT_TRUE(core::is_mapped(pages.data() + 1, 4095 * sizeof(double)));
  pages.free();
  EXPECT_FALSE(core::is_mapped(pages.data() + 1, 1));
}

}  // namespace
}  // namespace reprieve
