// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "reprieve/annotation.hpp"
#include "reprieve/element_type.hpp"
#include "reprieve/error.hpp"
#include "reprieve/record.hpp"
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
  std::ranges::replace_if(shown, is_control, '?');
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

constexpr std::size_t kMaxUnitsBytes = 255;
constexpr std::size_t kMaxDescriptionBytes = 4096;

[[noreturn]] void refuse(const std::string& name, const std::string& problem) {
  throw UsageError("variable '" + name + "': " + problem);
}

void check_text(const std::string& name, const char* what, const std::string& text, std::size_t most_bytes) {
  if (text.size() > most_bytes) {
    refuse(name, fmt::format("{} of {} bytes; at most {} are allowed", what, text.size(), most_bytes));
  }
  if (text.find('\0') != std::string::npos) {
    refuse(name, std::string(what) + " with a null byte");
  }
}

/// HDF5 describes a struct in a message of its own, of at most 64 KiB.
constexpr std::size_t kMostListBytes = std::size_t{32} << 10U;
constexpr std::size_t kBytesPerMember = 64;
constexpr std::size_t kMostMemberDimensions = 4;
constexpr int kMostLevels = 8;

/// Bytes of a member, arrays as a whole; nothing if that cannot be.
std::optional<std::uint64_t> bytes_of(const Member& member, std::uint64_t most) {
  std::uint64_t bytes = member.type.size_bytes;
  for (const std::uint64_t length : member.shape) {
    if (length == 0 || bytes == 0 || length > most / bytes) {
      return std::nullopt;
    }
    bytes *= length;
  }
  return bytes == 0 || bytes > most ? std::nullopt : std::optional(bytes);
}

class ListCheck {
 public:
  void run(const Members& members, std::uint64_t size_bytes, int level) {
    if (level > kMostLevels) {
      throw UsageError("a struct in a struct, more than " + std::to_string(kMostLevels) + " times");
    }
    std::set<std::string> names;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (const Member& member : members) {
      check_name_of(member, names);
      const auto bytes = bytes_of(member, size_bytes);
      if (!bytes || member.offset > size_bytes - *bytes || member.shape.size() > kMostMemberDimensions) {
        throw UsageError("the member '" + member.name + "' does not lie in " + std::to_string(size_bytes) + " bytes");
      }
      ranges.emplace_back(member.offset, member.offset + *bytes);
      if (!member.members.empty()) {
        run(member.members, member.type.size_bytes, level + 1);
      }
    }
    std::ranges::sort(ranges);
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].first < ranges[i - 1].second) {
        throw UsageError("two members share the byte " + std::to_string(ranges[i].first));
      }
    }
  }

 private:
  void check_name_of(const Member& member, std::set<std::string>& names) {
    check_name(member.name);
    if (!names.insert(member.name).second) {
      throw UsageError("two members are called '" + member.name + "'");
    }
    list_bytes_ += member.name.size() + kBytesPerMember;
    if (list_bytes_ > kMostListBytes) {
      throw UsageError("more members than HDF5 can hold");
    }
  }

  std::size_t list_bytes_ = 0;
};

}  // namespace

const char* to_string(Distribution distribution) noexcept {
  static constexpr const char* kNames[] = {"replicated", "distributed", "per_rank"};
  const auto number = static_cast<std::size_t>(distribution);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

void check_registered_name(const std::string& name) {
  check_name(name);
  if (std::string_view(name).substr(0, name.find('/')) == kReservedPart) {
    throw UsageError(
        fmt::format("variable name {} begins with the part '{}', which is reserved", printable(name), kReservedPart));
  }
}

void check_name(const std::string& name) {
  if (name.empty()) {
    throw UsageError("a variable name must not be empty");
  }
  if (name.size() > kMaxNameBytes) {
    throw UsageError(fmt::format("variable name {} is {} bytes long; at most {} are allowed", printable(name),
                                 name.size(), kMaxNameBytes));
  }
  if (std::ranges::any_of(name, is_control)) {
    throw UsageError("variable name " + printable(name) + " holds a control character");
  }
  std::string_view rest = name;
  for (auto slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    check_part(name, rest.substr(0, slash));
    rest.remove_prefix(slash + 1);
  }
  check_part(name, rest);
}

void check_annotation(const std::string& name, const Annotation& annotation) {
  check_text(name, "units", annotation.units, kMaxUnitsBytes);
  check_text(name, "a description", annotation.description, kMaxDescriptionBytes);
  const auto& dims = annotation.dims;
  for (auto dim = dims.begin(); dim != dims.end(); ++dim) {
    try {
      check_name(*dim);
    } catch (const UsageError& error) {
      refuse(name, std::string("the name of a dimension is like that of a variable: ") + error.what());
    }
    if (dim->find('/') != std::string::npos) {
      refuse(name, "the name of dimension '" + *dim + "' holds a '/'");
    }
    if (std::find(dims.begin(), dim, *dim) != dim) {
      refuse(name, "two dimensions are called '" + *dim + "'");
    }
  }
}

void check_dimension_names(const std::string& name, const Annotation& annotation, std::size_t dimensions) {
  if (!annotation.dims.empty() && annotation.dims.size() != dimensions) {
    refuse(name, fmt::format("{} names of dimensions were given, but it has {} dimensions", annotation.dims.size(),
                             dimensions));
  }
}

void check_members(const std::string& name, const Members& members, ElementType type) {
  try {
    if (!members.empty() && type.element_class != ElementClass::opaque) {
      throw UsageError("elements of type " + to_string(type) + " have no members");
    }
    ListCheck().run(members, type.size_bytes, 1);
  } catch (const UsageError& error) {
    throw UsageError("variable '" + name + "': in its list of members: " + error.what());
  }
}

std::string to_string(const Member& member) {
  std::string text = member.members.empty() ? reprieve::to_string(member.type)
                                            : "struct of " + std::to_string(member.type.size_bytes) + " bytes";
  for (const std::uint64_t length : member.shape) {
    text += "[" + std::to_string(length) + "]";
  }
  return text + " at byte " + std::to_string(member.offset);
}

}  // namespace reprieve::state

namespace reprieve {

std::string to_string(ElementType type) {
  static constexpr const char* kNames[] = {"bool", "int", "uint", "float", "complex", "opaque", "text"};
  const auto number = static_cast<std::size_t>(type.element_class);
  if (number >= std::size(kNames)) {
    return "unknown";
  }
  const bool is_number =
      type.element_class >= ElementClass::signed_integer && type.element_class <= ElementClass::complex;
  if (type.size_bytes == 1 && !is_number) {
    return kNames[number];
  }
  return type.element_class == ElementClass::text ? "text[" + std::to_string(type.size_bytes) + "]"
                                                  : kNames[number] + std::to_string(std::uint64_t{type.size_bytes} * 8);
}

}  // namespace reprieve
