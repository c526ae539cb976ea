// SPDX-License-Identifier: BSD-3-Clause
// Which rank keeps the part of which rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/local_transfer.hpp"
#include "reprieve/error.hpp"

namespace reprieve::manager {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

TEST(LocalPartners, EachHostHasTheNextOne) {
  EXPECT_THAT(choose_partners({"a", "a", "b", "b", "c", "c"}, {}), ElementsAre(2, 3, 4, 5, 0, 1));
  EXPECT_THAT(choose_partners({"a", "b", "a", "b"}, {}), ElementsAre(1, 0, 3, 2)) << "ranks that take turns";
}

TEST(LocalPartners, OneHostHasNone) { EXPECT_THAT(choose_partners({"a", "a", "a"}, {}), Each(-1)); }

TEST(LocalPartners, NoRankIsLeftWithoutOneWhereHostsHaveDifferentNumbers) {
  EXPECT_THAT(choose_partners({"a", "a", "a", "b"}, {}), ElementsAre(3, 3, 3, 0));
}

TEST(LocalPartners, LieInAnotherDomain) {
  const FailureDomains racks{{"a", "left"}, {"b", "left"}, {"c", "right"}, {"d", "right"}};
  EXPECT_THAT(choose_partners({"a", "b", "c", "d"}, racks), ElementsAre(2, 2, 0, 0));
}

TEST(LocalPartners, LieOnAnotherHostWhereAllAreOneDomain) {
  EXPECT_THAT(choose_partners({"a", "b", "c"}, {{"a", "x"}, {"b", "x"}, {"c", "x"}}), ElementsAre(1, 2, 0));
}

TEST(LocalPartners, AHostThatIsNotNamedIsADomainOfItsOwn) {
  EXPECT_THAT(choose_partners({"a", "b", "c"}, {{"a", "x"}, {"b", "x"}}), ElementsAre(2, 2, 0));
}

TEST(LocalPartners, DomainsAreReadFromLines) {
  EXPECT_THAT(parse_failure_domains("a left\n\n# the new ones\n  b\tright  # since May\n", "racks"),
              UnorderedElementsAre(Pair("a", "left"), Pair("b", "right")));
  EXPECT_THAT(parse_failure_domains("", "racks"), IsEmpty());
}

TEST(LocalPartners, AWrongLineIsNamed) {
  EXPECT_THAT([] { static_cast<void>(parse_failure_domains("a left\nb\n", "/etc/racks")); },
              ThrowsMessage<ConfigError>(HasSubstr("/etc/racks, line 2")));
  EXPECT_THAT([] { static_cast<void>(parse_failure_domains("a left wing\n", "racks")); },
              ThrowsMessage<ConfigError>(HasSubstr("line 1")));
}

}  // namespace
}  // namespace reprieve::manager
