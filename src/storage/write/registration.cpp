// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/registration.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "reprieve/error.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/format/layout.hpp"

namespace reprieve::storage {

std::vector<DescriptionMessage> send_to_rank_0(cluster::Communicator& comm, DescriptionMessage mine, bool same_facts,
                                               std::string_view what) {
  std::vector<DescriptionMessage> messages;
  for (Bytes& numbers : comm.gather(mine.numbers, what)) {
    messages.push_back({{}, std::move(numbers)});
  }
  if (!same_facts) {
    std::vector<Bytes> facts = comm.gather(mine.facts, what);
    for (std::size_t rank = 0; rank < facts.size(); ++rank) {
      messages[rank].facts = std::move(facts[rank]);
    }
  } else if (comm.is_rank_0()) {
    messages.front().facts = std::move(mine.facts);
  }
  return messages;
}

namespace {

using state::Distribution;
constexpr const char* kComparing = "comparing what the ranks registered";

/// A variable as far as it is known from its registration alone. The shapes of values are not: they may differ until
/// the first save; only where dimensions are named is their number checked.
Description declared(const std::string& name, const state::Variable& variable) {
  Description known = describe_registration(name, variable);
  if (variable.value) {
    known.type = variable.value->type();
    state::check_members(name, variable.members, known.type);
    if (!variable.annotation->dims.empty()) {
      state::check_dimension_names(name, variable.annotation, variable.value->shape().size());
    }
  }
  if (const auto& layout = variable.declared) {
    known.type = layout->type;
    known.shape = layout->global_shape;
    for (const MemoryBox& box : layout->boxes) {
      if (volume(box.extent) > 0) {
        known.boxes.push_back({box.offset, box.extent});
      }
    }
  }
  return known;
}

std::vector<Description> all_declared(const Checkpoint::Registry& registry) {
  std::vector<Description> variables;
  variables.reserve(registry.variables.size());
  for (const auto& [name, variable] : registry.variables) {
    variables.push_back(declared(name, variable));
  }
  return variables;
}

/// Rank 0 plans a file for them, which finds all that is wrong.
void compare_on_rank_0(cluster::Communicator& comm, DescriptionMessage mine, bool same_facts) {
  auto messages = send_to_rank_0(comm, std::move(mine), same_facts, kComparing);
  comm.on_rank_0([&] { static_cast<void>(plan_file(std::move(messages), {}, Chunking::none)); }, kComparing);
}

/// All of them, one after the other.
std::string constants_text(const Checkpoint::Registry& registry) {
  std::string text;
  for (const auto& [name, constant] : registry.constants) {
    text += "'" + name + "': " + (constant.is_file ? "file " : "") + "'" + constant.text + "', ";
  }
  return text.substr(0, text.size() - (text.empty() ? 0 : 2));
}

void check_same_constants(cluster::Communicator& comm, const std::string& mine) {
  if (comm.compare(xxh3(std::as_bytes(std::span(mine))), 0, kComparing).is_equal) {
    return;
  }
  const std::string expected = comm.from_root(mine, 0, kComparing);
  comm.agree(core::capture([&] {
               if (mine != expected) {
                 throw MismatchError("the ranks registered different constants:\n  rank 0: " + expected + "\n  rank " +
                                     std::to_string(comm.rank()) + ": " + mine);
               }
             }),
             kComparing);
}

void compare_registration(cluster::Communicator& comm, const Checkpoint::Registry& registry) {
  std::vector<Description> variables = all_declared(registry);
  check_same_constants(comm, constants_text(registry));
  DescriptionMessage mine = encode_descriptions(variables);
  const bool same_facts = comm.compare(xxh3(mine.facts), 0, kComparing).is_equal;
  if (same_facts) {
    std::erase_if(variables, [](const Description& description) {
      return description.distribution != Distribution::distributed || description.shape.empty() ||
             description.is_shared;
    });
    if (variables.empty()) {
      return;  // on all ranks alike
    }
    mine = encode_descriptions(variables);
  }
  compare_on_rank_0(comm, std::move(mine), same_facts);
}

}  // namespace

void check_registration(cluster::Communicator& comm, const Checkpoint::Registry& registry) {
  comm.together([&] { compare_registration(comm, registry); }, kComparing);
}

void check_declared_memory(cluster::Communicator& comm, const Checkpoint::Registry& registry) {
  comm.agree(core::capture([&] {
               const devices::Spaces spaces;
               for (const auto& [name, variable] : registry.variables) {
                 if (variable.declared) {
                   DistributedArray array = variable.describe();
                   state::check_array(name, array, spaces, variable.space.get());
                 }
               }
             }),
             "looking at the registered memory");
}

void check_descriptions(cluster::Communicator& comm, const Checkpoint::Registry& registry) {
  const bool are_all_declared = std::ranges::all_of(registry.variables, [](const auto& entry) {
    return entry.second.distribution != Distribution::distributed || entry.second.declared != nullptr;
  });
  if (are_all_declared) {
    return;  // on all ranks alike: their registrations have been compared
  }
  const auto compare = [&] {
    DescriptionMessage mine = encode_descriptions(collect_variables(registry));
    const bool same_facts = comm.compare(xxh3(mine.facts), 0, kComparing).is_equal;
    compare_on_rank_0(comm, std::move(mine), same_facts);
  };
  comm.together(compare, kComparing);
}

}  // namespace reprieve::storage
