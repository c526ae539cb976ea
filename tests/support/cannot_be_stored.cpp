// SPDX-License-Identifier: BSD-3-Clause
// Does not compile: the compiler must say what to do.

#include "reprieve/checkpoint.hpp"

struct Particle {
  double position;
};

void mistake(reprieve::Checkpoint& state, Particle& particle) { state.add_replicated("particle", particle); }
