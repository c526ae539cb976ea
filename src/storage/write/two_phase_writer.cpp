// SPDX-License-Identifier: BSD-3-Clause
// Two-phase writes: small pieces, exchanged among the ranks and written as large ones.

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "cluster/communicator.hpp"
#include "core/failpoint.hpp"
#include "storage/format/file_index.hpp"
#include "storage/write/data_stream.hpp"
#include "storage/write/writers.hpp"

namespace reprieve::storage {

namespace {

/// Bytes of the file in one exchange: a quarter of all that are exchanged, within these bounds. So the first of them go
/// to the device during the exchange of the rest, and little memory is taken.
constexpr std::uint64_t kLeastWindowBytes = std::uint64_t{4} << 20U;
constexpr std::uint64_t kMostWindowBytes = std::uint64_t{16} << 20U;
constexpr std::uint64_t kWindowsInAll = 4;
/// What a rank collects in one exchange where many ranks do. So an exchange covers the more of the file the more ranks
/// collect, and the number of exchanges does not grow with the number of nodes.
constexpr std::uint64_t kShareBytes = std::uint64_t{1} << 20U;
/// More ranks than this collect only where there are more nodes: two of each keep its network and its way to the file
/// system busy.
constexpr std::uint64_t kMostCollectors = 64;
constexpr std::uint64_t kCollectorsPerNode = 2;
/// With less to exchange, the exchange costs more than it gains.
constexpr std::uint64_t kLeastScatteredBytes = std::uint64_t{1} << 20U;

/// Windows are ranges of the file whose bytes are exchanged at once. Each is cut into shares of the same size, and one
/// rank collects and writes each share: this says which. The same on all ranks.
class ShareMap {
 public:
  /// @param bytes  to be exchanged in all: a little is shared out among the ranks as well
  ShareMap(int ranks, std::uint64_t nodes, std::uint64_t bytes)
      : ranks_(static_cast<std::uint64_t>(ranks)),
        shares_(std::min(ranks_, std::max(kMostCollectors, nodes * kCollectorsPerNode))),
        share_bytes_(share_bytes(bytes, shares_)) {}

  /// Which share of each window a rank collects, if any. Those who do are spread over all ranks, thus over the nodes.
  [[nodiscard]] std::optional<std::uint64_t> share_of(std::uint64_t rank) const {
    const std::uint64_t share = (rank * shares_ + ranks_ - 1) / ranks_;
    return share < shares_ && share * ranks_ / shares_ == rank ? std::optional(share) : std::nullopt;
  }
  [[nodiscard]] std::uint64_t share_bytes() const noexcept { return share_bytes_; }

  /// Where the windows begin that hold all the regions, in order. Regions that lie in no window are none.
  [[nodiscard]] std::vector<std::uint64_t> windows(std::vector<Region> regions) const {
    std::ranges::sort(regions, {}, &Region::offset);
    const std::uint64_t size = shares_ * share_bytes_;
    std::vector<std::uint64_t> windows;
    for (const Region& region : regions) {
      std::uint64_t next = windows.empty() ? region.offset : std::max(region.offset, windows.back() + size);
      for (; next < region.offset + region.size; next = windows.back() + size) {
        windows.push_back(next / share_bytes_ * share_bytes_);
      }
    }
    return windows;
  }

 private:
  /// A multiple of what a direct write needs.
  static std::uint64_t share_bytes(std::uint64_t bytes, std::uint64_t shares) {
    const std::uint64_t window = std::clamp(bytes / kWindowsInAll, kLeastWindowBytes, kMostWindowBytes);
    const std::uint64_t most = std::max(window / shares, kShareBytes);
    return std::max(std::min(bytes / shares, most) / kLeastDirectBytes, std::uint64_t{1}) * kLeastDirectBytes;
  }

  std::uint64_t ranks_;
  std::uint64_t shares_;  ///< of a window
  std::uint64_t share_bytes_;
};

constexpr const char* kCutShort = "a rank sent a message that ends within a piece";

/// Precedes the bytes of a piece in a message.
struct PieceHeader {
  std::uint32_t offset;  ///< in the share
  std::uint32_t size;
};

/// Puts pieces where they belong in a share, and remembers which of its bytes are there.
class Share {
 public:
  explicit Share(std::uint64_t size) : bytes_(size) {}

  void put(const PieceHeader& header, std::span<const std::byte> piece) {
    const std::uint64_t offset = header.offset;
    if (offset > bytes_.size() || piece.size() > bytes_.size() - offset) {
      throw Error(ErrorCode::internal, "a rank sent a piece that belongs to another one");
    }
    std::memcpy(bytes_.data() + offset, piece.data(), piece.size());
    pieces_.push_back({offset, piece.size()});
  }

  void put_all(std::span<const std::byte> message) {
    while (!message.empty()) {
      PieceHeader header{};
      if (message.size() < sizeof header) {
        throw Error(ErrorCode::internal, kCutShort);
      }
      std::memcpy(&header, message.data(), sizeof header);
      if (header.size > message.size() - sizeof header) {
        throw Error(ErrorCode::internal, kCutShort);
      }
      put(header, message.subspan(sizeof header, header.size));
      message = message.subspan(sizeof header + header.size);
    }
  }

  /// Calls @p visit(offset in the share, bytes) for all that is there, in as large pieces as there are, and forgets
  /// it.
  template <class Visit>
  void visit_runs(Visit&& visit) {
    std::ranges::sort(pieces_, {}, &Region::offset);
    for (std::size_t i = 0; i < pieces_.size();) {
      Region run = pieces_[i];
      for (++i; i < pieces_.size() && pieces_[i].offset == run.offset + run.size; ++i) {
        run.size += pieces_[i].size;
      }
      visit(run.offset, std::span<const std::byte>(bytes_).subspan(run.offset, run.size));
    }
    pieces_.clear();
  }

 private:
  Bytes bytes_;
  std::vector<Region> pieces_;
};

std::uint64_t nodes_of(const cluster::Communicator& comm) {
  std::set<std::string_view> hosts;
  for (int rank = 0; rank < comm.size(); ++rank) {
    hosts.insert(comm.host_of(rank));
  }
  return hosts.size();
}

std::uint64_t scattered_bytes(const WritePlan& plan) {
  return sum_of(plan.variables,
                [](const WritePlan::Variable& variable) { return variable.scattered ? variable.bytes : 0; });
}

/// One file. A rank that fails says so before the next exchange, so that the others are not left alone in it.
class PieceExchange {
 public:
  PieceExchange(cluster::Communicator& comm, const WritePlan& plan, const std::string& what)
      : comm_(comm),
        plan_(plan),
        what_(what),
        map_(comm.size(), nodes_of(comm), scattered_bytes(plan)),
        share_(map_.share_of(rank())) {
    for (const WritePlan::Variable& variable : plan.variables) {
      const auto items = std::span(plan.items).subspan(variable.first_item, variable.item_count);
      if (variable.scattered) {
        regions_.push_back({variable.file_offset, variable.bytes});
      }
      for (const WriteItem& item : items) {
        const bool exchanged = variable.scattered && is_exchanged(item);
        if (!exchanged) {
          large_.push_back(item);
        } else if (item.bytes() > 0) {
          small_.push_back({region_of(item), &item});
        }
        is_small_.push_back(exchanged);
      }
    }
  }

  WrittenPart run() {
    comm_.agree(core::capture([&] { open(); }), what_);
    exchange_small();
    write_large();
    return std::move(part_);
  }

 private:
  struct SmallItem {
    Region region;  ///< of the file, from its first byte to its last
    const WriteItem* item;
  };

  /// What lies between the pieces of others. Chunks of a rank alone do not, however small they are.
  static bool is_exchanged(const WriteItem& item) {
    const std::uint64_t run = item.run_bytes();
    return run < (item.fills_dataset ? kLeastOwnChunkBytes : kLeastDirectBytes);
  }

  [[nodiscard]] std::uint64_t rank() const { return static_cast<std::uint64_t>(comm_.rank()); }

  void open() {
    check_file_size_limit(plan_.file, plan_.end_in_file());  // this rank may have another one than rank 0
    part_.file.emplace(PosixFile::open_to_write(plan_.file));
    const std::uint64_t exchanged = scattered_bytes(plan_) / static_cast<std::uint64_t>(comm_.size());
    stream_.emplace(*part_.file, plan_.io, exchanged + sum_of(large_, &WriteItem::bytes), plan_.least_direct_bytes());
    if (share_) {
      collected_.emplace(map_.share_bytes());
    }
    std::ranges::sort(small_, {}, [](const SmallItem& small) { return small.region.offset; });
    windows_ = map_.windows(regions_);
    outgoing_.sizes.resize(static_cast<std::size_t>(comm_.size()));
  }

  void exchange_small() {
    core::Outcome failure;
    for (const std::uint64_t window : windows_) {
      if (!failure) {
        failure = core::capture([&] { pack(window); });
      }
      comm_.exchange(outgoing_, incoming_, what_, failure);
      core::failpoint("save.pieces_exchanged");
      failure = core::capture([&] { write_share(window); });
    }
    comm_.agree(failure, what_);
  }

  /// What other ranks collect goes into messages, what this one does into its buffer.
  void pack(std::uint64_t window) {
    outgoing_.bytes.clear();
    outgoing_.sizes.assign(static_cast<std::size_t>(comm_.size()), 0);
    for (std::size_t to = 0; to < outgoing_.sizes.size(); ++to) {
      const auto share = map_.share_of(to);
      if (!share) {
        continue;
      }
      const std::uint64_t begin = window + *share * map_.share_bytes();
      if (to == static_cast<std::size_t>(comm_.rank())) {
        for_each_piece(begin, [&](const PieceHeader& header, auto piece) { collected_->put(header, piece); });
        continue;
      }
      const std::size_t before = outgoing_.bytes.size();
      for_each_piece(begin, [&](const PieceHeader& header, auto piece) {
        const auto* first = reinterpret_cast<const std::byte*>(&header);
        outgoing_.bytes.insert(outgoing_.bytes.end(), first, first + sizeof header);
        outgoing_.bytes.insert(outgoing_.bytes.end(), piece.begin(), piece.end());
      });
      outgoing_.sizes[to] = outgoing_.bytes.size() - before;
    }
  }

  /// Takes this rank's pieces in the share that begins at @p begin in the file.
  template <class Visit>
  void for_each_piece(std::uint64_t begin, Visit&& visit) {
    const std::uint64_t end = begin + map_.share_bytes();
    const auto is_over = [&](const Region& region) { return region.offset + region.size <= begin; };
    while (first_small_ < small_.size() && is_over(small_[first_small_].region)) {
      ++first_small_;
    }
    for (std::size_t i = first_small_; i < small_.size() && small_[i].region.offset < end; ++i) {
      if (!is_over(small_[i].region)) {
        storage::for_each_piece(*small_[i].item, begin, end, feed_, [&](std::uint64_t offset, auto piece) {
          visit({static_cast<std::uint32_t>(offset - begin), static_cast<std::uint32_t>(piece.size())}, piece);
        });
      }
    }
  }

  void write_share(std::uint64_t window) {
    if (collected_) {
      collected_->put_all(incoming_.bytes);
      collected_->visit_runs([&](std::uint64_t offset, std::span<const std::byte> bytes) {
        stream_->write(bytes, window + *share_ * map_.share_bytes() + offset);
      });
    }
  }

  void write_large() {
    stream_->start_writeback();
    const WrittenBlocks large = write_items(*stream_, large_, plan_.ranges.get(), plan_.compress);
    BlockFeed feed;
    part_.blocks.checksums =
        with_small(large.checksums, [&](const WriteItem& item, auto& all) { add_checksums(item, feed, all); });
    if (!large.compressed_sizes.empty()) {
      part_.blocks.compressed_sizes = with_small(large.compressed_sizes, [](const WriteItem& item, auto& all) {
        all.resize(all.size() + item.block_count());
      });
    }
    stream_->finish();
  }

  /// What is known of all blocks, in the order of the items. @param add  adds that of a small item's
  template <class Add>
  [[nodiscard]] std::vector<std::uint64_t> with_small(std::span<const std::uint64_t> large, const Add& add) const {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < is_small_.size(); ++i) {
      const WriteItem& item = plan_.items[i];
      if (is_small_[i]) {
        add(item, all);
      } else {
        const auto of_item = large.first(item.block_count());
        all.insert(all.end(), of_item.begin(), of_item.end());
        large = large.subspan(of_item.size());
      }
    }
    return all;
  }

  cluster::Communicator& comm_;
  const WritePlan& plan_;
  const std::string& what_;
  ShareMap map_;
  std::optional<std::uint64_t> share_;  ///< that this rank collects of each window
  std::vector<Region> regions_;         ///< of the variables that some rank has in small pieces
  std::vector<SmallItem> small_;        ///< this rank's that are exchanged, in the order of the file
  std::vector<WriteItem> large_;        ///< this rank's: written by itself
  std::vector<bool> is_small_;          ///< of the plan's items
  std::size_t first_small_ = 0;         ///< those before it have been exchanged
  BlockFeed feed_;
  std::vector<std::uint64_t> windows_;  ///< where each begins; the same on all ranks
  cluster::Parts outgoing_;
  cluster::Parts incoming_;
  WrittenPart part_;
  std::optional<DataStream> stream_;
  std::optional<Share> collected_;
};

}  // namespace

WrittenPart write_directly_or_exchange(cluster::Communicator& comm, const WritePlan& plan, const std::string& what) {
  return is_exchanged(comm, plan) ? PieceExchange(comm, plan, what).run() : write_directly(plan);
}

bool is_exchanged(const cluster::Communicator& comm, const WritePlan& plan) {
  return comm.size() > 1 && scattered_bytes(plan) >= kLeastScatteredBytes;
}

}  // namespace reprieve::storage
