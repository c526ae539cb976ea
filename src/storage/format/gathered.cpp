// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/gathered.hpp"

#include <utility>

#include "storage/format/description_message.hpp"

namespace reprieve::storage {

std::vector<Box> GatheredVariable::boxes() const {
  std::vector<Box> boxes;
  for_each_box([&](std::size_t, std::span<const std::uint64_t> offset, std::span<const std::uint64_t> extent) {
    boxes.push_back({Extents(offset.begin(), offset.end()), Extents(extent.begin(), extent.end())});
  });
  return boxes;
}

Gathered gather_numbers(std::vector<Description> chiefs, std::vector<Bytes> numbers) {
  Gathered all{numbers.size()};
  all.variables.reserve(chiefs.size());
  for (Description& description : chiefs) {
    all.variables.push_back({std::move(description)});
  }
  for (Bytes& of_rank : numbers) {
    const Bytes message = std::exchange(of_rank, {});  // freed here: both forms at once would be twice the memory
    Decoder decoder(message);
    for (GatheredVariable& variable : all.variables) {
      const bool is_first = variable.numbers.empty();
      take_numbers(decoder, variable.chiefs, variable.numbers);
      if (is_first) {
        variable.numbers.reserve(variable.numbers.size() * all.ranks);  // enough if all ranks have as much
      }
    }
  }
  return all;
}

}  // namespace reprieve::storage
