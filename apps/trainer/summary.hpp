// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The result of a run as JSON, for scripts.

#include "common/summary.hpp"
#include "trainer/digest.hpp"
#include "trainer/training.hpp"

namespace trainer {

struct Summary : apps::Outcome {
  Progress progress;
  Evaluation evaluation;
  Digests digests;
};

/// Collective; the digests are the chief's.
Summary summary_of(const Training& training);

/// apps/trainer/README.md describes the keys.
apps::Json to_json(const Summary& summary);

}  // namespace trainer
