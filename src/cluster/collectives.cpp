// SPDX-License-Identifier: BSD-3-Clause
// The operations of a communicator that carry data. Each is: a meeting; the sizes; the memory; a meeting in which all
// ranks say that they have it; the data, in pieces.

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "cluster/communicator.hpp"
#include "cluster/prepared.hpp"
#include "core/no_memory.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

namespace {

/// Other than that of the presence check.
constexpr int kDataTag = 2;

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

template <class Buffers>
void Communicator::transfer(std::unique_ptr<Buffers>& buffers, std::string_view what) {
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

void Communicator::broadcast_pieces(std::unique_ptr<Bytes>& buffer, int root, std::string_view what) {
  try {
    for (std::size_t done = 0; done < buffer->size();) {
      const std::size_t size = std::min(piece_bytes_, buffer->size() - done);
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Ibcast(buffer->data() + done, static_cast<int>(size), MPI_BYTE, root, comm_, &request),
                "MPI_Ibcast");
      wait(request, what);
      done += size;
    }
  } catch (...) {
    static_cast<void>(buffer.release());
    throw;
  }
}

void Communicator::broadcast(Bytes& bytes, int root, std::string_view what) {
  const std::int64_t mine = rank_ == root ? static_cast<std::int64_t>(bytes.size()) : 0;
  const auto size = static_cast<std::uint64_t>(meet(Kind::broadcast, mine, {}, what));
  std::unique_ptr<Bytes> buffer;
  meet(Kind::broadcast, 0, core::capture([&] {
         buffer = std::make_unique<Bytes>();
         core::resize_or_tell(*buffer, size);
         if (rank_ == root) {
           std::copy(bytes.begin(), bytes.end(), buffer->begin());
         }
       }),
       what);
  broadcast_pieces(buffer, root, what);
  bytes = std::move(*buffer);
}

std::vector<Bytes> Communicator::gather(std::span<const std::byte> mine, std::string_view what) {
  meet(Kind::gather, 0, {}, what);
  Prepared& p = *prepared_;
  p.sizes_out[0] = mine.size();
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Igather(p.sizes_out.data(), 1, MPI_UINT64_T, p.sizes_in.data(), 1, MPI_UINT64_T, 0, comm_, &request),
            "MPI_Igather");
  wait(request, what);

  std::unique_ptr<PartBuffers> buffers;
  meet(Kind::gather, 0, core::capture([&] {
         buffers = std::make_unique<PartBuffers>();
         auto& b = *buffers;
         if (!is_chief()) {
           core::resize_or_tell(b.mine, mine.size());
           std::copy(mine.begin(), mine.end(), b.mine.begin());
           b.sends.push_back({0, b.mine.data(), b.mine.size()});
           b.requests.resize(1);
           return;
         }
         b.parts.resize(p.sizes_in.size());
         for (int rank = 0; rank < size_; ++rank) {
           Bytes& part = b.parts[static_cast<std::size_t>(rank)];
           core::resize_or_tell(part, p.sizes_in[static_cast<std::size_t>(rank)]);
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

Bytes Communicator::scatter(const std::vector<Bytes>& parts, std::string_view what) {
  Prepared& p = *prepared_;
  meet(Kind::scatter, 0, is_chief() ? check_parts(parts.size(), size_) : core::Outcome{}, what);
  if (is_chief()) {
    std::transform(parts.begin(), parts.end(), p.sizes_out.begin(), [](const Bytes& part) { return part.size(); });
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iscatter(p.sizes_out.data(), 1, MPI_UINT64_T, p.sizes_in.data(), 1, MPI_UINT64_T, 0, comm_, &request),
            "MPI_Iscatter");
  wait(request, what);

  std::unique_ptr<PartBuffers> buffers;
  meet(Kind::scatter, 0, core::capture([&] {
         buffers = std::make_unique<PartBuffers>();
         auto& b = *buffers;
         core::resize_or_tell(b.mine, p.sizes_in.front());
         if (!is_chief()) {
           b.receives.push_back({0, b.mine.data(), b.mine.size()});
           b.requests.resize(1);
           return;
         }
         std::copy(parts.front().begin(), parts.front().end(), b.mine.begin());
         b.parts.assign(parts.begin() + 1, parts.end());
         for (std::size_t i = 0; i < b.parts.size(); ++i) {
           b.sends.push_back({static_cast<int>(i) + 1, b.parts[i].data(), b.parts[i].size()});
         }
         b.requests.resize(b.sends.size());
       }),
       what);
  transfer(buffers, what);
  return std::move(buffers->mine);
}

void Communicator::exchange(Parts& mine, Parts& theirs, std::string_view what, const core::Outcome& failure) {
  Prepared& p = *prepared_;
  meet(Kind::exchange, 0, failure ? failure : check_parts(mine.sizes.size(), size_), what);
  std::copy(mine.sizes.begin(), mine.sizes.end(), p.sizes_out.begin());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ialltoall(p.sizes_out.data(), 1, MPI_UINT64_T, p.sizes_in.data(), 1, MPI_UINT64_T, comm_, &request),
            "MPI_Ialltoall");
  wait(request, what);

  struct Buffers {
    Parts out;
    Parts in;
    std::vector<Stream> sends;
    std::vector<Stream> receives;
    std::vector<MPI_Request> requests;

    static void lay_out(Parts& parts, int rank, std::vector<Stream>& streams) {
      std::byte* next = parts.bytes.data();
      for (std::size_t peer = 0; peer < parts.sizes.size(); ++peer) {
        if (static_cast<int>(peer) != rank && parts.sizes[peer] > 0) {
          streams.push_back({static_cast<int>(peer), next, parts.sizes[peer]});
        }
        next += parts.sizes[peer];
      }
    }
  };
  std::unique_ptr<Buffers> buffers;
  meet(Kind::exchange, 0, core::capture([&] {
         buffers = std::make_unique<Buffers>();
         auto& b = *buffers;
         core::resize_or_tell(theirs.bytes, total(p.sizes_in));
         theirs.sizes.assign(p.sizes_in.begin(), p.sizes_in.end());
         if (total(p.sizes_out) > mine.bytes.size()) {
           throw Error(ErrorCode::internal, "the parts of an exchange are smaller than they are said to be");
         }
         b.out = std::move(mine);
         b.in = std::move(theirs);
         Buffers::lay_out(b.out, rank_, b.sends);
         Buffers::lay_out(b.in, rank_, b.receives);
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

}  // namespace reprieve::cluster
