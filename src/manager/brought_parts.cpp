// SPDX-License-Identifier: BSD-3-Clause
#include "manager/brought_parts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <utility>

#include "core/file_rights.hpp"
#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "storage/near/part_file.hpp"

namespace reprieve::manager {

namespace {

constexpr std::string_view kUnfinishedSuffix = ".new";
constexpr std::uint64_t kPiece = std::uint64_t{4} << 20U;

/// False if it was told to stop.
bool copy_content(const storage::PosixFile& from, const storage::PosixFile& to,
                  const std::function<bool()>& may_go_on) {
  const std::uint64_t size = from.size();
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(size, kPiece)));
  for (std::uint64_t done = 0; done < size;) {
    if (!may_go_on()) {
      return false;
    }
    const auto now = std::span(piece).first(static_cast<std::size_t>(std::min(size - done, kPiece)));
    from.read_all(now, done);
    to.write_all(now, done);
    done += now.size();
  }
  return may_go_on();
}

/// Nobody is still at it: a node may bring its part at any time.
bool is_abandoned(const core::Directory& place, const std::string& name) {
  constexpr std::time_t kOneDay = std::time_t{24} * 60 * 60;
  const auto status = place.look(name);
  return status && std::time(nullptr) - status->st_mtim.tv_sec > kOneDay;
}

/// A part that is written anew loses its seal before anything else of it changes. So what was read before this was
/// called is all of one copy.
bool is_still(const storage::PosixFile& part, const storage::PartName& name) {
  try {
    return storage::read_part_name(part) == name;
  } catch (const CorruptError&) {
    return false;
  }
}

/// Makes a file in the place of brought parts. Another node that has made a checkpoint removes the place, empty, at any
/// moment: then once more.
std::pair<core::Directory, storage::PosixFile> begin_part(const core::Directory& checkpoints, const std::string& name) {
  constexpr int kMostTries = 20;
  for (int tries = 1;; ++tries) {
    const auto made = checkpoints.make_directory_if_free(kBroughtName, core::kOwnDirectory);
    auto place = checkpoints.find_directory(kBroughtName);
    if (!place && tries == kMostTries) {
      place = checkpoints.open_directory(kBroughtName);
    }
    if (!place) {
      continue;
    }
    try {
      storage::PosixFile file(core::FileAddress(place->path() / name),
                              place->open_file(name, O_WRONLY | O_CREAT | O_TRUNC, core::kOwnFile));
      if (made) {
        checkpoints.sync();
      }
      return {std::move(*place), std::move(file)};
    } catch (const StorageError&) {
      if (tries == kMostTries || place->is_at_its_path()) {
        throw;
      }
    }
  }
}

}  // namespace

std::vector<FoundPart> brought_parts(const core::Directory& checkpoints) {
  const auto place = checkpoints.find_directory(kBroughtName);
  return place ? parts_in(*place) : std::vector<FoundPart>();
}

storage::PosixFile open_brought_part(const core::Directory& checkpoints, const std::string& file) {
  const core::Directory place = checkpoints.open_directory(kBroughtName);
  return {core::FileAddress(place.path() / file), place.open_file(file, O_RDONLY)};
}

std::set<std::string> names_of_brought_parts(const core::Directory& checkpoints) {
  std::set<std::string> names;
  if (const auto place = checkpoints.find_directory(kBroughtName)) {
    for (const core::DirectoryEntry& entry : place->list()) {
      names.insert(entry.name);
    }
  }
  return names;
}

bool bring_part(const storage::PosixFile& part, const FoundPart& found, const core::Directory& checkpoints,
                const std::function<bool()>& may_go_on) {
  // Of this process alone: two of a host may bring the same part.
  const std::string unfinished = fmt::format("{}.{}{}", found.file, ::getpid(), kUnfinishedSuffix);
  auto [place, copy] = begin_part(checkpoints, unfinished);
  try {
    if (!copy_content(part, copy, may_go_on) || !is_still(part, found.name)) {
      place.remove_file(unfinished);
      return false;
    }
    copy.sync();
    copy.close();
    place.rename(unfinished, place, found.file);
  } catch (...) {
    place.remove_file(unfinished);
    throw;
  }
  place.sync();
  return true;
}

void remove_brought_parts(const core::Directory& checkpoints, const std::string& prefix,
                          const storage::SaveIdentity& newest) noexcept {
  try {
    const auto place = checkpoints.find_directory(kBroughtName);
    if (!place) {
      return;
    }
    for (const FoundPart& part : parts_in(*place)) {
      if (part.name.copy.prefix == prefix && !is_newer(part.name.copy.save, newest)) {
        place->remove_file(part.file);
      }
    }
    for (const core::DirectoryEntry& entry : place->list()) {
      if (entry.name.ends_with(kUnfinishedSuffix) && is_abandoned(*place, entry.name)) {
        place->remove_file(entry.name);
      }
    }
    checkpoints.remove_empty_directory(kBroughtName);
  } catch (const std::exception& error) {
    core::log::warning("parts of near copies are left behind: {}", error.what());
  }
}

void remove_brought_parts(const core::Directory& checkpoints, const std::set<std::string>& names) noexcept {
  try {
    const auto place = checkpoints.find_directory(kBroughtName);
    if (!place) {
      return;
    }
    for (const std::string& name : names) {
      place->remove_file(name);
    }
    checkpoints.remove_empty_directory(kBroughtName);
  } catch (const std::exception& error) {
    core::log::warning("parts of near copies are left behind: {}", error.what());
  }
}

}  // namespace reprieve::manager
