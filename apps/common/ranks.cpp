// SPDX-License-Identifier: BSD-3-Clause
#include "common/ranks.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <reprieve/error.hpp>

namespace apps {
namespace {

/// MPI counts are ints.
int to_count(std::size_t value) {
  if (value > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw reprieve::UsageError("too many elements for one MPI call: " + std::to_string(value));
  }
  return static_cast<int>(value);
}

/// Counts and displacements of slices or pieces that lie one after the other.
struct Blocks {
  std::vector<int> counts;
  std::vector<int> offsets;

  explicit Blocks(std::vector<int> sizes) : counts(std::move(sizes)), offsets(counts.size()) {
    const auto total = std::accumulate(counts.begin(), counts.end(), std::size_t{0},
                                       [](std::size_t sum, int size) { return sum + static_cast<std::size_t>(size); });
    to_count(total);
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  }
};

Blocks slices(std::size_t total, std::size_t parts) {
  std::vector<int> sizes(parts);
  for (std::size_t part = 0; part < parts; ++part) {
    sizes[part] = to_count(slice_of(total, part, parts).size);
  }
  return Blocks(std::move(sizes));
}

}  // namespace

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(result, text.data(), &length) != MPI_SUCCESS) {
    length = 0;
  }
  throw reprieve::MpiError(std::string(call) + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
}

Ranks::Ranks(MPI_Comm comm) : comm_(comm) {
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

std::vector<double> Ranks::sum_slice(std::span<const double> values) const {
  const Blocks sent = slices(values.size(), count());
  const std::size_t mine = my_slice(values.size()).size;
  const Blocks received(std::vector<int>(count(), to_count(mine)));
  std::vector<double> pieces(mine * count());
  check_mpi(MPI_Alltoallv(values.data(), sent.counts.data(), sent.offsets.data(), MPI_DOUBLE, pieces.data(),
                          received.counts.data(), received.offsets.data(), MPI_DOUBLE, comm_),
            "MPI_Alltoallv");
  std::vector<double> total(mine);
  for (std::size_t piece = 0; piece < count(); ++piece) {
    for (std::size_t i = 0; i < mine; ++i) {
      total[i] += pieces[piece * mine + i];
    }
  }
  return total;
}

void Ranks::all_gather_slices(std::span<double> values) const {
  const Blocks blocks = slices(values.size(), count());
  check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values.data(), blocks.counts.data(),
                           blocks.offsets.data(), MPI_DOUBLE, comm_),
            "MPI_Allgatherv");
}

void Ranks::sum(std::span<double> values) const {
  std::vector<double> all(values.size() * count());
  check_mpi(MPI_Allgather(values.data(), to_count(values.size()), MPI_DOUBLE, all.data(), to_count(values.size()),
                          MPI_DOUBLE, comm_),
            "MPI_Allgather");
  std::fill(values.begin(), values.end(), 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    values[i % values.size()] += all[i];
  }
}

Bytes Ranks::gather(std::span<const std::byte> mine) const {
  const int size = to_count(mine.size());
  std::vector<int> sizes(is_rank_0() ? count() : 0);
  check_mpi(MPI_Gather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, comm_), "MPI_Gather");
  const Blocks blocks(std::move(sizes));
  Bytes all(is_rank_0() ? static_cast<std::size_t>(blocks.offsets.back() + blocks.counts.back()) : 0);
  check_mpi(MPI_Gatherv(mine.data(), size, MPI_BYTE, all.data(), blocks.counts.data(), blocks.offsets.data(), MPI_BYTE,
                        0, comm_),
            "MPI_Gatherv");
  return all;
}

std::vector<std::uint64_t> Ranks::all_gather(std::uint64_t value) const {
  std::vector<std::uint64_t> values(count());
  check_mpi(MPI_Allgather(&value, 1, MPI_UINT64_T, values.data(), 1, MPI_UINT64_T, comm_), "MPI_Allgather");
  return values;
}

void Ranks::broadcast(std::string& text, int root) const {
  std::uint64_t size = text.size();
  check_mpi(MPI_Bcast(&size, 1, MPI_UINT64_T, root, comm_), "MPI_Bcast");
  text.resize(size);
  check_mpi(MPI_Bcast(text.data(), to_count(size), MPI_CHAR, root, comm_), "MPI_Bcast");
}

void Ranks::on_every_rank(const std::function<void()>& operation) const {
  std::uint64_t mine = 0;  // of reprieve::ErrorCode; 0: none
  std::string message;
  try {
    operation();
  } catch (const reprieve::Error& error) {
    mine = static_cast<std::uint64_t>(error.code());
    message = error.what();
  } catch (const std::exception& error) {
    mine = static_cast<std::uint64_t>(reprieve::ErrorCode::cluster);
    message = error.what();
  }
  const std::vector<std::uint64_t> codes = all_gather(mine);
  const auto failed = std::ranges::find_if(codes, [](std::uint64_t code) { return code != 0; });
  if (failed == codes.end()) {
    return;
  }
  const auto origin = static_cast<int>(failed - codes.begin());
  broadcast(message, origin);
  reprieve::throw_error(static_cast<reprieve::ErrorCode>(*failed), message, origin);
}

}  // namespace apps
