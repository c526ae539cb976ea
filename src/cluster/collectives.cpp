// SPDX-License-Identifier: BSD-3-Clause
// The operations of a communicator that carry data. Each is: an entry check; the sizes; the memory; an entry check in
// which all ranks say that they have it; the data, in pieces.

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/error.hpp"
#include "core/memory.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

namespace {

/// Other than that of the presence check.
constexpr int kDataTag = 2;
/// Of bytes that are common to all ranks.
constexpr int kCommonTag = 3;

std::uint64_t total(const std::vector<std::uint64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

core::Outcome check_parts(std::size_t parts, int ranks) {
  return core::capture([&] {
    if (parts != static_cast<std::size_t>(ranks)) {
      throw Error(ErrorCode::internal, "one part is needed for each rank");
    }
  });
}

}  // namespace

void Communicator::transfer(std::unique_ptr<PartBuffers>& buffers, std::string_view what) {
  auto& b = *buffers;
  try {
    for (bool is_done = false; !is_done;) {
      is_done = true;
      std::size_t count = 0;
      const auto next_pieces = [&](std::vector<Stream>& streams, auto post) {
        for (Stream& stream : streams) {
          if (stream.done < stream.size) {
            const std::size_t size = std::min(piece_bytes_, stream.size - stream.done);
            post(stream.bytes + stream.done, static_cast<int>(size), stream.peer, &b.requests[count++]);
            stream.done += size;
            is_done = is_done && stream.done == stream.size;
          }
        }
      };
      next_pieces(b.receives, [&](std::byte* bytes, int size, int peer, MPI_Request* request) {
        check_mpi(MPI_Irecv(bytes, size, MPI_BYTE, peer, kDataTag, comm_, request), "MPI_Irecv");
      });
      next_pieces(b.sends, [&](std::byte* bytes, int size, int peer, MPI_Request* request) {
        check_mpi(MPI_Isend(bytes, size, MPI_BYTE, peer, kDataTag, comm_, request), "MPI_Isend");
      });
      wait(std::span(b.requests).first(count), what, timeout_);
    }
  } catch (...) {
    // MPI may still read and write there.
    static_cast<void>(buffers.release());
    throw;
  }
}

/// Calls @p send(first byte, size) for pieces of @p total bytes, with an entry check between two of them.
template <class Send>
void Communicator::in_pieces(std::uint64_t total, std::string_view what, Send&& send) {
  for (std::uint64_t done = 0; done < total;) {
    if (done > 0) {
      check_entry(Kind::broadcast, 0, {}, what);
    }
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes_, total - done));
    send(static_cast<std::size_t>(done), static_cast<int>(size));
    done += size;
  }
}

void Communicator::broadcast(Bytes& bytes, int root, std::string_view what) {
  const std::int64_t mine = rank_ == root ? static_cast<std::int64_t>(bytes.size()) : 0;
  const auto size = static_cast<std::uint64_t>(check_entry(Kind::broadcast, mine, {}, what));
  std::unique_ptr<Bytes> buffer;
  check_entry(Kind::broadcast, 0, core::capture([&] {
                buffer = std::make_unique<Bytes>();
                core::resize_or_report(*buffer, size);
                if (rank_ == root) {
                  std::copy(bytes.begin(), bytes.end(), buffer->begin());
                }
              }),
              what);
  try {
    in_pieces(size, what, [&](std::size_t first, int piece) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Ibcast(buffer->data() + first, piece, MPI_BYTE, root, comm_, &request), "MPI_Ibcast");
      wait(request, what);
    });
  } catch (...) {
    static_cast<void>(buffer.release());  // MPI may still read and write there
    throw;
  }
  bytes = std::move(*buffer);
}

std::vector<Bytes> Communicator::gather(std::span<const std::byte> mine, std::string_view what) {
  check_entry(Kind::gather, 0, {}, what);
  Prepared& p = *prepared_;
  p.sizes_out[0] = mine.size();
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Igather(p.sizes_out.data(), 1, MPI_UINT64_T, p.sizes_in.data(), 1, MPI_UINT64_T, 0, comm_, &request),
            "MPI_Igather");
  wait(request, what);

  std::unique_ptr<PartBuffers> buffers;
  check_entry(Kind::gather, 0, core::capture([&] {
                buffers = std::make_unique<PartBuffers>();
                auto& b = *buffers;
                if (!is_rank_0()) {
                  core::resize_or_report(b.mine, mine.size());
                  std::copy(mine.begin(), mine.end(), b.mine.begin());
                  b.sends.push_back({0, b.mine.data(), b.mine.size()});
                  b.requests.resize(1);
                  return;
                }
                b.parts.resize(p.sizes_in.size());
                for (int rank = 0; rank < size_; ++rank) {
                  Bytes& part = b.parts[static_cast<std::size_t>(rank)];
                  core::resize_or_report(part, p.sizes_in[static_cast<std::size_t>(rank)]);
                  if (rank != rank_) {
                    b.receives.push_back({rank, part.data(), part.size()});
                  }
                }
                std::copy(mine.begin(), mine.end(), b.parts.front().begin());
                b.requests.resize(b.receives.size());
              }),
              what);
  transfer(buffers, what);
  return std::move(buffers->parts);
}

/// To or from all other ranks that have a part.
std::vector<Communicator::Stream> Communicator::streams_of(Parts& parts) const {
  std::vector<Stream> streams;
  std::byte* next = parts.bytes.data();
  for (int peer = 0; peer < size_; ++peer) {
    const std::size_t size = parts.sizes[static_cast<std::size_t>(peer)];
    if (peer != rank_ && size > 0) {
      streams.push_back({peer, next, size});
    }
    next += size;
  }
  return streams;
}

void Communicator::exchange(Parts& mine, Parts& theirs, std::string_view what, const core::Outcome& failure) {
  Prepared& p = *prepared_;
  check_entry(Kind::exchange, 0, failure ? failure : check_parts(mine.sizes.size(), size_), what);
  std::copy(mine.sizes.begin(), mine.sizes.end(), p.sizes_out.begin());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ialltoall(p.sizes_out.data(), 1, MPI_UINT64_T, p.sizes_in.data(), 1, MPI_UINT64_T, comm_, &request),
            "MPI_Ialltoall");
  wait(request, what);

  std::unique_ptr<PartBuffers> buffers;
  check_entry(Kind::exchange, 0, core::capture([&] {
                buffers = std::make_unique<PartBuffers>();
                auto& b = *buffers;
                core::resize_or_report(theirs.bytes, total(p.sizes_in));
                theirs.sizes.assign(p.sizes_in.begin(), p.sizes_in.end());
                if (total(p.sizes_out) > mine.bytes.size()) {
                  throw Error(ErrorCode::internal, "the parts of an exchange are smaller than they are said to be");
                }
                b.out = std::move(mine);
                b.in = std::move(theirs);
                b.sends = streams_of(b.out);
                b.receives = streams_of(b.in);
                b.requests.resize(b.sends.size() + b.receives.size());
              }),
              what);
  auto& b = *buffers;
  // What stays here needs no message.
  const auto before = [&](const Parts& parts) {
    return std::accumulate(parts.sizes.begin(), parts.sizes.begin() + rank_, std::size_t{0});
  };
  std::copy_n(b.out.bytes.begin() + static_cast<std::ptrdiff_t>(before(b.out)),
              b.out.sizes[static_cast<std::size_t>(rank_)],
              b.in.bytes.begin() + static_cast<std::ptrdiff_t>(before(b.in)));
  transfer(buffers, what);
  mine = std::move(buffers->out);
  theirs = std::move(buffers->in);
}

Bytes Communicator::scatter(const std::vector<Bytes>& parts, std::string_view what) {
  Parts mine;
  Parts theirs;
  const core::Outcome prepared = core::capture([&] {
    mine.sizes.resize(static_cast<std::size_t>(size_));
    if (is_rank_0()) {
      mine.sizes.clear();
      for (const Bytes& part : parts) {
        mine.sizes.push_back(part.size());
        mine.bytes.insert(mine.bytes.end(), part.begin(), part.end());
      }
    }
  });
  exchange(mine, theirs, what, prepared);
  return std::move(theirs.bytes);
}

// Bytes that all ranks read. The ranks of a node share one memory for them where that can be:
//  1. the rank that has them sends them to the leader of its node; the leaders broadcast them among themselves;
//  2. a leader sends the ranks of its node their address, and they read its memory;
//  3. where a rank cannot, the ranks of its node get copies instead.
// Every rank takes part in the entry checks between the pieces, so that nobody waits longer than the time limit for
// all.

/// Memory for common bytes, and what is sent about it. It is left to MPI if anything fails.
struct Communicator::CommonMemory {
  std::optional<core::SharedMemory> shared;
  std::vector<std::uint64_t> own;
  core::SharedMemoryAddress address;
  int is_missing = 0;  ///< this rank cannot read the leader's memory
  int any_missing = 0;

  void take_own(std::uint64_t bytes) {
    shared.reset();
    core::resize_or_report(own, (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  }
  [[nodiscard]] std::byte* bytes() {
    return shared ? shared->bytes().data() : std::as_writable_bytes(std::span(own)).data();
  }
};

const Communicator::Nodes& Communicator::nodes(std::string_view what) {
  if (nodes_) {
    return *nodes_;
  }
  std::unique_ptr<Nodes> made;
  check_entry(Kind::barrier, 0, core::capture([&] { made = std::make_unique<Nodes>(); }), what);
  check_mpi(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &made->node), "MPI_Comm_split_type");
  check_mpi(MPI_Comm_set_errhandler(made->node, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(made->node, &made->rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(made->node, &made->size), "MPI_Comm_size");
  check_mpi(MPI_Comm_split(comm_, made->leads() ? 0 : MPI_UNDEFINED, rank_, &made->leaders), "MPI_Comm_split");
  if (made->leads()) {
    check_mpi(MPI_Comm_set_errhandler(made->leaders, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    made->leader.rank = rank_;
    check_mpi(MPI_Comm_rank(made->leaders, &made->leader.number), "MPI_Comm_rank");
  }
  nodes_ = std::move(made);
  try {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(&nodes_->leader, sizeof nodes_->leader, MPI_BYTE, 0, nodes_->node, &request), "MPI_Ibcast");
    wait(request, what);
  } catch (...) {
    static_cast<void>(nodes_.release());
    throw;
  }
  return *nodes_;
}

bool Communicator::is_node_leader() { return nodes("finding the ranks of this node").leads(); }

CommonBytes Communicator::broadcast_common(std::size_t size, const std::function<void(std::span<std::byte>)>& fill,
                                           int root, std::string_view what) {
  const bool is_root = rank_ == root;
  const Nodes alone{MPI_COMM_SELF, comm_, 0, 1, {rank_, rank_}};
  const Nodes& nodes = size < sharing_.least_bytes ? alone : this->nodes(what);
  std::unique_ptr<CommonMemory> memory;
  const auto first_leader = check_entry(Kind::broadcast, is_root ? nodes.leader.number : 0, core::capture([&] {
                                          memory = std::make_unique<CommonMemory>();
                                          if (nodes.leads() && nodes.size > 1 && sharing_.possible) {
                                            memory->shared = core::SharedMemory::create(size);
                                          }
                                          if ((nodes.leads() && !memory->shared) || (is_root && !nodes.leads())) {
                                            memory->take_own(size);
                                          }
                                          if (is_root) {
                                            fill({memory->bytes(), size});
                                          }
                                        }),
                                        what);
  bool is_first = nodes.leads();
  try {
    bring_to_leaders(nodes, *memory, size, root, static_cast<int>(first_leader), what);
    is_first = nodes.is_alone() || !share_on_node(nodes, *memory, size, what) || is_first;
  } catch (...) {
    static_cast<void>(memory.release());
    throw;
  }
  const std::span<const std::byte> bytes(memory->bytes(), size);
  return {bytes, std::shared_ptr<const void>(std::shared_ptr<CommonMemory>(std::move(memory))), is_first};
}

void Communicator::bring_to_leaders(const Nodes& nodes, CommonMemory& memory, std::uint64_t total, int root,
                                    int first_leader, std::string_view what) {
  const bool is_root = rank_ == root;
  const bool is_first_leader = nodes.leads() && nodes.leader.number == first_leader;
  in_pieces(total, what, [&](std::size_t first, int size) {
    if (!is_root && !nodes.leads()) {
      return;  // has no memory yet
    }
    std::byte* const piece = memory.bytes() + first;
    MPI_Request request = MPI_REQUEST_NULL;
    if (is_root && !nodes.leads()) {
      check_mpi(MPI_Isend(piece, size, MPI_BYTE, nodes.leader.rank, kCommonTag, comm_, &request), "MPI_Isend");
      wait(request, what);
    } else if (is_first_leader && !is_root) {
      check_mpi(MPI_Irecv(piece, size, MPI_BYTE, root, kCommonTag, comm_, &request), "MPI_Irecv");
      wait(request, what);
    }
    if (nodes.leads()) {
      check_mpi(MPI_Ibcast(piece, size, MPI_BYTE, first_leader, nodes.leaders, &request), "MPI_Ibcast");
      wait(request, what);
    }
  });
}

bool Communicator::share_on_node(const Nodes& nodes, CommonMemory& memory, std::uint64_t total, std::string_view what) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (nodes.size > 1) {
    if (memory.shared) {
      memory.address = memory.shared->address();
    }
    check_mpi(MPI_Ibcast(&memory.address, sizeof memory.address, MPI_BYTE, 0, nodes.node, &request), "MPI_Ibcast");
    wait(request, what);
    if (!nodes.leads() && sharing_.possible) {
      memory.shared = core::SharedMemory::open(memory.address);
    }
    memory.is_missing = memory.shared ? 0 : 1;
    check_mpi(MPI_Iallreduce(&memory.is_missing, &memory.any_missing, 1, MPI_INT, MPI_MAX, nodes.node, &request),
              "MPI_Iallreduce");
    wait(request, what);
  }
  const bool copies = memory.any_missing != 0;
  const bool any_copies = check_entry(Kind::broadcast, copies ? 1 : 0, {}, what) != 0;
  if (nodes.leads() && memory.shared) {
    memory.shared->close_door();
  }
  if (any_copies) {
    check_entry(Kind::broadcast, 0, core::capture([&] {
                  if (copies && !nodes.leads()) {
                    memory.take_own(total);
                  }
                }),
                what);
    in_pieces(total, what, [&](std::size_t first, int size) {
      if (copies) {
        check_mpi(MPI_Ibcast(memory.bytes() + first, size, MPI_BYTE, 0, nodes.node, &request), "MPI_Ibcast");
        wait(request, what);
      }
    });
  } else if (!nodes.leads()) {
    std::vector<std::uint64_t>().swap(memory.own);  // those of the rank that had the bytes
  }
  return !copies;
}

}  // namespace reprieve::cluster
