// SPDX-License-Identifier: BSD-3-Clause
// Bytes that all ranks look at, in memory that is one for all ranks of a node where that can be:
//  1. the rank that has them brings them to the leader of its node; the leaders broadcast them among themselves;
//  2. a leader tells the ranks of its node where they are, and they look at its memory;
//  3. where a rank cannot, the ranks of its node get copies instead.
// Every rank takes part in the meetings between the pieces, so that nobody waits longer than the time limit for all.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "cluster/communicator.hpp"
#include "cluster/nodes.hpp"
#include "cluster/prepared.hpp"
#include "core/no_memory.hpp"
#include "core/shared_memory.hpp"

namespace reprieve::cluster {

namespace {

/// Other than those of the presence check and of the parts of ranks.
constexpr int kCommonTag = 3;

}  // namespace

/// Memory for common bytes, and what is sent about it. It is left to MPI if anything fails.
struct Communicator::CommonMemory {
  std::optional<core::SharedMemory> shared;
  std::vector<std::uint64_t> own;
  core::SharedMemoryAddress address;
  int is_missing = 0;  ///< this rank cannot look at the leader's memory
  int any_missing = 0;

  void take_own(std::uint64_t bytes) {
    shared.reset();
    core::resize_or_tell(own, (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  }
  [[nodiscard]] std::byte* bytes() {
    return shared ? shared->bytes().data() : std::as_writable_bytes(std::span(own)).data();
  }
};

/// Calls @p send(first byte, size) for pieces of @p total bytes, with a meeting between two of them.
template <class Send>
void Communicator::in_pieces(std::uint64_t total, std::string_view what, Send&& send) {
  for (std::uint64_t done = 0; done < total;) {
    if (done > 0) {
      meet(Kind::broadcast, 0, {}, what);
    }
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes_, total - done));
    send(static_cast<std::size_t>(done), static_cast<int>(size));
    done += size;
  }
}

const Communicator::Nodes& Communicator::nodes(std::string_view what) {
  if (nodes_) {
    return *nodes_;
  }
  std::unique_ptr<Nodes> made;
  meet(Kind::barrier, 0, core::capture([&] { made = std::make_unique<Nodes>(); }), what);
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
  const auto first_leader = meet(Kind::broadcast, is_root ? nodes.leader.number : 0, core::capture([&] {
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
  const bool any_copies = meet(Kind::broadcast, copies ? 1 : 0, {}, what) != 0;
  if (nodes.leads() && memory.shared) {
    memory.shared->close_door();
  }
  if (any_copies) {
    meet(Kind::broadcast, 0, core::capture([&] {
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
