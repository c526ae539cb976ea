// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <iostream>

#include "command.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "values.hpp"

namespace reprieve::tool {

namespace {

namespace fs = std::filesystem;

/// The widest number of each kind: holds every narrower one exactly.
template <class T>
auto widen(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<long double>(value);
  } else {
    return std::complex<long double>(value.real(), value.imag());
  }
}

/// Whether two numbers with different bytes are the same all the same: a long double has bytes that mean nothing.
template <class T>
bool same_number(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a == b && std::signbit(a) == std::signbit(b);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return a == b;
  } else {
    return same_number(a.real(), b.real()) && same_number(a.imag(), b.imag());
  }
}

void count(ArrayComparison& comparison, std::uint64_t index) {
  ++comparison.different;
  comparison.first_index = std::min(comparison.first_index.value_or(index), index);
}

template <class T>
void measure(ArrayComparison& comparison, T a, T b) {
  const auto wide_a = widen(a);
  const auto wide_b = widen(b);
  const long double absolute = std::abs(wide_a - wide_b);
  if (!std::isfinite(absolute)) {
    ++comparison.not_finite;
    return;
  }
  const long double scale = std::max(std::abs(wide_a), std::abs(wide_b));
  const long double relative = scale > 0 ? absolute / scale : 0;
  comparison.largest = std::max(comparison.largest, scale);
  comparison.max_absolute = std::max(comparison.max_absolute.value_or(0), absolute);
  comparison.max_relative = std::max(comparison.max_relative.value_or(0), relative);
}

using Bytes = std::span<const std::byte>;

template <class T>
void compare_numbers(ArrayComparison& comparison, std::uint64_t first_index, Bytes bytes_a, Bytes bytes_b) {
  const std::size_t elements = bytes_a.size() / sizeof(T);
  for (std::size_t i = 0; i < elements; ++i) {
    T a{};
    T b{};
    std::memcpy(&a, bytes_a.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&b, bytes_b.data() + i * sizeof(T), sizeof(T));
    const bool same_bytes = std::memcmp(bytes_a.data() + i * sizeof(T), bytes_b.data() + i * sizeof(T), sizeof(T)) == 0;
    if (!same_bytes && !same_number(a, b)) {
      count(comparison, first_index + i);
      measure(comparison, a, b);
    }
  }
}

/// Calls `use.operator()<T>()` for the type of numbers that @p type is; false for types that are no numbers.
template <class Use>
bool with_number_type(ElementType type, Use&& use) {
  const auto of_size = [&]<class... Ts>() {
    return ((sizeof(Ts) == type.size_bytes && (use.template operator()<Ts>(), true)) || ...);
  };
  switch (type.element_class) {
    case ElementClass::signed_integer:
      return of_size.template operator()<std::int8_t, std::int16_t, std::int32_t, std::int64_t>();
    case ElementClass::unsigned_integer:
      return of_size.template operator()<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>();
    case ElementClass::floating:
      return of_size.template operator()<float, double, long double>();
    case ElementClass::complex:
      return of_size.template operator()<std::complex<float>, std::complex<double>, std::complex<long double>>();
    case ElementClass::boolean:
    case ElementClass::opaque:
    case ElementClass::text:
      break;
  }
  return false;
}

using storage::VariableInfo;
using storage::VariableReader;

/// What differs first: a variable that differs in one way is not compared in the later ways.
enum class Problem { only_in_a, only_in_b, kind, type, shape, values };

const char* to_string(Problem problem) {
  return name_of(problem, {"only_in_a", "only_in_b", "kind", "type", "shape", "values"});
}

/// One variable that is not the same in both files.
struct Difference {
  std::string variable{};
  Problem problem = Problem::values;
  std::string a{};  ///< kind, type, shape: what it is there; values: the first different element, if it is a number
  std::string b{};
  bool other_ranks = false;  ///< a per-rank variable of so many ranks here, and so many there
  // For values:
  ElementType type{};
  std::uint64_t elements = 0;       ///< in the whole variable
  ArrayComparison comparison{};     ///< counts and sizes
  std::optional<int> first_rank{};  ///< per-rank variables: whose element the first different one is
  Extents first_index{};            ///< of the first different element, in the variable or in that rank's part
  std::string hint{};               ///< what the different bytes are; empty: nothing more is known
};

/// The result of a comparison of two files.
struct DifferenceReport {
  std::size_t variables = 0;            ///< names in either file
  std::uint64_t bytes = 0;              ///< compared
  std::vector<Difference> differences;  ///< sorted by name
};

/// A larger part is not looked at for a hint.
constexpr std::uint64_t kHintBytes = std::uint64_t{32} << 20;

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
    return Difference{.variable = name, .problem = problem, .a = std::move(in_a), .b = std::move(in_b)};
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

/// Finds the rank and the index of the first different element. Returns the first element of the part that it is in,
/// and the shape of that: of a per-rank variable the rank's, of others the whole.
std::pair<std::uint64_t, Extents> locate(Difference& difference, const VariableInfo& variable) {
  const std::uint64_t flat = difference.comparison.first_index.value();
  std::uint64_t begin = 0;
  Extents part = variable.shape;
  if (variable.distribution == state::Distribution::per_rank) {
    int rank = 0;
    for (part = variable.rank_shapes.at(0); flat >= begin + storage::volume(part);) {
      begin += storage::volume(part);
      part = variable.rank_shapes.at(static_cast<std::size_t>(++rank));
    }
    difference.first_rank = rank;
  }
  difference.first_index = unravel(flat - begin, part);
  return {begin, part};
}

/// Whether 8 bytes could be the address of an object in a program's memory.
bool looks_like_pointer(const std::byte* bytes) {
  std::uint64_t address = 0;
  std::memcpy(&address, bytes, sizeof(address));
  return address % sizeof(address) == 0 && address >> 32U != 0 && address >> 47U == 0;
}

/// "8-15 (look like a pointer), 20": the bytes that differ in any record, at most four places, by words.
std::string different_bytes(Bytes a, Bytes b, std::size_t record) {
  constexpr std::size_t kWord = 8;
  constexpr std::size_t kMost = 4;
  std::vector<std::string> texts;
  for (std::size_t word = 0; word < record && texts.size() < kMost; word += kWord) {
    const std::size_t size = std::min(kWord, record - word);
    std::size_t first = kWord;
    std::size_t last = 0;
    bool is_pointer = size == kWord;
    for (std::size_t at = word; at < a.size(); at += record) {
      for (std::size_t i = 0; i < size; ++i) {
        if (a[at + i] != b[at + i]) {
          first = std::min(first, i);
          last = std::max(last, i);
          is_pointer = is_pointer && looks_like_pointer(&a[at]) && looks_like_pointer(&b[at]);
        }
      }
    }
    if (first < kWord && is_pointer) {
      texts.push_back(fmt::format("{}-{} (look like a pointer)", word, word + kWord - 1));
    } else if (first < kWord) {
      texts.push_back(fmt::format("{}{}", word + first, first < last ? fmt::format("-{}", word + last) : ""));
    }
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Whether both have the same records, in whatever order.
bool same_records(Bytes a, Bytes b, std::size_t record) {
  const auto sorted = [record](Bytes bytes) {
    std::vector<std::string_view> records;
    for (std::size_t at = 0; at < bytes.size(); at += record) {
      records.emplace_back(reinterpret_cast<const char*>(bytes.data()) + at, record);
    }
    std::ranges::sort(records);
    return records;
  };
  return sorted(a) == sorted(b);
}

/// What is known about a difference beyond its place, where a part of @p shape differs.
std::string hint_of(const VariableInfo& variable, const Extents& shape, Bytes a, Bytes b) {
  const bool has_records =
      shape.size() > 1 || (!shape.empty() && variable.type != ElementType{ElementClass::opaque, 1});
  const std::size_t record = has_records ? a.size() / shape[0] : a.size();
  if (variable.distribution == state::Distribution::per_rank && same_records(a, b, record)) {
    return "the same values in another order: sort them by a key";
  }
  if (variable.type.element_class != ElementClass::opaque) {
    return "";
  }
  return fmt::format("bytes {}{}", different_bytes(a, b, record),
                     has_records ? fmt::format(" of records of {} bytes", record) : "");
}

std::string element_of(const VariableReader& file, const VariableInfo& variable, std::uint64_t index) {
  std::vector<std::byte> bytes(variable.type.size_bytes);
  file.read(variable.name, index, bytes);
  return element_text(variable.type, bytes);
}

/// The boxes in which a variable is read best: blocks of its chunks, or rows, of a few MiB at most.
storage::ChunkedSplit pieces_of(const VariableReader& a, const VariableReader& b, const std::string& name) {
  const storage::Dataset in_a = a.index().find(name)->dataset();
  const storage::Dataset& best = in_a.chunk.empty() ? b.index().find(name)->dataset() : in_a;
  return {best, storage::whole(best.shape)};
}

/// Compares the data of two variables with the same description. @p advance gets the bytes of each piece.
std::optional<Difference> compare_data(const VariableReader& reader_a, const VariableReader& reader_b,
                                       const VariableInfo& variable,
                                       const std::function<void(std::uint64_t)>& advance) {
  const std::uint64_t size = variable.type.size_bytes;
  Difference difference{.variable = variable.name, .type = variable.type, .elements = variable.bytes / size};
  std::vector<std::byte> a;
  std::vector<std::byte> b;
  const storage::ChunkedSplit pieces = pieces_of(reader_a, reader_b, variable.name);
  for (std::uint64_t i = 0; i < pieces.count(); ++i) {
    const storage::Box box = pieces.block(i);
    a.resize(storage::bytes_of(box, size));
    b.resize(a.size());
    reader_a.read(variable.name, box, a);
    reader_b.read(variable.name, box, b);
    // Nearly all of a state that is compared is equal.
    if (a != b) {
      std::uint64_t at = 0;
      storage::for_each_run(box, variable.shape, [&](std::uint64_t first, std::uint64_t count) {
        const auto run = [&](Bytes piece) { return piece.subspan(at, count * size); };
        compare_piece(difference.comparison, variable.type, first, run(a), run(b));
        at += count * size;
      });
    }
    advance(a.size());
  }
  if (difference.comparison.different == 0) {
    return std::nullopt;
  }
  const auto [begin, part] = locate(difference, variable);
  if (const std::uint64_t bytes = storage::volume(part) * size; bytes <= kHintBytes) {
    a.resize(bytes);
    b.resize(bytes);
    reader_a.read(variable.name, begin, a);
    reader_b.read(variable.name, begin, b);
    difference.hint = hint_of(variable, part, a, b);
  }
  difference.a = element_of(reader_a, variable, *difference.comparison.first_index);
  difference.b = element_of(reader_b, variable, *difference.comparison.first_index);
  return difference;
}

/// Compares all variables of two files, in pieces, so that memory does not grow with the files. The data are taken as
/// they are; verify the files first.
/// @param progress  called with bytes done and bytes in all
/// @throws CorruptError, StorageError, MismatchError (a format of a later version)
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

using supervisor::StateComparison;
using supervisor::StateDifference;
using Kind = StateDifference::Kind;

/// Differences of floating-point numbers up to this part of the greatest of the numbers that differ are what another
/// order of sums may leave. Numbers that are equal do not count: a fill value would hide every difference.
constexpr double kFloatRounding = 1e-4;
constexpr double kDoubleRounding = 1e-9;

/// The greatest difference that rounding may leave, as a part of the greatest of the numbers that differ; nothing for
/// other types.
std::optional<double> rounding_bound(ElementType type) {
  const bool is_complex = type.element_class == ElementClass::complex;
  if (!is_complex && type.element_class != ElementClass::floating) {
    return std::nullopt;
  }
  const std::size_t size = type.size_bytes / (is_complex ? 2 : 1);
  return size <= sizeof(float) ? kFloatRounding : kDoubleRounding;
}

/// "first at element [3, 4] of rank 2".
std::string first_text(const Difference& difference) {
  std::string text;
  if (!difference.first_index.empty()) {
    text = "first at element " + shape_text(difference.first_index);
  }
  if (difference.first_rank) {
    text += fmt::format("{} rank {}", text.empty() ? "first on" : " of", *difference.first_rank);
  }
  return text;
}

void describe_values(StateDifference& described, const Difference& difference) {
  described.what = first_text(difference);
  if (!difference.a.empty()) {
    described.what += fmt::format("{}({} against {})", described.what.empty() ? "" : " ", difference.a, difference.b);
  }
  if (!difference.hint.empty()) {
    described.what += "; " + difference.hint;
  }
  const auto bound = rounding_bound(difference.type);
  const auto& absolute = difference.comparison.max_absolute;
  const long double largest = difference.comparison.largest;
  if (bound && absolute && difference.comparison.not_finite == 0 && largest > 0 && *absolute <= *bound * largest) {
    described.kind = Kind::rounding;
    described.relative_error = static_cast<double>(*absolute / largest);
  }
}

/// A drill's report of a difference.
StateDifference describe(const Difference& difference) {
  StateDifference described{difference.variable, Kind::values, "", 0};
  switch (difference.problem) {
    case Problem::only_in_a:
    case Problem::only_in_b:
      described.what = "in that only one of them has it";
      break;
    case Problem::values:
      describe_values(described, difference);
      break;
    case Problem::shape:
      described.kind = difference.other_ranks ? Kind::other_ranks : Kind::values;
      [[fallthrough]];
    case Problem::kind:
    case Problem::type:
      described.what =
          fmt::format("in its {} ({} against {})", to_string(difference.problem), difference.a, difference.b);
      break;
  }
  return described;
}

}  // namespace

std::string element_text(ElementType type, Bytes element) {
  std::string text;
  with_number_type(type, [&]<class T>() {
    T value{};
    std::memcpy(&value, element.data(), sizeof(T));
    if constexpr (std::is_arithmetic_v<T>) {
      text = fmt::format("{}", +value);
    } else {
      text = fmt::format("{} + {} i", value.real(), value.imag());
    }
  });
  return text;
}

void compare_piece(ArrayComparison& comparison, ElementType type, std::uint64_t first_index, Bytes a, Bytes b) {
  if (with_number_type(type, [&]<class T>() { compare_numbers<T>(comparison, first_index, a, b); })) {
    return;
  }
  const std::size_t size = type.size_bytes;
  for (std::size_t i = 0; i < a.size() / size; ++i) {
    if (std::memcmp(a.data() + i * size, b.data() + i * size, size) != 0) {
      count(comparison, first_index + i);
    }
  }
}

StateComparison compare_states(const fs::path& a, const fs::path& b, const std::vector<std::string>& ignore) {
  const auto unwatched = [](std::uint64_t, std::uint64_t) {};
  StateComparison comparison;
  try {
    for (const auto& file : {a, b}) {
      if (const auto corruptions = storage::verify_file(file, unwatched); !corruptions.empty()) {
        comparison.failure = fmt::format("{} is corrupt: {}", file.string(), corruption_text(corruptions.front()));
        return comparison;
      }
    }
    const DifferenceReport report = find_differences(a, b, unwatched);
    comparison.variables = report.variables;
    comparison.bytes = report.bytes;
    for (const Difference& difference : report.differences) {
      if (std::ranges::find(ignore, difference.variable) != ignore.end()) {
        ++comparison.ignored;
      } else {
        comparison.different.push_back(describe(difference));
      }
    }
  } catch (const Error& error) {
    comparison.failure = error.what();
  }
  return comparison;
}

}  // namespace reprieve::tool

// reprieve diff A B

namespace reprieve::tool::diff_command {

namespace {

constexpr const char* kFooter =
    R"(Compares the state bit by bit: names, kinds, types, shapes, values. A NaN equals the same NaN; -0.0 is not
0.0. When, why and by how many ranks the checkpoints were written does not count. Both files are verified first.

Examples:
  reprieve diff uninterrupted/ckpt-500.h5 resumed/ckpt-500.h5      is a resumed run the same run?
  reprieve diff a.h5 b.h5 --json | jq -r '.differences[].variable'
  reprieve diff a.h5 b.h5 > /dev/null && echo equal

Exit codes: 0 equal, 1 different,)";

struct Options {
  std::filesystem::path a;
  std::filesystem::path b;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command.add_option("A", options.a, "A checkpoint")->required();
  command.add_option("B", options.b, "Another checkpoint")->required();
}

/// What differs between two values means nothing if one of them is not what was written.
void require_valid(const std::filesystem::path& file) {
  require_checkpoint(file);
  const auto corruptions = verify_with_progress(file, file.string());
  if (!corruptions.empty()) {
    throw CorruptError(
        fmt::format("{} is corrupt, so it cannot be compared: {} ({} in all; `reprieve verify` lists them)",
                    file.string(), corruption_text(corruptions.front()), count_text(corruptions.size(), "place")));
  }
}

std::string place_text(const Difference& difference) {
  const std::string index = shape_text(difference.first_index);
  if (difference.first_rank) {
    return fmt::format("rank {} {}", *difference.first_rank, index);
  }
  return difference.first_index.empty() ? "" : index;
}

std::string values_text(const Difference& difference) {
  const ArrayComparison& found = difference.comparison;
  std::string text = fmt::format("{} of {}", found.different, count_text(difference.elements, "element"));
  if (const std::string place = place_text(difference); !place.empty()) {
    text += ", first at " + place;
  }
  if (found.max_absolute) {
    text += fmt::format("; max abs {:.6g}, max rel {:.3g}", *found.max_absolute, *found.max_relative);
  }
  if (found.not_finite > 0) {
    text += fmt::format("; {} by NaN or infinity", found.not_finite);
  }
  return difference.hint.empty() ? text : text + "; " + difference.hint;
}

std::string text_of(const Difference& difference) {
  switch (difference.problem) {
    case Problem::only_in_a:
      return "only in A";
    case Problem::only_in_b:
      return "only in B";
    case Problem::values:
      return values_text(difference);
    case Problem::kind:
    case Problem::type:
    case Problem::shape:
      break;
  }
  return fmt::format("{}: {} in A, {} in B", to_string(difference.problem), difference.a, difference.b);
}

void print_text(const Options& options, const DifferenceReport& report) {
  std::cout << fmt::format("A  {}\nB  {}\n", core::escaped(options.a.string()), core::escaped(options.b.string()));
  if (report.differences.empty()) {
    std::cout << fmt::format("equal: {}, {}\n", count_text(report.variables, "variable"),
                             core::size_text(report.bytes));
    return;
  }
  std::cout << fmt::format("different: {} of {}\n\n", report.differences.size(),
                           count_text(report.variables, "variable"));
  Table table = table_of({"VARIABLE", "DIFFERENCE"});
  for (const Difference& difference : report.differences) {
    table.add_row({printable(difference.variable), text_of(difference)});
  }
  table.print(std::cout);
}

Json difference_json(const Difference& difference) {
  Json json{{"variable", difference.variable}, {"problem", to_string(difference.problem)}};
  if (difference.problem != Problem::values && !difference.a.empty()) {
    json["a"] = difference.a;
    json["b"] = difference.b;
  } else if (difference.problem == Problem::values) {
    json["elements"] = difference.elements;
    json["different_elements"] = difference.comparison.different;
    json["first_rank"] = or_null(difference.first_rank);
    json["first_index"] = difference.first_index;
    json["max_abs_difference"] = or_null(difference.comparison.max_absolute);
    json["max_rel_difference"] = or_null(difference.comparison.max_relative);
    json["not_finite"] = difference.comparison.not_finite;
    json["hint"] = difference.hint;
  }
  return json;
}

Json report_json(const Options& options, const DifferenceReport& report) {
  return {{"a", options.a.string()},
          {"b", options.b.string()},
          {"equal", report.differences.empty()},
          {"variables", report.variables},
          {"compared_bytes", report.bytes},
          {"differences", list_json(report.differences, difference_json)}};
}

DifferenceReport compare(const Options& options) {
  Progress progress("comparing");
  return find_differences(options.a, options.b, [&](auto done, auto total) { progress.update(done, total); });
}

int run(const Options& options) {
  for (const auto& file : {options.a, options.b}) {
    require_file(file);
    require_valid(file);
  }
  const DifferenceReport report = compare(options);
  print_answer(options.json, report_json(options, report), [&] { print_text(options, report); });
  return report.differences.empty() ? kGood : kBad;
}

}  // namespace

void add(const Tool& tool) { add_command(tool, "diff", "Compare the state in two checkpoints", kFooter, define, run); }

}  // namespace reprieve::tool::diff_command
