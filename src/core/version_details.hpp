// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "reprieve/version_details.hpp"

namespace reprieve::core {

/// What the build knows: all but the MPI that is running.
[[nodiscard]] VersionDetails built_details();

}  // namespace reprieve::core
