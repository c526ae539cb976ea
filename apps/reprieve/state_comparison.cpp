// SPDX-License-Identifier: BSD-3-Clause
#include "state_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <optional>
#include <utility>

#include "difference.hpp"
#include "files.hpp"
#include "reprieve/error.hpp"
#include "storage/read/variable_reader.hpp"
#include "text.hpp"

namespace reprieve::tool {

namespace {

namespace fs = std::filesystem;
using storage::VariableInfo;
using supervisor::StateComparison;
using supervisor::StateDifference;
using Kind = StateDifference::Kind;

/// Calls @p use with each element of a variable of numbers, as a T.
template <class T, class Use>
void for_each_element(const std::vector<std::byte>& bytes, Use&& use) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    use(value);
  }
}

/// Calls @p use with each of some elements, in its own type. False for types that are no numbers.
template <class Use>
bool for_each_number(ElementType type, const std::vector<std::byte>& bytes, Use&& use) {
  const auto as = [&]<class... Ts>() {
    return ((sizeof(Ts) == type.size_bytes && (for_each_element<Ts>(bytes, use), true)) || ...);
  };
  switch (type.element_class) {
    case ElementClass::signed_integer:
      return as.template operator()<std::int8_t, std::int16_t, std::int32_t, std::int64_t>();
    case ElementClass::unsigned_integer:
      return as.template operator()<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>();
    case ElementClass::floating:
      return as.template operator()<float, double, long double>();
    case ElementClass::complex:
      return as.template operator()<std::complex<float>, std::complex<double>, std::complex<long double>>();
    case ElementClass::boolean:
    case ElementClass::opaque:
    case ElementClass::text:
      break;
  }
  return false;
}

template <class T>
std::string number_text(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return fmt::format("{}", +value);
  } else {
    return fmt::format("{} + {} i", value.real(), value.imag());
  }
}

std::vector<std::byte> element_of(const storage::VariableReader& file, const VariableInfo& variable,
                                  std::uint64_t index) {
  std::vector<std::byte> bytes(variable.type.size_bytes);
  file.read(variable.name, index, bytes);
  return bytes;
}

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

/// Turns differences into what a drill tells of them.
class Describer {
 public:
  Describer(const fs::path& a, const fs::path& b) : variables_(storage::list_variables(a)), a_(a), b_(b) {}

  [[nodiscard]] StateDifference describe(const Difference& difference) const {
    StateDifference described{difference.variable, Kind::values, "", 0};
    const auto variable = std::find_if(variables_.begin(), variables_.end(),
                                       [&](const VariableInfo& each) { return each.name == difference.variable; });
    switch (difference.problem) {
      case Problem::only_in_a:
      case Problem::only_in_b:
        described.what = "in that only one of them has it";
        break;
      case Problem::values:
        describe_values(difference, *variable, described);
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

 private:
  void describe_values(const Difference& difference, const VariableInfo& variable, StateDifference& described) const {
    described.what = place_text(difference);
    const std::uint64_t index = difference.comparison.first_index.value();
    std::string in_a;
    std::string in_b;
    for_each_number(variable.type, element_of(a_, variable, index),
                    [&](const auto& value) { in_a = number_text(value); });
    for_each_number(variable.type, element_of(b_, variable, index),
                    [&](const auto& value) { in_b = number_text(value); });
    if (!in_a.empty()) {
      described.what += fmt::format("{}({} against {})", described.what.empty() ? "" : " ", in_a, in_b);
    }
    const auto bound = rounding_bound(variable.type);
    const auto& absolute = difference.comparison.max_absolute;
    if (!bound || !absolute || difference.comparison.not_finite > 0) {
      return;
    }
    const long double largest = difference.comparison.largest;
    if (largest > 0 && *absolute <= *bound * largest) {
      described.kind = Kind::rounding;
      described.relative_error = static_cast<double>(*absolute / largest);
    }
  }

  static std::string place_text(const Difference& difference) {
    std::string text;
    if (!difference.first_index.empty()) {
      text = "first at element " + shape_text(difference.first_index);
    }
    if (difference.first_rank) {
      text += fmt::format("{} rank {}", text.empty() ? "first on" : " of", *difference.first_rank);
    }
    return text;
  }

  std::vector<VariableInfo> variables_;
  storage::VariableReader a_;
  storage::VariableReader b_;
};

}  // namespace

StateComparison compare_states(const fs::path& a, const fs::path& b, const std::vector<std::string>& ignore) {
  const auto unwatched = [](std::uint64_t, std::uint64_t) {};
  StateComparison comparison;
  try {
    for (const auto& file : {a, b}) {
      if (const auto damages = storage::verify_file(file, unwatched); !damages.empty()) {
        comparison.failure = fmt::format("{} is damaged: {}", file.string(), damage_text(damages.front()));
        return comparison;
      }
    }
    const DifferenceReport report = find_differences(a, b, unwatched);
    comparison.variables = report.variables;
    comparison.bytes = report.bytes;
    const Describer describer(a, b);
    for (const Difference& difference : report.differences) {
      if (std::find(ignore.begin(), ignore.end(), difference.variable) != ignore.end()) {
        ++comparison.ignored;
      } else {
        comparison.different.push_back(describer.describe(difference));
      }
    }
  } catch (const Error& error) {
    comparison.failure = error.what();
  }
  return comparison;
}

}  // namespace reprieve::tool
