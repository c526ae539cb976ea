// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#define DECLARE_PART(name)               \
  namespace name {                       \
  bool saves(const std::string& folder); \
  void fails();                          \
  bool catches(void (*other)());         \
  }
DECLARE_PART(first)
DECLARE_PART(second)
