// SPDX-License-Identifier: BSD-3-Clause
// What the trainer registers, and per-rank state on another number of ranks.

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/text.hpp"
#include "reprieve/error.hpp"
#include "reprieve/serializer.hpp"
#include "support/saved_pieces.hpp"
#include "trainer/report.hpp"
#include "trainer/state.hpp"

namespace trainer {
namespace {

using Pieces = reprieve::test::SavedPieces;

constexpr reprieve::ElementType kOpaque{reprieve::ElementClass::opaque, 1};

Pieces engines(int count) {
  std::vector<apps::Bytes> pieces;
  for (int rank = 0; rank < count; ++rank) {
    pieces.push_back(reprieve::Serializer<std::mt19937_64>::save(noise_engine_of(1, rank)));
  }
  return {kOpaque, std::move(pieces)};
}

apps::Bytes sums_bytes(double loss, double samples) {
  const std::array<double, 2> sums{loss, samples};
  apps::Bytes bytes(sizeof(sums));
  std::memcpy(bytes.data(), sums.data(), sizeof(sums));
  return bytes;
}

TEST(TrainerState, IsRegisteredUnderReadableNames) {
  const Model model({64, 8, 10});
  TrainingState state{.parameters = std::vector<double>(model.parameter_count()),
                      .sampler = Sampler(100, 1),
                      .progress = {},
                      .history = {},
                      .optimizer = Optimizer(OptimizerKind::adam, 0.1, model.parameter_count()),
                      .noise_engine = noise_engine_of(1, 0)};
  reprieve::Checkpoint checkpoint;
  register_state(checkpoint, state, model, {0, model.parameter_count()});
  for (const char* name : {"model/layer1/weights", "model/layer2/biases", "optimizer/first_moment",
                           "optimizer/second_moment", "data/shuffle_engine", "progress/epoch", "rank/noise_engine"}) {
    EXPECT_TRUE(checkpoint.contains(name)) << name;
  }
}

TEST(NoiseEngines, DifferByRankAndBySeed) {
  std::set<std::uint64_t> first_values;
  for (std::uint64_t seed : {1ULL, 2ULL, 1ULL << 40U}) {
    for (int rank = 0; rank < 8; ++rank) {
      first_values.insert(noise_engine_of(seed, rank)());
    }
  }
  EXPECT_EQ(first_values.size(), 24U);
}

TEST(NoiseEngines, OldRanksKeepTheirs) {
  const Pieces saved = engines(4);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(redistribute_engine(saved, rank), noise_engine_of(1, rank));
  }
}

TEST(NoiseEngines, NewRanksGetOnesThatNobodyHas) {
  const Pieces saved = engines(3);
  std::set<std::uint64_t> first_values;
  for (int rank = 0; rank < 9; ++rank) {
    auto engine = redistribute_engine(saved, rank);
    EXPECT_EQ(engine, redistribute_engine(saved, rank));
    first_values.insert(engine());
  }
  EXPECT_EQ(first_values.size(), 9U);
}

TEST(EpochSums, KeepTheirTotal) {
  const Pieces saved(kOpaque, {sums_bytes(1.5, 10), sums_bytes(2.25, 11), sums_bytes(4, 12)});
  EXPECT_EQ(redistribute_sums(saved, 0), (std::array<double, 2>{7.75, 33}));
  EXPECT_EQ(redistribute_sums(saved, 1), (std::array<double, 2>{0, 0}));
}

TEST(EpochSums, OfAnotherSizeAreAnError) {
  EXPECT_THROW(redistribute_sums(Pieces(kOpaque, {apps::Bytes(3)}), 0), reprieve::MismatchError);
}

TEST(Summary, HasItsKeysWhateverHappened) {
  Summary summary;
  summary.digests.all = 0xabc;
  auto json = nlohmann::json::parse(apps::text_of(to_json(summary)));
  EXPECT_EQ(json.at("status"), "finished");
  EXPECT_EQ(json.at("state_digest"), "0000000000000abc");
  EXPECT_TRUE(json.at("restored_from").is_null());
  EXPECT_TRUE(json.at("preemption").is_null());

  summary.restored_from = "ckpt-7.h5";
  summary.preemption = apps::Preemption{{2, "node", "signal SIGTERM", "", {}, {}}, 12, 0.25, "d/ckpt-12.h5"};
  json = nlohmann::json::parse(apps::text_of(to_json(summary)));
  EXPECT_EQ(json.at("status"), "preempted");
  EXPECT_EQ(json.at("restored_from"), "ckpt-7.h5");
  EXPECT_EQ(json.at("preemption").at("rank"), 2);
  EXPECT_EQ(json.at("preemption").at("save_step"), 12);
  EXPECT_EQ(json.at("preemption").at("seconds_from_notice_to_commit"), 0.25);
}

TEST(Report, Durations) {
  using std::chrono::seconds;
  EXPECT_EQ(apps::format_duration(seconds(0)), "0.0 s");
  EXPECT_EQ(apps::format_duration(std::chrono::milliseconds(9949)), "9.9 s");
  EXPECT_EQ(apps::format_duration(std::chrono::milliseconds(9951)), "10 s");
  EXPECT_EQ(apps::format_duration(seconds(59)), "59 s");
  EXPECT_EQ(apps::format_duration(seconds(185)), "3:05");
  EXPECT_EQ(apps::format_duration(seconds(3723)), "1:02:03");
}

}  // namespace
}  // namespace trainer
