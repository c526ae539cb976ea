// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/record.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "reprieve/error.hpp"
#include "state/registry.hpp"

namespace reprieve::state {

namespace {

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
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    for (const Member& member : members) {
      check_name_of(member, names);
      const auto bytes = bytes_of(member, size_bytes);
      if (!bytes || member.offset > size_bytes - *bytes || member.shape.size() > kMostMemberDimensions) {
        throw UsageError("the member '" + member.name + "' does not lie in " + std::to_string(size_bytes) + " bytes");
      }
      places.emplace_back(member.offset, member.offset + *bytes);
      if (!member.members.empty()) {
        run(member.members, member.type.size_bytes, level + 1);
      }
    }
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (places[i].first < places[i - 1].second) {
        throw UsageError("two members share the byte " + std::to_string(places[i].first));
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
