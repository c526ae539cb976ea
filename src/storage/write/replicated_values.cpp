// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/replicated_values.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "core/log.hpp"
#include "core/outcome.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/format/blocks.hpp"

namespace reprieve::storage {

namespace {

constexpr std::size_t kMostBytesOfOne = std::size_t{4} << 20U;
constexpr std::size_t kMostBytesOfAll = std::size_t{64} << 20U;

/// A long double has bytes that are no part of its value.
bool has_padding(const ElementType& type) {
  return sizeof(long double) > sizeof(double) &&
         ((type.element_class == ElementClass::floating && type.size_bytes == sizeof(long double)) ||
          (type.element_class == ElementClass::complex && type.size_bytes == 2 * sizeof(long double)));
}

bool is_compared(const LocalVariable& variable) {
  return variable.description.distribution == state::Distribution::replicated &&
         variable.description.type.element_class != ElementClass::opaque && !has_padding(variable.description.type) &&
         variable.views.size() == 1 && variable.views.front().space == nullptr;
}

/// One for each variable; 0 of those that are not compared.
std::vector<std::uint64_t> digests_of(const std::vector<LocalVariable>& variables) {
  std::vector<std::uint64_t> digests(variables.size());
  std::size_t left = kMostBytesOfAll;
  for (std::size_t v = 0; v < variables.size(); ++v) {
    if (is_compared(variables[v])) {
      const BoxView<const std::byte>& view = variables[v].views.front();
      const std::size_t all = bytes_of(view.box, variables[v].description.type.size_bytes);
      const std::size_t looked_at = std::min({all, kMostBytesOfOne, left});
      left -= looked_at;
      digests[v] = xxh3({view.data, looked_at});
    }
  }
  return digests;
}

/// The first variable whose digest is another one than the chief's; a great number if there is none. One that lies in
/// the memory of a device on one of the two is not compared.
std::int64_t first_other(const std::vector<std::uint64_t>& digests, const cluster::Bytes& chiefs) {
  for (std::size_t v = 0; v < digests.size() && (v + 1) * sizeof(std::uint64_t) <= chiefs.size(); ++v) {
    std::uint64_t other = 0;
    std::memcpy(&other, chiefs.data() + v * sizeof other, sizeof other);
    if (digests[v] != other && digests[v] != 0 && other != 0) {
      return static_cast<std::int64_t>(v);
    }
  }
  return std::numeric_limits<std::int32_t>::max();
}

}  // namespace

void compare_replicated(cluster::Communicator& comm, const std::vector<LocalVariable>& variables,
                        const std::string& what) {
  if (comm.size() == 1) {
    return;
  }
  std::vector<std::uint64_t> digests;
  comm.agree(core::capture([&] { digests = digests_of(variables); }), what);
  const auto bytes = std::as_bytes(std::span(digests));
  if (comm.compare(xxh3(bytes), 0, what).is_equal) {
    return;
  }
  cluster::Bytes chiefs;
  comm.agree(core::capture([&] { chiefs.assign(bytes.begin(), bytes.end()); }), what);
  comm.broadcast(chiefs, 0, what);
  const std::int64_t first = -comm.max(-first_other(digests, chiefs), what);
  if (comm.is_chief() && first < std::ssize(variables)) {
    core::log::warning(
        "'{}' is registered as replicated, but it is not equal on all ranks: only the value of rank 0 is saved, and "
        "all "
        "ranks get that one at a restart. If each rank has a value of its own, register it as per_rank; if each has a "
        "part of one array, as distributed",
        variables[static_cast<std::size_t>(first)].description.name);
  }
}

}  // namespace reprieve::storage
