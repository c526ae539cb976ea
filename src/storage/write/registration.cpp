#include "storage/write/registration.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "reprieve/error.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/format/description.hpp"
#include "storage/format/layout.hpp"

namespace reprieve::storage {

namespace {

using Bytes = cluster::Bytes;
using state::Distribution;
constexpr const char* kComparing = "comparing what the ranks registered";

/// A variable as far as it is known from its registration alone. The shapes of values are not: they may differ until
/// the first save; only where dimensions are named is their number looked at.
LocalVariable declared(const std::string& name, const state::Variable& variable) {
  LocalVariable known;
  known.description.name = name;
  known.description.distribution = variable.distribution;
  known.description.is_shared = variable.shared;
  known.description.annotation = variable.annotation;
  known.description.members = variable.members;
  check_texts(name, variable.annotation);
  check_member_names(name, variable.members);
  if (variable.value) {
    known.description.type = variable.value->type();
    state::check_members(name, variable.members, known.description.type);
    if (!variable.annotation.dims.empty()) {
      state::check_dimension_names(name, variable.annotation, variable.value->shape().size());
    }
  }
  if (const auto& layout = variable.declared) {
    known.description.type = layout->type;
    known.description.shape = layout->global_shape;
    for (const MemoryBox& box : layout->boxes) {
      if (volume(box.extent) > 0) {
        known.description.boxes.push_back({box.offset, box.extent});
      }
    }
  }
  return known;
}

std::vector<LocalVariable> all_declared(const Checkpoint::Registry& registry) {
  std::vector<LocalVariable> variables;
  for (const auto& [name, variable] : registry.variables) {
    variables.push_back(declared(name, variable));
  }
  return variables;
}

/// The same on all ranks if they registered the same: without the boxes, which differ.
std::int64_t digest_of(std::vector<LocalVariable> variables) {
  for (LocalVariable& variable : variables) {
    variable.description.boxes.clear();
  }
  return static_cast<std::int64_t>(xxh3(encode_descriptions(variables)));
}

bool equal_on_all_ranks(cluster::Communicator& comm, std::int64_t digest) {
  const std::int64_t greatest = comm.max(digest, kComparing);
  return comm.max(digest == greatest ? 0 : 1, kComparing) == 0;
}

std::vector<std::vector<Description>> decode_messages(const std::vector<Bytes>& messages) {
  std::vector<std::vector<Description>> by_rank;
  std::transform(messages.begin(), messages.end(), std::back_inserter(by_rank),
                 [](const Bytes& message) { return decode_descriptions(message); });
  return by_rank;
}

/// The chief plans a file for them, which finds all that is wrong.
void compare_on_chief(cluster::Communicator& comm, const std::vector<LocalVariable>& variables) {
  const std::vector<Bytes> messages = comm.gather(encode_descriptions(variables), kComparing);
  comm.on_chief([&] { static_cast<void>(plan_file(decode_messages(messages), {})); }, kComparing);
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
  if (equal_on_all_ranks(comm, static_cast<std::int64_t>(xxh3(std::as_bytes(std::span(mine)))))) {
    return;
  }
  cluster::Bytes chiefs = cluster::to_bytes(mine);
  comm.broadcast(chiefs, 0, kComparing);
  comm.agree(core::capture([&] {
               if (const std::string expected = cluster::to_text(chiefs); mine != expected) {
                 throw MismatchError("the ranks registered different constants:\n  rank 0: " + expected + "\n  rank " +
                                     std::to_string(comm.rank()) + ": " + mine);
               }
             }),
             kComparing);
}

void compare_registration(cluster::Communicator& comm, const Checkpoint::Registry& registry) {
  std::vector<LocalVariable> variables = all_declared(registry);
  check_same_constants(comm, constants_text(registry));
  if (equal_on_all_ranks(comm, digest_of(variables))) {
    std::erase_if(variables, [](const LocalVariable& variable) {
      const Description& description = variable.description;
      return description.distribution != Distribution::distributed || description.shape.empty() ||
             description.is_shared;
    });
    if (variables.empty()) {
      return;  // on all ranks alike
    }
  }
  compare_on_chief(comm, variables);
}

}  // namespace

void check_registration(cluster::Communicator& comm, const Checkpoint::Registry& registry) {
  comm.together([&] { compare_registration(comm, registry); }, kComparing);
}

void check_descriptions(cluster::Communicator& comm, const Checkpoint::Registry& registry) {
  const bool are_all_declared =
      std::all_of(registry.variables.begin(), registry.variables.end(), [](const auto& entry) {
        return entry.second.distribution != Distribution::distributed || entry.second.declared.has_value();
      });
  if (are_all_declared) {
    return;  // on all ranks alike: their registrations have been compared
  }
  comm.together([&] { compare_on_chief(comm, collect_variables(registry)); }, kComparing);
}

}  // namespace reprieve::storage
