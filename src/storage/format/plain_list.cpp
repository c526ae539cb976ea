// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/plain_list.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <system_error>
#include <utility>

#include "storage/format/manifest.hpp"

namespace reprieve::storage {

namespace {

/// Takes what it knows from the start of a text; what it does not know stays there.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool takes(std::string_view expected) {
    if (!rest_.starts_with(expected)) {
      return false;
    }
    rest_.remove_prefix(expected.size());
    return true;
  }

  /// As JSON has it: without a sign, and without zeros before it.
  template <class Number>
  bool takes_number(Number& number) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const auto digits = static_cast<std::size_t>(end - rest_.data());
    if (error != std::errc{} || (digits > 1 && rest_.front() == '0') || value > std::numeric_limits<Number>::max()) {
      return false;
    }
    number = static_cast<Number>(value);
    rest_.remove_prefix(digits);
    return true;
  }

  bool takes_numbers(Extents& numbers) {
    if (!takes("[")) {
      return false;
    }
    if (takes("]")) {
      return true;
    }
    do {
      if (!takes_number(numbers.emplace_back())) {
        return false;
      }
    } while (takes(","));
    return takes("]");
  }

  /// Up to the next quote. Texts with characters that JSON writes in another way, or that may be no UTF-8, are not
  /// known here.
  bool takes_text(std::string_view& text) {
    text = rest_.substr(0, rest_.find('"'));
    const bool is_plain =
        std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '\\'; });
    if (!is_plain || text.size() == rest_.size()) {
      return false;
    }
    rest_.remove_prefix(text.size() + 1);
    return true;
  }

  /// From a brace to the one that closes it; empty if there is none. Whether it is JSON is for others to judge.
  std::string_view take_object() {
    std::size_t depth = 0;
    bool in_text = false;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      const char c = rest_[i];
      if (in_text) {
        i += c == '\\' ? 1 : 0;
        in_text = c != '"';
      } else if (c == '"') {
        in_text = true;
      } else if (c == '{') {
        ++depth;
      } else if (c == '}' && --depth == 0) {
        const std::string_view object = rest_.substr(0, i + 1);
        rest_.remove_prefix(i + 1);
        return object;
      }
    }
    return {};
  }

  [[nodiscard]] bool begins_with(char c) const noexcept { return rest_.starts_with(c); }
  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::string_view rest_;
};

/// The fields in the order of their names. False if the entry has another form.
bool takes_entry(Scanner& text, StoredVariable& variable) {
  std::string_view element_class;
  std::string_view distribution;
  std::string_view name;
  const bool is_plain = text.takes(R"({"class":")") && text.takes_text(element_class) &&
                        text.takes(R"(,"distribution":")") && text.takes_text(distribution) &&
                        text.takes(R"(,"file_offset":)") && text.takes_number(variable.file_offset) &&
                        text.takes(R"(,"name":")") && text.takes_text(name) && text.takes(R"(,"piece_dimensions":)") &&
                        text.takes_number(variable.piece_dimensions) && text.takes(R"(,"shape":)") &&
                        text.takes_numbers(variable.shape) && text.takes(R"(,"size_bytes":)") &&
                        text.takes_number(variable.type.size_bytes) && text.takes("}");
  if (!is_plain) {
    return false;
  }
  variable.type.element_class = element_class_named(element_class);
  variable.distribution = distribution_named(distribution);
  variable.name = name;
  return variable.type.element_class != ElementClass::text || variable.type.size_bytes == 1;
}

}  // namespace

std::optional<std::vector<StoredVariable>> read_plain_list(
    std::string_view list, const std::function<StoredVariable(std::string_view)>& read_other) {
  std::vector<StoredVariable> variables;
  Scanner text(list);
  while (text.begins_with('{')) {
    Scanner ahead = text;
    StoredVariable& variable = variables.emplace_back();
    if (takes_entry(ahead, variable)) {
      text = ahead;
    } else {
      const std::string_view entry = text.take_object();
      if (entry.empty()) {
        return std::nullopt;
      }
      variable = read_other(entry);
    }
    if (variables.size() == 1) {  // the others will be about as long
      const std::size_t bytes = list.size() - text.left();
      variables.reserve(list.size() / bytes + 1);
    }
    if (!text.takes(",")) {
      break;
    }
    if (!text.begins_with('{')) {
      return std::nullopt;
    }
  }
  return text.takes("]}") && text.left() == 0 ? std::optional(std::move(variables)) : std::nullopt;
}

}  // namespace reprieve::storage
