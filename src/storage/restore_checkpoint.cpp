/// @file
/// How a checkpoint file is restored:
///  1. the chief reads what the file says about itself, verifies it, and broadcasts it                (collective)
///  2. every rank compares it with its registered variables; all differences make one error           (collective)
///  3. every rank reads the blocks that it needs, verifies them, and puts the elements in their places  (on its own)
///  4. the ranks agree on errors; only then do serializers and redistribution functions run            (collective)
///  5. functions that take over the state of older versions of the program                             (collective)
/// Programs that describe their arrays from restored values go through 2 to 4 twice: for the values, then for the
/// arrays.

#include <iterator>
#include <map>
#include <optional>
#include <span>

#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "storage/block_reader.hpp"
#include "storage/checkpoint_file.hpp"
#include "storage/comparison.hpp"
#include "storage/seal.hpp"
#include "storage/stored_checkpoint.hpp"

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;

Bytes encode(const IndexBytes& index) {
  Encoder message;
  message.word(index.file_size);
  for (const Region& region : index.regions) {
    message.word(region.offset);
    message.word(region.size);
  }
  message.bytes(index.manifest);
  message.bytes(index.boxes);
  message.bytes(index.checksums);
  return message.take();
}

IndexBytes decode(const Bytes& message) {
  Decoder decoder(message);
  IndexBytes index;
  index.file_size = decoder.word();
  for (Region& region : index.regions) {
    region.offset = decoder.word();
    region.size = decoder.word();
  }
  index.manifest = decoder.bytes();
  index.boxes = decoder.bytes();
  index.checksums = decoder.bytes();
  return index;
}

Bytes encode(const std::vector<std::string>& lines) {
  Encoder message;
  for (const std::string& line : lines) {
    message.text(line);
  }
  return message.take();
}

/// Throws one error with the differences of all ranks. Lines that are the same on all ranks are shown once.
void throw_if_different(const std::vector<Bytes>& lines_of_ranks, const std::string& file) {
  std::map<std::string, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < lines_of_ranks.size(); ++rank) {
    for (Decoder decoder(lines_of_ranks[rank]); !decoder.at_end();) {
      ranks_of[decoder.text()].push_back(rank);
    }
  }
  std::string text;
  for (const auto& [line, ranks] : ranks_of) {
    text += "\n  " + line;
    if (ranks.size() != lines_of_ranks.size()) {
      text += " (rank " + std::to_string(ranks.front()) +
              (ranks.size() > 1 ? " and " + std::to_string(ranks.size() - 1) + " more" : "") + ")";
    }
  }
  if (!text.empty()) {
    throw MismatchError(file + " does not fit the registered state:" + text);
  }
}

class CheckpointRestorer {
 public:
  CheckpointRestorer(cluster::Communicator& comm, const std::filesystem::path& file, bool verify)
      : comm_(comm), file_(file), verify_(verify), what_("restore of " + file.filename().string()) {}

  FileMetadata run(const Checkpoint::Registry& registry) {
    load_index();
    core::kill_point(core::KillPoint::restore_index_read);
    const bool values_first = !registry.when_values_restored.empty();
    compare([&] {
      comparison_ = compare_with_file(registry, index_, comm_.rank(), comm_.size());
      add_differences(values_first ? Differences() : compare_arrays(comparison_.arrays));
    });
    if (values_first) {
      read(comparison_.values, {});
      take_over_values();
      agreed("preparing for the arrays", [&] {
        for (const auto& prepare : registry.when_values_restored) {
          prepare();
        }
      });
      compare([&] { add_differences(compare_arrays(comparison_.arrays)); });
      read({}, comparison_.arrays);
    } else {
      read(comparison_.values, comparison_.arrays);
      take_over_values();
    }
    migrate(registry);
    return index_.metadata;
  }

 private:
  template <class Operation>
  void agreed(const char* stage, Operation&& operation) {
    comm_.agree(core::capture(std::forward<Operation>(operation)), what_ + ": " + stage);
  }

  void load_index() {
    Bytes message;
    const std::string what = what_ + ": reading the metadata";
    comm_.on_chief(
        [&] {
          const PosixFile file = PosixFile::open_to_read(file_);
          message = encode(read_index_bytes(file, read_seal(file)));
        },
        what);
    comm_.broadcast(message, 0, what);
    agreed("checking the metadata", [&] {
      index_ = parse_index(decode(message), file_.string());
      if (comm_.is_chief()) {
        check_boxes_apart(index_, file_.string());
      }
    });
  }

  void add_differences(Differences more) {
    comparison_.differences.insert(comparison_.differences.end(), std::make_move_iterator(more.begin()),
                                   std::make_move_iterator(more.end()));
  }

  /// Runs a comparison; the differences of all ranks together are one error.
  template <class Operation>
  void compare(Operation&& operation) {
    agreed("comparing", std::forward<Operation>(operation));
    const std::string what = what_ + ": comparing";
    const auto lines = comm_.gather(encode(comparison_.differences), what);
    comm_.on_chief([&] { throw_if_different(lines, file_.string()); }, what);
  }

  using Targets = std::span<const RestoreTarget>;

  void read(Targets values, Targets arrays) {
    agreed("reading", [&] {
      if (!stored_) {
        opened_.emplace(PosixFile::open_to_read(file_));
        reader_.emplace(*opened_, index_, verify_);
        stored_.emplace(*reader_, index_);
      }
      for (const RestoreTarget& target : values) {
        if (!redistributed(target)) {
          const bool per_rank = target.stored->distribution == Distribution::per_rank;
          stored_->read_box(*target.stored, per_rank ? static_cast<std::size_t>(comm_.rank()) : 0,
                            *target.variable->value);
        }
      }
      for (const RestoreTarget& target : arrays) {
        stored_->fill(*target.stored, target.array);
      }
      core::kill_point(core::KillPoint::restore_values_read);
    });
  }

  void take_over_values() {
    agreed("taking over the values", [&] {
      for (const RestoreTarget& target : comparison_.values) {
        if (redistributed(target)) {
          target.variable->redistribute(stored_->pieces(target.stored->name), comm_.rank(), comm_.size());
        } else {
          target.variable->value->commit();
        }
      }
    });
  }

  [[nodiscard]] bool redistributed(const RestoreTarget& target) const {
    return target.stored->distribution == Distribution::per_rank && index_.metadata.world_size != comm_.size();
  }

  void migrate(const Checkpoint::Registry& registry) {
    if (comparison_.remarks.empty()) {
      return;
    }
    if (comm_.is_chief()) {
      for (const std::string& remark : comparison_.remarks) {
        core::log::info("{}: {}", file_.filename().string(), remark);
      }
    }
    agreed("taking over the state of another version", [&] { registry.migrate(*stored_); });
  }

  cluster::Communicator& comm_;
  const std::filesystem::path& file_;
  bool verify_;
  std::string what_;
  FileIndex index_;
  Comparison comparison_;
  std::optional<PosixFile> opened_;
  std::optional<BlockReader> reader_;
  std::optional<StoredCheckpoint> stored_;
};

}  // namespace

FileMetadata restore_checkpoint(cluster::Communicator& comm, const Checkpoint::Registry& registry,
                                const std::filesystem::path& file, bool verify) {
  return CheckpointRestorer(comm, file, verify).run(registry);
}

}  // namespace reprieve::storage
