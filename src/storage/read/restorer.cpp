// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read/restorer.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>

#include "core/failpoint.hpp"
#include "core/log.hpp"
#include "reprieve/memory_space.hpp"
#include "storage/format/blocks.hpp"

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;

/// Nothing that is registered is in the file, which holds other variables.
bool is_of_another_program(const Differences& differences, std::size_t registered) {
  const auto count = [&](std::string_view text) {
    return std::ranges::count_if(differences, [&](const std::string& line) { return line.ends_with(text); });
  };
  return std::cmp_equal(count(kNotStored), registered) && count(kNotRegistered) > 0;
}

/// Throws one error with the differences of all ranks. Lines that are the same on all ranks are shown once.
/// @param registered  how many variables the program has
void throw_if_different(const std::vector<Differences>& lines_of_ranks, std::size_t registered, const std::string& file,
                        int saved_ranks) {
  std::map<std::string, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < lines_of_ranks.size(); ++rank) {
    for (const std::string& line : lines_of_ranks[rank]) {
      ranks_of[line].push_back(rank);
    }
  }
  std::string text;
  Differences differences;
  for (const auto& [line, ranks] : ranks_of) {
    differences.push_back(line);
    text += "\n  " + line;
    if (ranks.size() != lines_of_ranks.size()) {
      text += " (rank " + std::to_string(ranks.front()) +
              (ranks.size() > 1 ? " and " + std::to_string(ranks.size() - 1) + " more" : "") + ")";
    }
  }
  for (const std::string& way : ways_out(differences, saved_ranks)) {
    text += "\n  -> " + way;
  }
  if (is_of_another_program(differences, registered)) {
    text.insert(0, " it is of another program, and holds none of the variables here. Use another directory:");
  }
  if (!text.empty()) {
    throw MismatchError(file + " does not fit the registered state:" + text);
  }
}

}  // namespace

Restorer::Restorer(cluster::Communicator& comm, const Checkpoint::Registry& registry, core::FileAddress file,
                   bool verify)
    : comm_(comm),
      registry_(registry),
      file_(std::move(file)),
      verify_(verify),
      what_("restore of " + file_.filename().string()) {}

Restorer::Restorer(cluster::Communicator& comm, const Checkpoint::Registry& registry, core::FileAddress name,
                   FileIndex index, const BlockSource& source, bool verify)
    : Restorer(comm, registry, std::move(name), verify) {
  index_ = std::move(index);
  source_ = &source;
}

template <class Operation>
void Restorer::agreed(const char* stage, Operation&& operation) {
  comm_.agree(core::capture(std::forward<Operation>(operation)), what_ + ": " + stage);
}

// ---------------------------------------------------------------------------------------------------------------------
// Looking: no variable is touched.

void Restorer::read_structure() {
  if (!index_) {
    load_index();
  }
  core::failpoint("restore.index_read");
  compare([&] {
    comparison_ = compare_with_file(registry_, *index_, comm_.rank(), comm_.size());
    add_differences(compare_arrays(comparison_.arrays, false));
  });
}

/// What rank 0 cannot read right, another rank may.
void Restorer::load_index() {
  std::exception_ptr of_rank_0;
  try {
    load_index_from(0);
    return;
  } catch (const CorruptError&) {
    of_rank_0 = std::current_exception();
  }
  try {
    load_index_from(second_reader());
  } catch (const CorruptError&) {
    std::rethrow_exception(of_rank_0);
  }
  if (comm_.is_rank_0()) {
    core::log::warning(
        "{}: rank 0, on host {}, read what the file says about itself with wrong bits, rank {} read "
        "it right; the memory or a disk of that host may be failing",
        file_.string(), comm_.host(), second_reader());
  }
}

/// One on another host, if there is one.
int Restorer::second_reader() const {
  for (int rank = comm_.size() - 1; rank > 0; --rank) {
    if (comm_.host_of(rank) != comm_.host_of(0)) {
      return rank;
    }
  }
  return comm_.size() - 1;
}

/// The tables can be large: the ranks of a node share one copy, and one of them checks it.
void Restorer::load_index_from(int root) {
  std::optional<PosixFile> file;
  std::pair<CommitRecord, std::size_t> head;  // and the size of the tables
  const std::string what = what_ + ": reading the metadata";
  comm_.agree(core::capture([&] {
                if (comm_.rank() == root) {
                  file.emplace(PosixFile::open_to_read(file_));
                  head.first = read_commit_record(*file);
                  head.second = table_bytes(*file, head.first);
                }
              }),
              what);
  head = comm_.from_root(head, root, what);
  committed_ = head.first;
  const auto read = [&](std::span<std::byte> bytes) { read_tables(*file, committed_, bytes); };
  const cluster::CommonBytes tables = comm_.broadcast_common(head.second, read, root, what);
  agreed("checking the metadata", [&] {
    index_ = parse_index(index_bytes(committed_, tables.bytes, tables.owner), file_.string(),
                         tables.is_first ? Rows::unknown : Rows::checked);
  });
  agreed("checking the boxes", [&] { check_boxes_apart(*index_, file_.string(), comm_.rank(), comm_.size()); });
}

void Restorer::add_differences(Differences more) {
  comparison_.differences.insert(comparison_.differences.end(), std::make_move_iterator(more.begin()),
                                 std::make_move_iterator(more.end()));
}

/// Runs a comparison; the differences of all ranks together are one error.
template <class Operation>
void Restorer::compare(Operation&& operation) {
  agreed("comparing", std::forward<Operation>(operation));
  const std::string what = what_ + ": comparing";
  const auto lines = comm_.gather_values(comparison_.differences, what);
  comm_.on_rank_0(
      [&] { throw_if_different(lines, registry_.variables.size(), file_.string(), index_->metadata.world_size); },
      what);
}

/// Between the first and the last read. To find memory whose layout is declared changes nothing, so that does not
/// count.
bool Restorer::runs_functions() const {
  const auto of_user = [&](const RestoreTarget& target) {
    return (target.variable->described_by_user && !target.variable->declared) || redistributed(target);
  };
  return !registry_.when_values_restored.empty() || std::ranges::any_of(comparison_.arrays, of_user) ||
         std::ranges::any_of(comparison_.values, of_user) ||
         (!registry_.migrations.empty() && !comparison_.remarks.empty());
}

bool Restorer::reads_only(const std::function<bool(const StoredVariable&, const BoxRow&)>& has) const {
  const auto has_value = [&](const RestoreTarget& target) {
    return !redistributed(target) && has(*target.stored, index_->row(*target.stored, own_box(target)));
  };
  return !runs_functions() && std::ranges::all_of(comparison_.values, has_value) &&
         std::ranges::all_of(comparison_.arrays,
                             [&](const RestoreTarget& target) { return reads_array_only(target, has); });
}

bool Restorer::reads_array_only(const RestoreTarget& target,
                                const std::function<bool(const StoredVariable&, const BoxRow&)>& has) const {
  const StoredVariable& variable = *target.stored;
  const BoxSearch search(index_->dataset_boxes(variable));
  return !has_copies(*index_, variable, comm_.size()) &&
         std::ranges::all_of(target.array.boxes, [&](const MemoryBox& box) {
           return std::ranges::all_of(search.intersecting({box.offset, box.extent}),
                                      [&](std::size_t row) { return has(variable, index_->row(variable, row)); });
         });
}

std::set<std::string> Restorer::overwritten() const {
  std::set<std::string> names;
  for (const auto* targets : {&comparison_.values, &comparison_.arrays}) {
    for (const RestoreTarget& target : *targets) {
      names.insert(*target.name);
    }
  }
  return names;
}

bool Restorer::is_plain() const {
  return !runs_functions() && registry_.dropped.empty() && registry_.migrations.empty() &&
         std::ranges::none_of(registry_.variables, [](const auto& entry) {
           return entry.second.may_be_missing || !entry.second.former_names.empty();
         });
}

/// The file of another run may be retired or replaced by that run at any moment. Where checksums are compared, a commit
/// record that is read with wrong bits does no harm; one that is all zeros was taken away.
void Restorer::check_is_the_same(const PosixFile& opened) const {
  try {
    // No other file has these two: the manifest says who saved it, and when.
    const CommitRecord commit_record = read_commit_record(opened);
    if (commit_record.manifest.digest == committed_.manifest.digest &&
        commit_record.checksums.digest == committed_.checksums.digest) {
      return;
    }
  } catch (const CorruptError& error) {
    core::log::debug("{}", error.what());
    if (verify_ && !is_void(commit_record_bytes(opened))) {
      return;
    }
  }
  throw StorageError(ErrorCode::io, file_.string() +
                                        " was replaced while it was being restored, by a run that lives, or "
                                        "host " +
                                        comm_.host() + " reads wrong bits. Start again, or restore a copy of it");
}

void Restorer::check_not_retired() {
  comm_.on_rank_0(
      [&] {
        if (opened_) {
          storage::check_not_retired(*opened_, commit_record_);
        }
      },
      what_ + ": looking at the file once more");
}

void Restorer::open() {
  agreed("opening", [&] {
    if (!stored_) {
      if (source_ != nullptr) {
        reader_.emplace(*source_, file_.string(), *index_, verify_);
      } else {
        opened_.emplace(PosixFile::open_to_read(file_));
        commit_record_ = commit_record_bytes(*opened_);
        check_is_the_same(*opened_);
        reader_.emplace(*opened_, *index_, verify_);
      }
      if (index_->metadata.world_size == comm_.size()) {
        reader_->expect_boxes_of(comm_.rank());
      }
      stored_.emplace(*reader_, *index_);
    }
  });
}

/// @param what  that is done from now on
void Restorer::report_about(const char* what, std::uint64_t bytes_of_rank) {
  news_.emplace(std::string(what) + ' ' + file_.string(), bytes_of_rank);
  reader_->count_in(&*news_);
}

void Restorer::verify_first() {
  if (!verify_) {
    return;
  }
  open();
  if (source_ != nullptr) {
    agreed("verifying", [&] { check_own_blocks(); });
  } else {
    report_about("verifying", index_->file_size / static_cast<std::uint64_t>(comm_.size()));
    storage::verify_first(comm_, *reader_, *index_, file_.string());
  }
}

/// Of what this rank saved.
void Restorer::check_own_blocks() {
  const auto first = static_cast<std::uint64_t>(comm_.rank());
  const auto check = [&](const BlockReader::StoredBlock& stored, std::size_t /*row*/) {
    if (!reader_->block_is_right(stored)) {
      throw CorruptError("the part of rank " + std::to_string(first) + " is corrupt (checksum differs)");
    }
    return true;
  };
  for_each_block(*reader_, *index_, {first, first + 1}, check, [](std::uint64_t) {});
}

// ---------------------------------------------------------------------------------------------------------------------
// Restoring.

void Restorer::restore(const std::function<void()>& check_arrays) {
  open();
  warn();
  touched_ = true;
  read_values();
  take_over_values();
  agreed("preparing for the arrays", [&] {
    for (const auto& prepare : registry_.when_values_restored) {
      prepare();
    }
  });
  compare([&] { add_differences(compare_arrays(comparison_.arrays, true)); });
  if (check_arrays) {
    check_arrays();
  }
  fill_arrays();
  migrate();
}

void Restorer::read_values() {
  read_twice("reading", [&] {
    report_about("reading", index_->file_size / static_cast<std::uint64_t>(comm_.size()));
    expect_small_values();
    const devices::Spaces spaces;
    for (const RestoreTarget& target : comparison_.values) {
      if (!redistributed(target)) {
        stored_->read_box(*target.stored, own_box(target), *target.variable->value, spaces,
                          target.variable->space.get());
      }
    }
  });
}

/// Which box of a value this rank reads.
std::size_t Restorer::own_box(const RestoreTarget& target) const {
  return target.stored->distribution == Distribution::per_rank ? static_cast<std::size_t>(comm_.rank()) : 0;
}

/// Small values lie side by side in the file, those of all ranks together: where a rank's make up a good part of that,
/// the system reads all of it.
void Restorer::expect_small_values() {
  constexpr std::uint64_t most_per_byte = 8;
  std::uint64_t begin = index_->file_size;
  std::uint64_t end = 0;
  std::uint64_t own = 0;
  for (const RestoreTarget& target : comparison_.values) {
    if (redistributed(target)) {
      continue;
    }
    if (const auto region = BlockReader::small_region(*target.stored, index_->row(*target.stored, own_box(target)))) {
      begin = std::min(begin, region->offset);
      end = std::max(end, region->offset + region->size);
      own += region->size;
    }
  }
  if (end > begin && end - begin <= own * most_per_byte) {
    reader_->expect_small(begin, end);
  }
}

/// Finds the arrays with shared elements whose boxes are the same on every rank as when the file was written.
void Restorer::find_same_splits() {
  std::vector<std::pair<const RestoreTarget*, bool>> with_copies;  // the same on all ranks
  for (const RestoreTarget& target : comparison_.arrays) {
    if (has_copies(*index_, *target.stored, comm_.size())) {
      with_copies.emplace_back(&target, false);
    }
  }
  if (with_copies.empty()) {
    return;
  }
  read_twice("comparing shared boxes", [&] {
    for (auto& [target, same] : with_copies) {
      same = target->variable->shared && had_these_boxes(*stored_, *target->stored, target->array, comm_.rank());
    }
  });
  for (const auto& [target, same] : with_copies) {
    if (comm_.max(same ? 0 : 1, what_ + ": comparing shared boxes") == 0) {
      same_splits_.push_back(target);
    }
  }
}

/// Functions of the program may have given the devices work since the memory was found.
void Restorer::synchronize_arrays() {
  for (const RestoreTarget& target : comparison_.arrays) {
    for (const MemoryBox& box : target.array.boxes) {
      if (box.space != nullptr && volume(box.extent) > 0) {
        box.space->synchronize(box.data);
      }
    }
  }
}

void Restorer::fill_arrays() {
  find_same_splits();
  read_twice("reading the arrays", [&] {
    report_about("reading", sum_of(comparison_.arrays, [](const RestoreTarget& target) {
                   return sum_of(target.array.boxes, [](const MemoryBox& box) { return volume(box.extent); }) *
                          target.array.type.size_bytes;
                 }));
    synchronize_arrays();
    for (const RestoreTarget& target : comparison_.arrays) {
      stored_->fill(*target.stored, target.array);
    }
    for (const RestoreTarget* target : same_splits_) {
      restore_copies(*stored_, *target->stored, target->array, comm_.rank());
    }
    core::failpoint("restore.values_read");
  });
}

/// A rank that reads corruption makes all of them check the whole file; if it is valid, they read again.
void Restorer::read_twice(const char* stage, const std::function<void()>& read) {
  try {
    agreed(stage, read);
    return;
  } catch (const CorruptError& error) {
    if (source_ != nullptr) {
      throw;
    }
    if (comm_.is_rank_0()) {
      core::log::warning("{}; looking at the whole file", error.what());
    }
  }
  verify_first();
  try {
    agreed(stage, read);
  } catch (const CorruptError& error) {
    throw StorageError(ErrorCode::io,
                       std::string(error.what()) + ", on rank " + std::to_string(error.origin_rank()) + " on host " +
                           comm_.host_of(error.origin_rank()) +
                           "; but the file as a whole is valid: that host's memory or its way to the disk is not; "
                           "start again without it",
                       error.origin_rank());
  }
}

void Restorer::take_over_values() {
  agreed("taking over the values", [&] {
    for (const RestoreTarget& target : comparison_.values) {
      if (!redistributed(target)) {
        target.variable->value->commit();
      }
    }
    for (const RestoreTarget& target : comparison_.values) {
      if (redistributed(target)) {
        target.variable->redistribute(stored_->pieces(target.stored->name), comm_.rank(), comm_.size());
      }
    }
  });
}

bool Restorer::redistributed(const RestoreTarget& target) const {
  return target.stored->distribution == Distribution::per_rank && index_->metadata.world_size != comm_.size();
}

void Restorer::warn() const {
  if (comm_.is_rank_0()) {
    for (const std::string& warning : comparison_.warnings) {
      core::log::warning("{}: {}", file_.filename().string(), warning);
    }
  }
}

void Restorer::migrate() {
  if (comparison_.remarks.empty()) {
    return;
  }
  if (comm_.is_rank_0()) {
    for (const std::string& remark : comparison_.remarks) {
      core::log::info("{}: {}", file_.filename().string(), remark);
    }
  }
  agreed("taking over the state of another version", [&] { registry_.migrate(*stored_); });
}

}  // namespace reprieve::storage
