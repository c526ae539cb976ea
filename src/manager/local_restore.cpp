// SPDX-License-Identifier: BSD-3-Clause
// The start from a node-local copy:
//
// 1. The ranks choose the newest copy that may be taken (local_finish.cpp).
// 2. If the number of ranks is that of the copy, and each rank has its own part on its host, the copy is restored from
//    there. Each rank verifies its own part before any variable is touched. That reads the part once more. So it is
//    left out where there is a checkpoint, and nothing that is registered is optional: then whatever is restored
//    after a corrupt part overwrites the same variables. The values that all
//    ranks share lie in the part of rank 0: they are sent to the other hosts, which verify them as they read them.
// 3. Otherwise, and if the registered state needs elements that lie on another host, the ranks make a checkpoint file
//    of the copy (local_finish.cpp). It is restored as any other file.
// With a corrupt part, step 1 comes again without it.

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "core/events.hpp"
#include "core/log.hpp"
#include "manager/local_finish.hpp"
#include "manager/manager_impl.hpp"
#include "manager/restore_fallback.hpp"
#include "storage/format/layout.hpp"
#include "storage/local/part_file.hpp"

namespace reprieve::manager {

namespace {

constexpr const char* kTakingCopy = "taking a node-local copy of the run before";

/// What a part that cannot be read, or is corrupt, leads to: another copy may be whole.
bool is_of_data(const Error& error) { return error.code() == ErrorCode::corrupt || error.code() == ErrorCode::io; }

class AllRanks final : public Team {
 public:
  explicit AllRanks(cluster::Communicator& comm) : Team(comm.host()), comm_(comm) {}

  [[nodiscard]] int rank() const override { return comm_.rank(); }
  [[nodiscard]] int size() const override { return comm_.size(); }
  [[nodiscard]] const std::string& host_of(int rank) const override { return comm_.host_of(rank); }
  void agree(const core::Outcome& mine) override { comm_.agree(mine, kTakingCopy); }
  [[nodiscard]] core::Bytes broadcast(core::Bytes bytes, int root) override {
    comm_.broadcast(bytes, root, kTakingCopy);
    return bytes;
  }
  [[nodiscard]] std::vector<core::Bytes> gather(const core::Bytes& mine) override {
    return comm_.gather(mine, kTakingCopy);
  }

 private:
  cluster::Communicator& comm_;
};

/// The step of the newest copy of which the log of the runs before knows that no checkpoint came after it.
std::optional<std::uint64_t> newest_copy_in(const std::vector<core::LoggedEvent>& log) {
  std::optional<std::uint64_t> newest;
  for (const core::LoggedEvent& logged : log) {
    if (const auto* const begun = std::get_if<events::LocalCopyBegun>(&logged.event)) {
      newest = begun->step;
    } else if (const auto* const complete = std::get_if<events::LocalCopies>(&logged.event)) {
      newest = complete->step;
    } else if (const auto* const restored = std::get_if<events::Restored>(&logged.event)) {
      newest = restored->file.ends_with(".part") ? restored->run_calls : std::nullopt;
    } else if (std::holds_alternative<events::SaveFinished>(logged.event) ||
               std::holds_alternative<events::Drained>(logged.event) ||
               std::holds_alternative<events::Finished>(logged.event)) {  // it gives its copies back
      newest.reset();
    }
  }
  return newest;
}

/// Where nothing is left of a copy, its files cannot say so.
void warn_of_lost_copy(const CheckpointDirectory& directory) {
  const auto step = newest_copy_in(core::read_events(directory.path() / kEventLogName));
  if (step) {
    core::log::warning(
        "the run before took a node-local copy at step {}, which was not found: its hosts are lost, or not part of "
        "this "
        "run (`reprieve drain` flushes its parts there); the newest checkpoint counts",
        *step);
  }
}

class LocalRestore {
 public:
  LocalRestore(CheckpointManager::Impl& manager, RestoreFallback& walk, const LocalOwner& owner)
      : manager_(manager),
        comm_(manager.comm),
        walk_(walk),
        node_directory_(owner.node_directory(manager.options)),
        team_(comm_),
        finisher_(make_finisher(owner)) {}

  std::optional<CheckpointInfo> newest() {
    for (;;) {
      const ChosenParts parts = finisher_.choose();
      if (parts.empty()) {
        break;
      }
      bool is_valid = true;
      if (is_at_home(parts)) {
        if (auto restored = restore(parts, is_valid)) {
          return restored;
        }
      }
      if (is_valid && make_file(parts)) {
        return std::nullopt;
      }
    }
    const auto end = [&] {
      if (!finisher_.wanted().empty()) {
        core::log::warning(
            "{}: they lie on hosts that are lost, or not part of this run (`reprieve drain` flushes them); the newest "
            "checkpoint counts",
            finisher_.wanted().front().incomplete_text());
      } else if (!finisher_.target().has_gone_back) {
        warn_of_lost_copy(manager_.directory);
      }
      remove_flushed_parts(manager_.directory.opened(), manager_.options.prefix, finisher_.target().newest_checkpoint);
    };
    comm_.on_rank_0(end, kTakingCopy);
    return std::nullopt;
  }

 private:
  /// A copy whose parts lie where they are needed.
  struct Opened {
    std::shared_ptr<const storage::Part> own;
    CopyStructure structure;
    storage::PartsSource source;  ///< all parts on this host, and what all ranks share
  };

  [[nodiscard]] LocalFinisher make_finisher(const LocalOwner& owner) {
    const ManagerOptions& options = manager_.options;
    const auto committing = [this](const storage::FileMetadata& metadata) {
      manager_.identity->begin_commit({metadata.identity->run, metadata.identity->save, metadata.number},
                                      metadata.time_us);
    };
    const auto committed = [this](const storage::FileMetadata& metadata) {
      manager_.directory.remember(metadata.number, metadata);
      manager_.note_committed(metadata);
    };
    const auto corrupt = [this](const std::string& part, const std::string& why) {
      manager_.record(events::LocalPartCorrupt{part, why});
    };
    return {team_,
            manager_.directory,
            options.local_directory.empty() ? std::nullopt : std::optional(node_directory_),
            {.directory_id = owner.directory_id,
             .prefix = options.prefix,
             .own_launch = owner.launch,
             .durable = options.durable,
             .check_lock = [this] { manager_.lock->check_held(); },
             .committing = committing,
             .committed = committed,
             .corrupt = corrupt}};
  }

  [[nodiscard]] bool is_at_home(const ChosenParts& parts) const {
    return parts.size() == static_cast<std::size_t>(comm_.size()) &&
           std::ranges::all_of(parts,
                               [&](const FoundPart& part) { return comm_.host_of(part.name.rank) == part.host; });
  }

  /// False if a part is corrupt.
  [[nodiscard]] bool open(const ChosenParts& parts, Opened& opened) {
    auto structure = finisher_.structure_of(parts);
    if (!structure) {
      return false;
    }
    opened.structure = std::move(*structure);
    const auto reach = [&] {
      for (const FoundPart& found : parts) {
        if (found.host == comm_.host()) {
          finisher_.try_part(found, [&] {
            const auto part = finisher_.open(found);
            opened.source.add(part, opened.structure.index);
            opened.own = found.name.rank == comm_.rank() ? part : opened.own;
          });
        }
      }
    };
    comm_.agree(core::capture(reach), kTakingCopy);
    if (!finisher_.all_are_valid()) {
      return false;
    }
    learn_checksums(opened);
    share_replicated(parts, opened);
    return true;
  }

  /// Of all parts, on every rank.
  void learn_checksums(Opened& opened) {
    storage::FileIndex& index = opened.structure.index;
    const auto of_ranks = comm_.gather(std::as_bytes(std::span(opened.own->tables().checksums)), kTakingCopy);
    const auto collect = [&] {
      storage::place_checksums(index, of_ranks);
      const auto words = index.checksums.span();
      return std::vector<std::uint64_t>(words.begin(), words.end());
    };
    index.checksums = storage::SharedWords(comm_.from_rank_0(collect, kTakingCopy));
  }

  /// They lie in the part of rank 0 alone.
  void share_replicated(const ChosenParts& parts, Opened& opened) {
    const std::string& first_host = parts.front().host;
    if (std::ranges::all_of(parts, [&](const FoundPart& part) { return part.host == first_host; })) {
      return;
    }
    std::vector<std::pair<const storage::StoredVariable*, storage::BoxRow>> rows;
    std::vector<storage::PartRow> received;
    std::uint64_t size = 0;
    for (const storage::StoredVariable& variable : opened.structure.index.variables) {
      if (variable.distribution == state::Distribution::replicated && variable.bytes() > 0) {
        rows.emplace_back(&variable, opened.structure.index.row(variable, 0));
        received.push_back({rows.back().second.first_checksum, size});
        size += variable.bytes();
      }
    }
    const auto fill = [&](std::span<std::byte> bytes) {
      for (const auto& [variable, row] : rows) {
        const storage::ChunkedSplit split = storage::FileIndex::blocks_of(*variable, row);
        for (std::uint64_t i = 0; i < split.count(); ++i) {
          const std::size_t block = storage::bytes_of(split.block(i), variable->type.size_bytes);
          opened.source.for_each_piece(*variable, row, i, block, storage::copying_to(bytes.first(block), nullptr));
          bytes = bytes.subspan(block);
        }
      }
    };
    const cluster::CommonBytes common = comm_.broadcast_common(static_cast<std::size_t>(size), fill, 0, kTakingCopy);
    if (comm_.host() != first_host) {
      opened.source.add(received, common.bytes, common.owner);
    }
  }

  /// Nothing if a part is corrupt, or if this rank's host does not have all that it needs. @param is_valid  none is
  [[nodiscard]] std::optional<CheckpointInfo> restore(const ChosenParts& parts, bool& is_valid) {
    finisher_.check_none_may_be_newer(parts);
    Opened opened;
    is_valid = open(parts, opened);
    if (!is_valid) {
      return std::nullopt;
    }
    const auto directory = node_directory_.find();
    const core::FileAddress name((directory ? directory->path() : std::filesystem::path(node_directory_.folder())) /
                                 parts.front().file);
    storage::Restorer restorer(comm_, manager_.checkpoint.registry(), name, opened.structure.index, opened.source,
                               manager_.options.verify_on_restore);
    using Pass = RestoreFallback::Pass;
    Pass pass = manager_.options.verify_on_restore ? Pass::verified : Pass::unverified;
    const auto choose = [&]() -> std::optional<Pass> {
      const bool is_one_host =
          std::ranges::all_of(parts, [&](const FoundPart& part) { return part.host == comm_.host(); });
      const auto has = [&](const auto& variable, const auto& row) { return opened.source.has(variable, row); };
      if (comm_.max(is_one_host || restorer.reads_only(has) ? 0 : 1, kTakingCopy) != 0) {
        return std::nullopt;
      }
      pass = pass == Pass::verified && may_read_once(restorer) ? Pass::single : pass;
      return pass;
    };
    try {
      auto restored = walk_.local_copy(restorer, name, choose);
      if (restored && comm_.is_rank_0()) {
        manager_.identity->set_start(parts.front().name.copy);
        core::log::info("that is a node-local copy, newer than all checkpoints in {}",
                        manager_.directory.path().string());
      }
      return restored;
    } catch (const Error& error) {  // the same on all ranks
      if (!is_of_data(error) || (restorer.touched() && pass != Pass::single)) {
        throw;
      }
      is_valid = false;
      if (!restorer.touched()) {
        note_corrupt(parts, error);
        return std::nullopt;
      }
    }
    if (restorer.touched()) {  // by which part?
      must_verify_ = true;
      try {
        restorer.verify_first();
      } catch (const Error& error) {
        if (!is_of_data(error)) {
          throw;
        }
        note_corrupt(parts, error);
      }
    }
    return std::nullopt;
  }

  /// By what is registered, and whether there is a checkpoint.
  [[nodiscard]] bool may_read_once(const storage::Restorer& restorer) {
    const bool has_older = !comm_.is_rank_0() || finisher_.target().newest_checkpoint.save > 0;
    return comm_.max(restorer.is_plain() && has_older && !must_verify_ ? 0 : 1, kTakingCopy) == 0;
  }

  /// The part of the rank that has verified it.
  void note_corrupt(const ChosenParts& parts, const Error& error) {
    if (comm_.rank() == error.origin_rank()) {
      finisher_.try_part(parts[static_cast<std::size_t>(comm_.rank())], [&] { throw CorruptError(error.what()); });
    }
    static_cast<void>(finisher_.all_are_valid());
  }

  /// False if a part is corrupt.
  [[nodiscard]] bool make_file(const ChosenParts& parts) {
    const auto start = std::chrono::steady_clock::now();
    const storage::LocalCopy& copy = parts.front().name.copy;
    const bool is_flushed = std::ranges::any_of(parts, [](const FoundPart& part) { return part.host.empty(); });
    manager_.record(events::DrainStarted{copy.number, is_flushed});
    if (comm_.is_rank_0()) {
      core::log::info(
          "a node-local copy of {} at step {} lies on other hosts than this run needs it on: "
          "it becomes a checkpoint first",
          core::count_text(copy.ranks, "rank"), copy.step());
    }
    if (!finisher_.finish(parts)) {
      return false;
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    manager_.record(events::Drained{copy.number, elapsed.count()});
    return true;
  }

  CheckpointManager::Impl& manager_;
  cluster::Communicator& comm_;
  RestoreFallback& walk_;
  NodeDirectory node_directory_;
  AllRanks team_;
  LocalFinisher finisher_;
  bool must_verify_ = false;  ///< a copy was read wrong after variables were touched
};

}  // namespace

std::optional<CheckpointInfo> restore_local_copy(CheckpointManager::Impl& manager, RestoreFallback& walk) {
  const LocalOwner owner = LocalOwner::of(manager);
  if (!manager.options.local_directory.empty()) {
    manager.local_owner = owner;
  }
  return LocalRestore(manager, walk, owner).newest();
}

}  // namespace reprieve::manager
