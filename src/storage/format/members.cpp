// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/members.hpp"

#include <algorithm>

namespace reprieve::storage {

namespace {

/// A member as differences name it.
struct Flat {
  std::string name;
  std::string text;
};

/// Those of structs in structs after these: "position.x".
void flatten(const Members& members, const std::string& prefix, std::vector<Flat>& flat) {
  for (const Member& member : members) {
    flat.push_back({prefix + member.name, state::to_string(member)});
    flatten(member.members, prefix + member.name + ".", flat);
  }
}

const Flat* find(const std::vector<Flat>& flat, const std::string& name) {
  const auto found = std::find_if(flat.begin(), flat.end(), [&](const Flat& member) { return member.name == name; });
  return found == flat.end() ? nullptr : &*found;
}

/// In the type of the dataset and in the manifest.
std::uint64_t most_bytes(const Members& members) {
  constexpr std::uint64_t per_member = 512;
  std::uint64_t bytes = 0;
  for (const Member& member : members) {
    bytes += per_member + 8 * member.name.size() + most_bytes(member.members);
  }
  return bytes;
}

}  // namespace

std::string members_difference(const Members& own, const Members& other, const std::string& others) {
  std::vector<Flat> mine;
  std::vector<Flat> theirs;
  flatten(own, "", mine);
  flatten(other, "", theirs);
  std::string text;
  const auto add = [&](const std::string& name, const std::string& what) {
    text += (text.empty() ? "" : ", ");
    text += "'" + name + "' " + what;
  };
  for (const Flat& member : mine) {
    const Flat* const same = find(theirs, member.name);
    if (same == nullptr) {
      add(member.name, member.text + " (" + others + ": none)");
    } else if (same->text != member.text) {
      add(member.name, member.text + " (" + others + ": " + same->text + ")");
    }
  }
  for (const Flat& member : theirs) {
    if (find(mine, member.name) == nullptr) {
      add(member.name, "none (" + others + ": " + member.text + ")");
    }
  }
  return text;
}

std::uint64_t most_member_bytes(const FileIndex& index) {
  std::uint64_t bytes = 0;
  for (const StoredVariable& variable : index.variables) {
    bytes += most_bytes(variable.members);
  }
  return bytes;
}

}  // namespace reprieve::storage
