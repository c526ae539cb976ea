// SPDX-License-Identifier: BSD-3-Clause
#include "manager/checkpoint_order.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace reprieve::manager {

OrderEntry order_entry(std::uint64_t number, const std::optional<storage::SaveIdentity>& identity,
                       const std::string& here) {
  if (!identity) {
    return {number, Origin::uncounted};
  }
  const bool is_foreign = !here.empty() && identity->directory_id != here;
  return {number, is_foreign ? Origin::foreign : Origin::own, identity->run, identity->save, identity->directory_id};
}

OrderEntry order_entry(const CheckpointInfo& info, const std::string& here) {
  const bool is_counted = info.run > 0;
  return order_entry(
      info.number,
      is_counted ? std::optional(storage::SaveIdentity{info.directory_id, info.run, info.save}) : std::nullopt, here);
}

void sort_oldest_first(std::vector<OrderEntry>& entries) {
  std::vector<OrderEntry> unreadable;
  const auto is_unreadable = [](const OrderEntry& entry) { return entry.origin == Origin::unreadable; };
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(unreadable), is_unreadable);
  std::erase_if(entries, is_unreadable);
  const auto place = [](const OrderEntry& entry) {
    return std::tie(entry.origin, entry.run, entry.save, entry.number, entry.directory_id);
  };
  std::ranges::sort(entries, {}, place);
  std::ranges::sort(unreadable, {}, [](const OrderEntry& entry) { return entry.number; });
  for (OrderEntry& entry : unreadable) {
    // Behind the newest of those with a lower number.
    const auto lower = std::find_if(entries.rbegin(), entries.rend(),
                                    [&](const OrderEntry& other) { return other.number < entry.number; });
    entries.insert(lower.base(), std::move(entry));
  }
}

void drop_foreign(std::vector<OrderEntry>& entries) {
  const auto is_foreign = [](const OrderEntry& entry) { return entry.origin == Origin::foreign; };
  if (!std::ranges::all_of(entries, is_foreign)) {
    std::erase_if(entries, is_foreign);
  }
}

}  // namespace reprieve::manager
