// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string_view>

#include "reprieve/error.hpp"
#include "state/registry.hpp"

namespace reprieve::state {

namespace {

constexpr std::size_t kMaxNameBytes = 255;

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

/// The name as it can be shown in a message: control characters as `?`, long names cut.
std::string printable(std::string_view name) {
  std::string shown(name.substr(0, kMaxNameBytes));
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return "'" + shown + (name.size() > kMaxNameBytes ? "...'" : "'");
}

void check_part(const std::string& name, std::string_view part) {
  if (part.empty()) {
    throw UsageError("variable name " + printable(name) +
                     " has an empty part: parts are separated by one '/', with none at the start or the end");
  }
  if (part == "." || part == "..") {
    throw UsageError("variable name " + printable(name) + " has the part '" + std::string(part) +
                     "', which is not allowed");
  }
}

}  // namespace

const char* to_string(Distribution distribution) noexcept {
  switch (distribution) {
    case Distribution::replicated:
      return "replicated";
    case Distribution::distributed:
      return "distributed";
    case Distribution::per_rank:
      return "per_rank";
  }
  return "unknown";
}

void check_registered_name(const std::string& name) {
  check_name(name);
  if (std::string_view(name).substr(0, name.find('/')) == kReservedPart) {
    throw UsageError("variable name " + printable(name) + " begins with the part '" + std::string(kReservedPart) +
                     "', which is reserved");
  }
}

void check_name(const std::string& name) {
  if (name.empty()) {
    throw UsageError("a variable name must not be empty");
  }
  if (name.size() > kMaxNameBytes) {
    throw UsageError("variable name " + printable(name) + " is " + std::to_string(name.size()) +
                     " bytes long; at most " + std::to_string(kMaxNameBytes) + " are allowed");
  }
  if (std::any_of(name.begin(), name.end(), is_control)) {
    throw UsageError("variable name " + printable(name) + " holds a control character");
  }
  std::string_view rest = name;
  for (auto slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    check_part(name, rest.substr(0, slash));
    rest.remove_prefix(slash + 1);
  }
  check_part(name, rest);
}

}  // namespace reprieve::state
