// SPDX-License-Identifier: BSD-3-Clause
#include "manager/run_identity.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/log.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::manager {

namespace {

namespace fs = std::filesystem;

/// Save counters are taken from the record in such portions, so that a save need not write it.
constexpr std::uint64_t kPortion = 64;

/// The identities of all checkpoints that can be read, of every prefix, and of those that were quarantined.
std::vector<storage::SaveIdentity> identities_in(const fs::path& directory) {
  std::vector<storage::SaveIdentity> found;
  for (const fs::path& path : regular_files(directory)) {
    if (!is_checkpoint_name(path) && !is_quarantined_name(path)) {
      continue;
    }
    try {
      if (auto identity = storage::read_metadata(path).identity) {
        found.push_back(std::move(*identity));
      }
    } catch (const Error& error) {
      core::log::debug("{} has no counters: {}", path.string(), error.what());  // the restore reports what is corrupt
    }
  }
  return found;
}

/// Without a record, a directory is the one whose checkpoints are in it, if they are all of one: its record was lost,
/// or not copied with them.
std::string id_for(const std::vector<storage::SaveIdentity>& identities) {
  std::set<std::string> ids;
  for (const storage::SaveIdentity& identity : identities) {
    ids.insert(identity.directory_id);
  }
  return ids.size() == 1 ? *ids.begin() : make_random_id();
}

}  // namespace

RunIdentity::RunIdentity(const core::Directory& directory, std::string prefix, bool durable)
    : directory_(directory), prefix_(std::move(prefix)), durable_(durable) {
  const std::vector<storage::SaveIdentity> identities = identities_in(directory_.path());
  auto record = read_directory_record(directory_);
  const bool is_new = !record;
  if (record) {
    record_ = std::move(*record);
  } else {
    record_.id = id_for(identities);
  }
  last_save_ = record_.saves;
  for (const storage::SaveIdentity& identity : identities) {
    if (identity.directory_id == record_.id) {
      record_.run = std::max(record_.run, identity.run);
      last_save_ = std::max(last_save_, identity.save);
    }
  }
  ++record_.run;
  own_.launch = make_random_id();
  record_.saves = last_save_ + kPortion;
  write_or_warn(durable_ && !is_new);  // the first checkpoint carries all that a new one says
}

void RunIdentity::write_or_warn(bool durable) noexcept {
  core::log::or_warn("the counters of the checkpoint directory are not written",
                     [&] { write_directory_record(directory_, record_, durable); });
}

storage::SaveIdentity RunIdentity::next_save() {
  ++last_save_;
  if (last_save_ > record_.saves) {
    record_.saves = last_save_ + kPortion - 1;
    write_or_warn(durable_);
  }
  return {record_.id, record_.run, last_save_};
}

void RunIdentity::set_start(const storage::LocalCopy& copy) {
  own_.from_launch = copy.launch;
  own_.from_save = copy.save.save;
}

void RunIdentity::begin_copies(const Commit& newest) {
  takes_copies_ = true;
  own_.newest = newest;
  if (record_.launches[prefix_] != own_) {
    record_.launches[prefix_] = own_;
    write_directory_record(directory_, record_, durable_);
  }
}

/// Null: no launch has taken copies here, or this commit says nothing new of them. In a launch without copies, the
/// first one makes those of earlier launches void, and the later ones need no record.
LaunchRecord* RunIdentity::record_for(const Commit& commit) {
  const auto last = record_.launches.find(prefix_);
  const bool is_own = commit.run == record_.run;
  const bool counts =
      last != record_.launches.end() && (takes_copies_ || !is_own || last->second.launch != own_.launch);
  return counts ? &last->second : nullptr;
}

void RunIdentity::begin_commit(const Commit& commit, std::int64_t time_us) noexcept {
  if (LaunchRecord* const last = record_for(commit)) {
    const bool is_one = commit.save != 0;
    last->next = is_one ? std::optional(commit) : std::nullopt;
    last->next_time_us = is_one ? std::optional(time_us) : std::nullopt;
    write_or_warn(false);  // after a power cut there are no copies
  }
}

void RunIdentity::note_commit(const Commit& commit) {
  own_.newest = commit;
  if (LaunchRecord* const last = record_for(commit)) {
    if (commit.run == record_.run) {
      *last = own_;
    }
    last->newest = commit;
    last->next.reset();
    last->next_time_us.reset();
    write_or_warn(durable_);
  }
}

std::optional<FinishedRun> RunIdentity::finished() const {
  const auto found = record_.finished.find(prefix_);
  return found == record_.finished.end() ? std::nullopt : std::optional(found->second);
}

void RunIdentity::set_finished(const FinishedRun& mark) {
  record_.finished[prefix_] = mark;
  write_directory_record(directory_, record_, durable_);
}

void RunIdentity::clear_finished() noexcept {
  if (record_.finished.erase(prefix_) > 0) {
    write_or_warn(durable_);
  }
}

void RunIdentity::close() noexcept {
  if (record_.saves != last_save_) {
    record_.saves = last_save_;
    write_or_warn(durable_);
  }
}

FinishedRun mark_of_end(CheckpointDirectory& directory, const RunIdentity& identity, std::uint64_t run_calls) {
  const std::vector<OrderEntry> entries = directory.in_order(identity.directory_id());
  return entries.empty() ? FinishedRun{run_calls} : FinishedRun{run_calls, entries.back().run, entries.back().save};
}

}  // namespace reprieve::manager
