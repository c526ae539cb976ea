// SPDX-License-Identifier: BSD-3-Clause
// Node-local copies: the state in the memory of the nodes, for the crash that is not the end of the job.
//
// 1. At a step boundary all ranks agree how the copy before has ended. If it is complete on all of them, the slot of
//    the one before that is free: two slots take turns. If a rank is still at work, this copy is left out. If one has
//    failed, its slot is written again, and the older copy stays.
// 2. Rank 0 gives the copy the identity that a save would have: directory, run, save; and number, step and time.
//    The file is laid out as for a save, but not made.
// 3. Every rank takes the commit record of its slot away, and copies its part of the state there. The
//    program continues.
// 4. A thread of each rank takes the checksums and writes head, tables and commit record. There is no commit: a copy is
//    complete when all of its parts have their commit records (local_finish.cpp).
// 5. With partners, the complete part goes to a rank of another host too (local_transfer.cpp), in pieces at the
//    boundaries of the next steps, which makes the same file there. A partner that has no room for it is no failure.
// 6. A copy that is still on its way keeps its slot, and the copy before keeps the other one: the partners have that
//    one alone. Newer copies go to a third slot, which is never sent, if there is room for it.
//
// So at every moment all parts of one copy that is complete are there, from the end of the first one on. A rank that
// dies at any point takes nothing away from the copy before.

#include "manager/local_copies.hpp"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

#include "core/events.hpp"
#include "core/log.hpp"
#include "manager/checkpoint_list.hpp"
#include "manager/save.hpp"
#include "reprieve/error.hpp"

namespace reprieve::manager {

namespace {

constexpr const char* kTaking = "taking a node-local copy";
/// For what is still on its way to a partner: the checkpoint is newer, or the next start has this rank's own part.
constexpr std::chrono::milliseconds kLongestWaitAtEnd{5'000};
/// What a part takes besides its data, mostly.
constexpr std::size_t kTableBytes = std::size_t{32} << 10U;
/// The log reports a complete copy so often, at most; and each of the first ones.
constexpr std::chrono::seconds kNewsInterval{60};
constexpr std::size_t kUnsentSlot = kLocalSlots - 1;

std::string read_domains(const std::string& file) {
  constexpr std::size_t kMostDomainBytes = std::size_t{16} << 20U;
  const std::filesystem::path path(file);
  return core::Directory::open(path.parent_path()).read_text(path.filename().string(), kMostDomainBytes);
}

}  // namespace

bool is_first_of_host(const cluster::Communicator& comm) {
  for (int rank = 0; rank < comm.rank(); ++rank) {
    if (comm.host_of(rank) == comm.host()) {
      return false;
    }
  }
  return true;
}

/// How the copy before has ended; the worst of all ranks counts. While one is at work its slot must not change,
/// whatever has failed elsewhere.
enum class LocalCopies::Last : std::int64_t { none, complete, failed, at_work };
/// The same for the copy that went to the partners.
enum class LocalCopies::Sent : std::int64_t { complete, refused, under_way };

LocalOwner LocalOwner::of(CheckpointManager::Impl& manager) {
  const auto own = [&] {
    const RunIdentity& identity = *manager.identity;
    return LocalOwner{identity.directory_id(), manager::directory_key(manager.directory.opened()), identity.launch(),
                      identity.run()};
  };
  return manager.comm.from_rank_0(own, kTaking);
}

std::unique_ptr<LocalCopies> LocalCopies::make(CheckpointManager::Impl& manager) {
  try {
    return manager.comm.together([&] { return std::make_unique<LocalCopies>(manager); }, kTaking);
  } catch (const StorageError& error) {
    const std::uint64_t failures = manager.local_failures++;
    if (manager.comm.is_rank_0() && (failures & (failures + 1)) == 0) {
      core::log::warning("no node-local copy was taken ({} so far): {}", failures + 1, error.what());
    }
    return nullptr;
  }
}

namespace {

/// The ranks of a node share it: one makes it, and the others find it.
core::Directory make_node_directory(cluster::Communicator& comm, const NodeDirectory& node_directory) {
  std::optional<core::Directory> made;
  const bool is_first = is_first_of_host(comm);
  for (const bool first : {true, false}) {
    comm.agree(core::capture([&] {
                 if (is_first == first) {
                   made.emplace(node_directory.make());
                 }
               }),
               kTaking);
  }
  return std::move(*made);
}

}  // namespace

LocalCopies::LocalCopies(CheckpointManager::Impl& manager)
    : manager_(manager),
      owner_(LocalOwner::of(manager)),
      node_directory_(owner_.node_directory(manager.options)),
      directory_(make_node_directory(manager.comm, node_directory_)),
      emergency_save_(std::make_shared<EmergencySave>(
          manager.directory.opened(), node_directory_,
          EmergencySave::Rank{owner_.launch, manager.comm.rank(), manager.comm.size()})) {
  manager.comm.on_rank_0([&] { manager.identity->begin_copies(manager.newest_committed()); }, kTaking);
  if (manager.options.local_partner) {
    find_partners();
  }
}

void LocalCopies::find_partners() {
  cluster::Communicator& comm = manager_.comm;
  core::Bytes text;
  comm.on_rank_0(
      [&] {
        if (!manager_.options.local_domains.empty()) {
          text = core::to_bytes(read_domains(manager_.options.local_domains));
        }
      },
      kTaking);
  comm.broadcast(text, 0, kTaking);
  std::vector<std::string> hosts;
  hosts.reserve(static_cast<std::size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) {
    hosts.push_back(comm.host_of(rank));
  }
  const auto partners =
      choose_partners(hosts, parse_failure_domains(core::to_text(text), manager_.options.local_domains));
  const bool is_possible = partners.front() >= 0;
  if (is_possible && comm.max(directory_.is_in_memory() ? 0 : 1, kTaking) == 0) {
    transfer_ = std::make_unique<LocalTransfer>(comm, directory_, owner_.launch, partners);
    kept_ = transfer_->kept();
  } else if (comm.is_rank_0()) {
    core::log::warning("local_partner has no effect: {}",
                       is_possible ? "local_directory is not in memory" : "all ranks run on one host");
  }
}

LocalCopies::~LocalCopies() {
  if (task_ && !task_->wait_for(manager_.options.io_timeout)) {
    core::log::error("a node-local copy is not complete after {} s", manager_.options.io_timeout.count() / 1000);
  }
}

void LocalCopies::wait() { wait(manager_.comm.timeout()); }

void LocalCopies::wait(std::chrono::milliseconds limit) {
  if (task_) {
    static_cast<void>(task_->wait_for(limit));
  }
  if (is_under_way()) {
    advance();
    if (!transfer_->wait(limit)) {
      core::log::warning("a node-local copy is not at its partner after {} s", limit.count() / 1000);
    }
  }
}

void LocalCopies::advance() {
  if (!is_under_way()) {
    return;
  }
  if (!transfer_->is_sent() && task_ && task_->done()) {
    send_part();
  }
  transfer_->advance();
}

/// The partner waits for an offer: what fails on this rank alone becomes one of nothing.
void LocalCopies::send_part() {
  const auto slot = static_cast<int>(slot_);
  try {
    transfer_->send(task_->outcome() ? nullptr : slots_.at(slot_), slot);
  } catch (const StorageError& error) {
    core::log::warning("a node-local copy cannot be sent: {}", error.what());
    transfer_->send(nullptr, slot);
  } catch (const std::bad_alloc&) {
    transfer_->send(nullptr, slot);
  }
}

LocalCopies::Last LocalCopies::state_of_last() const {
  if (emergency_save_->is_at_work() || (task_ && !task_->done())) {
    return Last::at_work;
  }
  if (last_has_failed_ || (task_ && task_->outcome())) {
    return Last::failed;
  }
  return task_ ? Last::complete : Last::none;
}

/// Step 1. False if a rank is still at work.
bool LocalCopies::agree_on_last() {
  const Last mine = state_of_last();
  const auto worst = static_cast<Last>(manager_.comm.max(static_cast<std::int64_t>(mine), kTaking));
  if (worst == Last::at_work) {
    return false;
  }
  agree_on_transfer();
  if (worst == Last::failed) {
    const core::Outcome outcome = task_ ? task_->outcome() : core::Outcome();
    task_.reset();
    last_has_failed_ = false;
    manager_.comm.agree(outcome, kTaking);  // and the slot is written again
  }
  if (worst == Last::complete) {
    task_.reset();
    if (slot_ == next_) {
      next_ = 1 - next_;
    }
    if (++completed_ == 1 && is_first_of_host(manager_.comm)) {
      node_directory_.remove_left_overs(owner_.launch);
    }
    report_complete();
  }
  return true;
}

/// How the copy that was sent has ended, if it has. All own parts are complete, so that it is on its way at least.
void LocalCopies::agree_on_transfer() {
  if (!is_sending_) {
    return;
  }
  advance();
  const Sent mine = is_under_way() ? Sent::under_way : transfer_->partner_has_it() ? Sent::complete : Sent::refused;
  const auto worst = static_cast<Sent>(manager_.comm.max(static_cast<std::int64_t>(mine), kTaking));
  is_sending_ = worst == Sent::under_way;
  if (worst == Sent::refused) {
    report_missing_partner();
  }
  if (worst == Sent::complete) {
    at_partner_ = sent_;
  }
}

/// Step 2, the identity: the same on every rank.
storage::FileMetadata LocalCopies::agree_on_metadata(const CheckpointManager::SaveRequest& request) {
  using Agreed = std::tuple<std::uint64_t, std::uint64_t, std::int64_t>;  // number, save, time
  storage::FileMetadata metadata;
  const auto agree = [&] {
    metadata.constants = manager_.constants();
    return Agreed{manager_.choose_number(request), manager_.identity->next_save().save, wall_clock_us()};
  };
  std::uint64_t save = 0;
  std::tie(metadata.number, save, metadata.time_us) = manager_.comm.from_rank_0(agree, kTaking);
  metadata.identity = storage::SaveIdentity{owner_.directory_id, owner_.run, save};
  metadata.run_calls = request.run_calls;
  metadata.world_size = manager_.comm.size();
  metadata.reason = request.reason;
  return metadata;
}

/// What rank 0 alone knows besides: the newest checkpoint, and the structure of the file.
storage::LocalCopy LocalCopies::name_copy(const storage::FileMetadata& metadata, std::uint64_t layout_digest) {
  using Known = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // digest, and the newest checkpoint
  const auto know = [&] {
    const Commit newest = manager_.newest_committed();
    return Known{layout_digest, newest.run, newest.save};
  };
  const auto [layout, known_run, known_save] = manager_.comm.from_rank_0(know, kTaking);
  return {.save = *metadata.identity,
          .launch = owner_.launch,
          .directory_key = owner_.directory_key,
          .prefix = manager_.options.prefix,
          .number = metadata.number,
          .run_calls = metadata.run_calls,
          .time_us = metadata.time_us,
          .ranks = metadata.world_size,
          .layout_digest = layout,
          .known_run = known_run,
          .known_save = known_save};
}

bool LocalCopies::has_lost_files() {
  const auto is_lost = [](const auto& slot) { return slot && !slot->has_name(); };
  bool mine = true;
  try {
    mine = !directory_.is_at_its_path() || std::ranges::any_of(slots_, is_lost);
  } catch (const StorageError&) {
    // What cannot be checked is of no use either. The other ranks get the result.
  }
  return manager_.comm.max(mine ? 1 : 0, kTaking) != 0;
}

/// For a part of that size, in that slot. Until a copy is complete, for the second slot too: with one alone the first
/// copy would stay the only one. What other launches left is removed before the second one is taken.
bool LocalCopies::has_room(std::size_t part, std::size_t slot) {
  const auto lacking = [&](std::size_t of) {
    const std::size_t has = slots_.at(of) ? slots_.at(of)->capacity() + kTableBytes : 0;
    return part > has ? (part - has) * (of == kUnsentSlot ? 1 : 1 + kept_.size()) : 0;
  };
  const auto available = [this](bool without_left_overs) {
    core::AvailableMemory found = core::available_memory();
    found.of_node = std::min(found.of_node, directory_.available_bytes().value_or(UINT64_MAX));
    if (without_left_overs && found.of_node != UINT64_MAX) {
      found.of_node += node_directory_.left_over_bytes(owner_.launch);
    }
    return found;
  };
  const auto fits = [&](std::size_t bytes, bool without_left_overs) {
    const bool is_said = !lacks_room_ && slot != kUnsentSlot;
    return copies_fit(manager_.comm, bytes, kTaking, is_said, [&] { return available(without_left_overs); });
  };
  if (slot == kUnsentSlot) {
    return fits(lacking(slot), false);
  }
  lacks_room_ = !fits(lacking(slot), false) || (completed_ == 0 && !fits(lacking(0) + lacking(1), true));
  return !lacks_room_;
}

bool LocalCopies::take(const CheckpointManager::SaveRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  try {
    advance();
    const bool was_taken = manager_.comm.together([&] { return agree_on_last() && copy(request); }, kTaking);
    if (was_taken) {
      blocked_ += std::chrono::steady_clock::now() - start;
      ++taken_;
    }
    return was_taken;
  } catch (const StorageError& error) {
    report_failure(error);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_memory) {
      throw;
    }
    report_failure(error);
  }
  last_has_failed_ = true;
  return false;
}

bool LocalCopies::copy(const CheckpointManager::SaveRequest& request) {
  cluster::Communicator& comm = manager_.comm;
  const storage::FileMetadata metadata = agree_on_metadata(request);
  storage::CheckpointWriter writer(comm, manager_.directory.file(metadata.number), {}, layout_);
  writer.plan_in_memory(manager_.checkpoint.registry(), metadata);
  std::vector<storage::WriteItem> items = std::move(writer.items());

  const std::size_t free_slot = is_sending_ ? kUnsentSlot : next_;
  if (!has_room(storage::bytes_of_copy(items) + kTableBytes, free_slot)) {
    return false;
  }
  std::shared_ptr<storage::PartSlot>& slot = slots_.at(free_slot);
  std::optional<storage::StructureImage> image;
  comm.on_rank_0(
      [&] {
        image = writer.image();
        last_ = {metadata.run_calls.value_or(metadata.number), metadata.time_us,
                 image ? image->commit_record.file_size : 0};
      },
      kTaking);
  storage::PartName name{name_copy(metadata, image ? image->commit_record.structure_digest : 0), comm.rank()};
  saves_.at(free_slot) = name.copy.save.save;
  report_begun(name.copy);
  comm.agree(core::capture([&] {
               task_.reset();
               if (!slot) {
                 slot = std::make_shared<storage::PartSlot>(
                     directory_, NodeDirectory::part_name(owner_.launch, comm.rank(), static_cast<int>(free_slot)));
               }
               slot->copy(items);
             }),
             kTaking);
  const auto work = [slot, name, items = std::make_shared<std::vector<storage::WriteItem>>(std::move(items)),
                     image = std::make_shared<std::optional<storage::StructureImage>>(std::move(image))] {
    slot->complete(*items, name, std::move(*image));
  };
  slot_ = free_slot;
  comm.agree(core::capture([&] { task_.emplace(work); }), kTaking);
  if (transfer_ && !is_sending_) {
    transfer_->begin();
    is_sending_ = true;
    sent_ = last_;
  }
  return true;
}

/// The first time, and then ever more seldom: a full directory stays full.
void LocalCopies::report_failure(const Error& error) noexcept {
  const bool is_reported = (failures_ & (failures_ + 1)) == 0;
  ++failures_;
  if (!is_reported) {
    return;
  }
  core::log::or_warn(kNotRecorded, [&] {
    manager_.record(events::LocalCopyFailed{error.what(), failures_});
    if (manager_.comm.is_rank_0()) {
      core::log::warning("no node-local copy was taken ({} so far): {}", failures_, error.what());
    }
  });
}

/// The next start knows by it that there was a copy newer than all checkpoints, though its hosts may be gone.
void LocalCopies::report_begun(const storage::LocalCopy& copy) {
  const std::pair known(copy.known_run, copy.known_save);
  if (std::exchange(begun_after_, known) != known) {
    manager_.record(events::LocalCopyBegun{last_.step});
  }
}

/// There can be some in each second. What one costs is the mean of all.
void LocalCopies::report_complete() {
  const auto now = std::chrono::steady_clock::now();
  if ((completed_ & (completed_ - 1)) != 0 && now < reported_ + kNewsInterval) {
    return;
  }
  reported_ = now;
  const auto text = [](const Taken& copy) {
    return core::event_time(std::chrono::system_clock::time_point(std::chrono::microseconds(copy.time_us)));
  };
  events::LocalCopies event{completed_,  blocked_.count() / static_cast<double>(taken_),
                            last_.step,  text(last_),
                            last_.bytes, at_partner_.time_us == last_.time_us};
  if (at_partner_.time_us != 0) {
    event.partner_step = at_partner_.step;
    event.partner_taken = text(at_partner_);
  }
  manager_.record(event);
}

/// Once: it stays so.
void LocalCopies::report_missing_partner() {
  if (!std::exchange(has_reported_missing_partner_, true)) {
    manager_.record(events::LocalCopyWithoutPartner{});
    if (manager_.comm.is_rank_0()) {
      core::log::warning(
          "a node-local copy lies on one host only: a partner had no room for it; the loss of a host loses it");
    }
  }
}

void LocalCopies::leave_mpi() noexcept {
  if (!manager_.comm.broken()) {
    core::log::or_warn(kNotRecorded, [&] { wait(std::min(kLongestWaitAtEnd, manager_.comm.timeout())); });
  }
  transfer_.reset();
  is_sending_ = false;
}

void LocalCopies::forget_older_than(std::uint64_t save) noexcept {
  core::log::or_warn(kNotRecorded, [&] {
    const bool is_at_work = task_ && !task_->done();
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_.at(slot) && saves_.at(slot) < save && !(is_at_work && slot == slot_)) {
        slots_.at(slot)->make_void();
      }
    }
    if (!kept_.empty()) {
      node_directory_.make_partner_parts_void(owner_.launch, kept_, save);
    }
  });
}

void LocalCopies::give_back() noexcept {
  leave_mpi();
  emergency_save_->end();
  task_.reset();
  slots_ = {};
  node_directory_.remove_parts(owner_.launch, manager_.comm.rank(), kept_);
  if (is_first_of_host(manager_.comm)) {
    node_directory_.remove_left_overs(owner_.launch);
  }
}

}  // namespace reprieve::manager
