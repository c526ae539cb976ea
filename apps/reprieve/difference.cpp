// SPDX-License-Identifier: BSD-3-Clause
#include "difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "storage/read/variable_reader.hpp"
#include "text.hpp"

namespace reprieve::tool {

namespace {

namespace fs = std::filesystem;
using storage::VariableInfo;
using storage::VariableReader;

/// Bytes compared at a time, per file.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

/// The variables of both files by name; null where one has none of that name.
using Pairs = std::map<std::string, std::pair<const VariableInfo*, const VariableInfo*>>;

Pairs pair_up(const std::vector<VariableInfo>& a, const std::vector<VariableInfo>& b) {
  Pairs pairs;
  for (const VariableInfo& variable : a) {
    pairs[variable.name].first = &variable;
  }
  for (const VariableInfo& variable : b) {
    pairs[variable.name].second = &variable;
  }
  return pairs;
}

/// What is not the same about the shapes: of per-rank variables the number of ranks, or the first rank that differs.
std::pair<std::string, std::string> different_shapes(const VariableInfo& a, const VariableInfo& b) {
  if (a.rank_shapes.size() != b.rank_shapes.size()) {
    return {count_text(a.rank_shapes.size(), "rank"), count_text(b.rank_shapes.size(), "rank")};
  }
  const auto [in_a, in_b] = std::ranges::mismatch(a.rank_shapes, b.rank_shapes);
  if (in_a == a.rank_shapes.end()) {
    return {shape_text(a.shape), shape_text(b.shape)};
  }
  const std::string rank = fmt::format(" on rank {}", in_a - a.rank_shapes.begin());
  return {shape_text(*in_a) + rank, shape_text(*in_b) + rank};
}

/// The first way in which the descriptions differ, leaving the data aside.
std::optional<Difference> compare_descriptions(const std::string& name, const VariableInfo* a, const VariableInfo* b) {
  const auto differ = [&](Problem problem, std::string in_a = {}, std::string in_b = {}) {
    Difference difference;
    difference.variable = name;
    difference.problem = problem;
    difference.a = std::move(in_a);
    difference.b = std::move(in_b);
    return difference;
  };
  if (a == nullptr || b == nullptr) {
    return differ(b == nullptr ? Problem::only_in_a : Problem::only_in_b);
  }
  if (a->distribution != b->distribution) {
    return differ(Problem::kind, state::to_string(a->distribution), state::to_string(b->distribution));
  }
  if (a->type != b->type) {
    return differ(Problem::type, to_string(a->type), to_string(b->type));
  }
  if (a->shape != b->shape || a->rank_shapes != b->rank_shapes) {
    auto [in_a, in_b] = different_shapes(*a, *b);
    Difference difference = differ(Problem::shape, std::move(in_a), std::move(in_b));
    difference.other_ranks = a->rank_shapes.size() != b->rank_shapes.size();
    return difference;
  }
  return std::nullopt;
}

/// The index in each dimension of the element that has @p flat before it in C order.
Extents unravel(std::uint64_t flat, const Extents& shape) {
  Extents index(shape.size());
  for (std::size_t dimension = shape.size(); dimension-- > 0;) {
    index[dimension] = flat % shape[dimension];
    flat /= shape[dimension];
  }
  return index;
}

void locate(Difference& difference, const VariableInfo& variable) {
  std::uint64_t flat = difference.comparison.first_index.value();
  if (variable.distribution != state::Distribution::per_rank) {
    difference.first_index = unravel(flat, variable.shape);
    return;
  }
  int rank = 0;
  for (const Extents& shape : variable.rank_shapes) {
    const std::uint64_t elements = storage::volume(shape);
    if (flat < elements) {
      difference.first_rank = rank;
      difference.first_index = unravel(flat, shape);
      return;
    }
    flat -= elements;
    ++rank;
  }
}

/// Compares the data of two variables with the same description. @p advance is told the bytes of each piece.
std::optional<Difference> compare_data(const VariableReader& reader_a, const VariableReader& reader_b,
                                       const VariableInfo& variable,
                                       const std::function<void(std::uint64_t)>& advance) {
  const std::uint64_t size = variable.type.size_bytes;
  Difference difference;
  difference.variable = variable.name;
  difference.elements = variable.bytes / size;
  const std::uint64_t piece = std::max<std::uint64_t>(1, kPieceBytes / size);
  std::vector<std::byte> a(std::min(piece * size, variable.bytes));
  std::vector<std::byte> b(a.size());
  for (std::uint64_t first = 0; first < difference.elements; first += piece) {
    const std::uint64_t bytes = std::min(piece, difference.elements - first) * size;
    a.resize(bytes);
    b.resize(bytes);
    reader_a.read(variable.name, first, a);
    reader_b.read(variable.name, first, b);
    compare_piece(difference.comparison, variable.type, first, a, b);
    advance(bytes);
  }
  if (difference.comparison.different == 0) {
    return std::nullopt;
  }
  locate(difference, variable);
  return difference;
}

}  // namespace

const char* to_string(Problem problem) noexcept {
  switch (problem) {
    case Problem::only_in_a:
      return "only_in_a";
    case Problem::only_in_b:
      return "only_in_b";
    case Problem::kind:
      return "kind";
    case Problem::type:
      return "type";
    case Problem::shape:
      return "shape";
    case Problem::values:
      return "values";
  }
  return "unknown";
}

DifferenceReport find_differences(const fs::path& a, const fs::path& b,
                                  const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const VariableReader reader_a(a);
  const VariableReader reader_b(b);
  const std::vector<VariableInfo> variables_a = storage::list_variables(reader_a.index());
  const std::vector<VariableInfo> variables_b = storage::list_variables(reader_b.index());
  const Pairs pairs = pair_up(variables_a, variables_b);
  std::uint64_t total = 0;
  for (const VariableInfo& variable : variables_a) {
    total += variable.bytes;
  }
  DifferenceReport report;
  report.variables = pairs.size();
  const auto advance = [&](std::uint64_t bytes) {
    report.bytes += bytes;
    progress(report.bytes, total);
  };
  const auto check_not_retired = [&] {
    reader_a.check_not_retired();
    reader_b.check_not_retired();
  };
  for (const auto& [name, pair] : pairs) {
    std::optional<Difference> difference = compare_descriptions(name, pair.first, pair.second);
    try {
      if (!difference) {
        difference = compare_data(reader_a, reader_b, *pair.first, advance);
      }
    } catch (const CorruptError&) {
      check_not_retired();  // what is written over it may be shorter
      throw;
    }
    if (difference) {
      report.differences.push_back(std::move(*difference));
    }
  }
  check_not_retired();
  return report;
}

}  // namespace reprieve::tool
