// SPDX-License-Identifier: BSD-3-Clause
// The side file for ParaView, of real checkpoints.

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "manager_fixture.hpp"
#include "reprieve/xdmf.hpp"

namespace reprieve::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// A field over all ranks, what is not shown, and the time.
class XdmfOfCheckpoints : public testing::Test {
 protected:
  XdmfOfCheckpoints() {
    const auto rank = static_cast<std::uint64_t>(world_rank());
    const auto size = static_cast<std::uint64_t>(world_size());
    state_.add_distributed("field", field_.data(),
                           {.global_shape = {2 * size, 3}, .offset = {2 * rank, 0}, .extent = {2, 3}});
    state_.add_distributed("flags", flags_.data(),
                           {.global_shape = {2 * size, 3}, .offset = {2 * rank, 0}, .extent = {2, 3}});
    state_.add_replicated("time", time_);
    state_.add_replicated("table", table_);
  }

  /// On rank 0 alone; the others wait, so that no test continues before.
  XdmfReport describe(const XdmfOptions& options = {}) {
    XdmfReport report;
    on_rank_0([&] { report = write_xdmf(directory_ / "run", file(), options); });
    return report;
  }

  [[nodiscard]] std::filesystem::path file() const { return directory_ / "run/a.xdmf"; }

  SharedTemporaryDirectory directory_;
  std::array<float, 6> field_{};
  std::array<bool, 6> flags_{};
  double time_ = 0;
  std::vector<double> table_ = std::vector<double>(5);
  Checkpoint state_;
};

TEST_F(XdmfOfCheckpoints, TheNumberIsTheTimeUnlessAnotherIsNamed) {
  CheckpointManager manager(MPI_COMM_WORLD, state_, directory_ / "run", {});
  manager.save(17);
  describe();
  on_rank_0([&] {
    EXPECT_THAT(text_of(file()), HasSubstr(R"(<Time Value="17"/>)"));
    EXPECT_THROW(write_xdmf(directory_ / "run", file(), {.time_variable = "tmie"}), UsageError);
    EXPECT_THROW(write_xdmf(directory_ / "run", file(), {.time_variable = "table"}), UsageError);
    EXPECT_THROW(write_xdmf(directory_ / "run", file(), {.time_variable = "field"}), UsageError);
    EXPECT_THAT(text_of(file()), HasSubstr(R"(<Time Value="17"/>)")) << "the file from before";
  });
}

TEST_F(XdmfOfCheckpoints, LeavesOutWhatCannotBeRead) {
  CheckpointManager manager(MPI_COMM_WORLD, state_, directory_ / "run", {});
  manager.save(1);
  manager.save(2);
  on_rank_0([&] {
    std::filesystem::resize_file(directory_ / "run/ckpt-1.h5", 1000);
    EXPECT_EQ(write_xdmf(directory_ / "run", file()).checkpoints, 1U);
    EXPECT_THAT(text_of(file()), Not(HasSubstr("ckpt-1.h5")));
  });
}

TEST_F(XdmfOfCheckpoints, AFileElsewhereNamesTheCheckpointsFromThere) {
  CheckpointManager manager(MPI_COMM_WORLD, state_, directory_ / "run", {});
  manager.save(1);
  on_rank_0([&] {
    write_xdmf(directory_ / "run", directory_ / "b.xdmf");
    EXPECT_THAT(text_of(directory_ / "b.xdmf"), HasSubstr(">run/ckpt-1.h5:/state/field<"));
  });
}

}  // namespace
}  // namespace reprieve::test
