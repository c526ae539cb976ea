/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

/// @file
/// Marks what belongs to the interface of the shared library; all else in it is hidden. For C and C++.

#if defined(__GNUC__)
#define REPRIEVE_EXPORT __attribute__((visibility("default")))
#else
#define REPRIEVE_EXPORT
#endif
