/// @file
/// How a checkpoint file is restored:
///  1. the chief reads what the file says about itself, verifies it, and broadcasts it                (collective)
///  2. every rank compares it with its registered variables; all differences make one error           (collective)
///  3. every rank reads the blocks that it needs, verifies them, and puts the elements in their places  (on its own)
///  4. the ranks agree on errors; only then do serializers and redistribution functions run            (collective)

#include <map>
#include <optional>

#include "core/kill_point.hpp"
#include "storage/block_reader.hpp"
#include "storage/checkpoint_file.hpp"
#include "storage/comparison.hpp"
#include "storage/description.hpp"
#include "storage/seal.hpp"

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;

class StoredPieces final : public PerRankPieces {
 public:
  StoredPieces(const BlockReader& reader, const FileIndex& index, const StoredVariable& variable)
      : reader_(reader), index_(index), variable_(variable) {}

  [[nodiscard]] int count() const override { return index_.metadata.world_size; }

  [[nodiscard]] std::vector<std::byte> bytes(int saved_rank) const override {
    if (saved_rank < 0 || saved_rank >= count()) {
      throw UsageError("variable '" + variable_.name + "' was saved by " + std::to_string(count()) +
                       " ranks; there is no rank " + std::to_string(saved_rank));
    }
    const BoxRow row = index_.row(variable_, static_cast<std::size_t>(saved_rank));
    std::vector<std::byte> content(static_cast<std::size_t>(volume(row.extent)) * variable_.type.size_bytes);
    reader_.read_box(variable_, row, content);
    return content;
  }

 private:
  const BlockReader& reader_;
  const FileIndex& index_;
  const StoredVariable& variable_;
};

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
    compare(registry);
    agreed("reading", [&] {
      opened_.emplace(PosixFile::open_to_read(file_));
      reader_.emplace(*opened_, index_, verify_);
      for (RestoreTarget& target : comparison_.targets) {
        read(target);
      }
      core::kill_point(core::KillPoint::restore_values_read);
    });
    agreed("taking over the values", [&] {
      for (const RestoreTarget& target : comparison_.targets) {
        finish(target);
      }
    });
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

  void compare(const Checkpoint::Registry& registry) {
    agreed("comparing", [&] { comparison_ = compare_with_file(registry, index_, comm_.rank(), comm_.size()); });
    const std::string what = what_ + ": comparing";
    const auto lines = comm_.gather(encode(comparison_.differences), what);
    comm_.on_chief([&] { throw_if_different(lines, file_.string()); }, what);
  }

  [[nodiscard]] bool redistributed(const RestoreTarget& target) const {
    return target.stored->distribution == Distribution::per_rank && index_.metadata.world_size != comm_.size();
  }

  void read(RestoreTarget& target) {
    if (target.stored->distribution == Distribution::distributed) {
      for (const MemoryBox& box : target.array.boxes) {
        if (volume(box.extent) > 0) {
          reader_->fill(*target.stored, view_of<std::byte>(box, target.array.type.size_bytes));
        }
      }
    } else if (!redistributed(target)) {
      read_value(target);
    }
  }

  void read_value(const RestoreTarget& target) {
    const bool per_rank = target.stored->distribution == Distribution::per_rank;
    const BoxRow row = index_.row(*target.stored, per_rank ? static_cast<std::size_t>(comm_.rank()) : 0);
    const auto size = static_cast<std::size_t>(volume(row.extent)) * target.stored->type.size_bytes;
    const std::span<std::byte> memory = target.variable->value->prepare(size);
    if (memory.size() != size) {
      throw UsageError("variable '" + target.stored->name + "' gave memory of " + std::to_string(memory.size()) +
                       " bytes for a value of " + std::to_string(size));
    }
    reader_->read_box(*target.stored, row, memory);
  }

  void finish(const RestoreTarget& target) {
    if (redistributed(target)) {
      const StoredPieces pieces(*reader_, index_, *target.stored);
      target.variable->redistribute(pieces, comm_.rank(), comm_.size());
    } else if (target.variable->value != nullptr) {
      target.variable->value->commit();
    }
  }

  cluster::Communicator& comm_;
  const std::filesystem::path& file_;
  bool verify_;
  std::string what_;
  FileIndex index_;
  Comparison comparison_;
  std::optional<PosixFile> opened_;
  std::optional<BlockReader> reader_;
};

}  // namespace

FileMetadata restore_checkpoint(cluster::Communicator& comm, const Checkpoint::Registry& registry,
                                const std::filesystem::path& file, bool verify) {
  return CheckpointRestorer(comm, file, verify).run(registry);
}

}  // namespace reprieve::storage
