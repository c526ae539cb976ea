// SPDX-License-Identifier: BSD-3-Clause
// Lists of members of structs.

#include <gmock/gmock.h>

#include <array>
#include <complex>

#include "reprieve/error.hpp"
#include "state/registry.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Inner {
  std::int8_t flag = 0;
  float weight = 0;
};
struct Outer {
  std::array<std::array<double, 3>, 2> matrix{};
  char label[2][6] = {};
  bool on = false;
  Inner inner[2];
  std::complex<double> wave;
  double hidden = 0;
};

}  // namespace

template <>
struct RecordMembers<Inner> {
  static Members list() { return members_of<Inner>().add("flag", &Inner::flag).add("weight", &Inner::weight).list(); }
};
template <>
struct RecordMembers<Outer> {
  static Members list() {
    return members_of<Outer>()
        .add("matrix", &Outer::matrix)
        .add("label", &Outer::label)
        .add("on", &Outer::on)
        .add("inner", &Outer::inner)
        .add("wave", &Outer::wave)
        .list();
  }
};

namespace {

static_assert(Record<Outer> && Element<Outer>);
static_assert(element_type_of<Outer>() == ElementType{ElementClass::opaque, sizeof(Outer)});

TEST(RecordTest, KnowsTypesAndPlaces) {
  const Members members = RecordMembers<Outer>::list();
  ASSERT_EQ(members.size(), 5U);
  const ElementType real{ElementClass::floating, 8};
  EXPECT_EQ(members[0], (Member{"matrix", real, offsetof(Outer, matrix), {2, 3}, {}}));
  EXPECT_EQ(members[1], (Member{"label", {ElementClass::text, 6}, offsetof(Outer, label), {2}, {}}));
  EXPECT_EQ(members[2], (Member{"on", {ElementClass::boolean, 1}, offsetof(Outer, on), {}, {}}));
  EXPECT_EQ(members[3].shape, (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(members[3].members, RecordMembers<Inner>::list());
  EXPECT_EQ(members[3].members[1].offset, offsetof(Inner, weight));
  EXPECT_EQ(members[4].type, (ElementType{ElementClass::complex, 16}));
  state::check_members("v", members, element_type_of<Outer>());
}

TEST(RecordTest, EveryFormOfRegistrationKnowsThem) {
  Checkpoint checkpoint;
  Inner one;
  std::vector<Inner> list(2);
  const DistributedLayout layout{.global_shape = {2}, .offset = {0}, .extent = {2}};
  checkpoint.add_replicated("value", one);
  checkpoint.add_replicated("vector", list);
  checkpoint.add_replicated("span", std::span(list));
  checkpoint.add_replicated("view", StridedView<Inner>{list.data(), {2}, {}});
  checkpoint.add_replicated("found", [&]() -> std::vector<Inner>& { return list; });
  checkpoint.add_per_rank("rank/vector", list);
  checkpoint.add_per_rank("rank/found", [&] { return std::span(list); });
  checkpoint.add_distributed("array/vector", list, layout);
  checkpoint.add_distributed("array/pointer", list.data(), layout);
  checkpoint.add_distributed("array/view", StridedView<Inner>{list.data(), {2}, {}}, {2}, {0});
  checkpoint.add_distributed(
      "array/found", [&]() -> std::vector<Inner>& { return list; }, layout);
  for (const auto& [name, variable] : checkpoint.registry().variables) {
    EXPECT_EQ(variable.members, RecordMembers<Inner>::list()) << name;
  }
}

class WrongLists : public testing::Test {
 protected:
  static void expect_refused(const Members& members, const std::string& problem, std::uint32_t size_bytes = 16) {
    EXPECT_THAT(
        [&] {
          state::check_members("v", members, {ElementClass::opaque, size_bytes});
        },
        ThrowsMessage<UsageError>(AllOf(HasSubstr("variable 'v': in its list of members: "), HasSubstr(problem))));
  }
  static Member real(std::string name, std::uint64_t offset, std::vector<std::uint64_t> shape = {}) {
    return {std::move(name), {ElementClass::floating, 8}, offset, std::move(shape), {}};
  }
};

TEST_F(WrongLists, AreRefused) {
  expect_refused({real("x", 0), real("x", 8)}, "two members are called 'x'");
  expect_refused({real("x", 0), real("y", 7)}, "two members share the byte 7");
  expect_refused({real("x", 9)}, "'x' does not lie in 16 bytes");
  expect_refused({real("x", 0, {3})}, "'x' does not lie in 16 bytes");
  expect_refused({real("x", 0, {0})}, "'x' does not lie in 16 bytes");
  expect_refused({real("x", ~std::uint64_t{0})}, "'x' does not lie in 16 bytes");
  expect_refused({real("x", 0, {std::uint64_t{1} << 61U, 8})}, "'x' does not lie in 16 bytes");
  expect_refused({real("", 0)}, "must not be empty");
  expect_refused({{"in", {ElementClass::opaque, 8}, 0, {}, {real("x", 1)}}}, "'x' does not lie in 8 bytes");
  EXPECT_THAT(
      [] {
        state::check_members("v", {real("x", 0)}, {ElementClass::floating, 8});
      },
      ThrowsMessage<UsageError>(HasSubstr("elements of type float64 have no members")));
}

TEST_F(WrongLists, TooLongOnesAreRefused) {
  Members members;
  for (std::uint64_t i = 0; i < 600; ++i) {
    members.push_back(real("member" + std::to_string(i), 8 * i));
  }
  expect_refused(members, "more members than HDF5 can hold", 600 * 8);
}

TEST_F(WrongLists, DifferencesNameTheMembers) {
  EXPECT_EQ(storage::members_difference({real("x", 0), real("y", 8)}, {real("y", 8), real("x", 0)}, "stored"), "");
  const Members other{real("x", 8), real("z", 0)};
  EXPECT_EQ(storage::members_difference({real("x", 0), real("y", 8, {2})}, other, "stored"),
            "'x' float64 at byte 0 (stored: float64 at byte 8), 'y' float64[2] at byte 8 (stored: none), "
            "'z' none (stored: float64 at byte 0)");
}

}  // namespace
}  // namespace reprieve
