// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The library's version. CMakeLists.txt reads the three numbers from here, so they are stated once.

#define REPRIEVE_VERSION_MAJOR 1
#define REPRIEVE_VERSION_MINOR 0
#define REPRIEVE_VERSION_PATCH 0

/// Version as text, "major.minor.patch".
#define REPRIEVE_VERSION "1.0.0"
