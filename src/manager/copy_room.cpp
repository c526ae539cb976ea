// SPDX-License-Identifier: BSD-3-Clause
#include "manager/copy_room.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/log.hpp"
#include "storage/bytes/codec.hpp"

namespace reprieve::manager {

namespace {

/// One part in so many stays free.
constexpr std::uint64_t kFreePart = 16;

struct Shared {
  std::uint64_t needed = 0;
  std::uint64_t available = UINT64_MAX;

  void add(std::uint64_t bytes, std::uint64_t left) {
    needed += bytes;
    available = std::min(available, left);
  }
  [[nodiscard]] bool is_too_small() const { return needed > available - available / kFreePart; }
};

cluster::Bytes encode(const CopyDemand& demand) {
  storage::Encoder message;
  message.text(demand.host);
  message.word(demand.bytes);
  message.word(demand.available.of_node);
  message.word(demand.available.of_group);
  message.text(demand.available.group);
  return message.take();
}

CopyDemand decode(const cluster::Bytes& bytes) {
  storage::Decoder message(bytes);
  CopyDemand demand;
  demand.host = message.text();
  demand.bytes = message.word();
  demand.available.of_node = message.word();
  demand.available.of_group = message.word();
  demand.available.group = message.text();
  return demand;
}

}  // namespace

std::string why_copies_do_not_fit(std::span<const CopyDemand> demands) {
  std::map<std::pair<std::string, std::string>, Shared> places;  // host; its control group, or nothing
  for (const CopyDemand& demand : demands) {
    places[{demand.host, ""}].add(demand.bytes, demand.available.of_node);
    if (!demand.available.group.empty()) {
      places[{demand.host, demand.available.group}].add(demand.bytes, demand.available.of_group);
    }
  }
  for (const auto& [place, shared] : places) {
    if (shared.is_too_small()) {
      return fmt::format("copies of the state need {} bytes on {}{}, and {} are available", shared.needed, place.first,
                         place.second.empty() ? "" : " in the control group " + place.second, shared.available);
    }
  }
  return {};
}

bool copies_fit(cluster::Communicator& comm, std::uint64_t bytes, const std::string& what, bool tells) {
  if (comm.max(static_cast<std::int64_t>(bytes), what) == 0) {
    return true;  // all have memory from the last time
  }
  const auto all = comm.gather(encode({comm.host(), bytes, core::available_memory()}), what);
  std::string reason;
  comm.on_chief(
      [&] {
        std::vector<CopyDemand> demands;
        std::ranges::transform(all, std::back_inserter(demands), decode);
        reason = why_copies_do_not_fit(demands);
      },
      what);
  if (!reason.empty() && tells) {
    core::log::warning("{}", reason);
  }
  return comm.max(reason.empty() ? 0 : 1, what) == 0;
}

}  // namespace reprieve::manager
