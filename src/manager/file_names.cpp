// SPDX-License-Identifier: BSD-3-Clause
#include "manager/file_names.hpp"

#include <charconv>

#include "reprieve/error.hpp"

namespace reprieve::manager {

namespace {

/// A decimal number without sign and leading zeros that fills the whole text.
template <class Integer>
std::optional<Integer> parse_number(std::string_view text) {
  Integer number{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const bool canonical =
      !text.empty() && text.front() >= '0' && text.front() <= '9' && (text.front() != '0' || text.size() == 1);
  if (error != std::errc{} || rest != end || !canonical) {
    return std::nullopt;
  }
  return number;
}

/// What lies between `<prefix>-` and the suffix.
std::optional<std::string_view> middle_of(std::string_view prefix, std::string_view name, std::string_view suffix) {
  if (name.size() <= prefix.size() + 1 + suffix.size() || !name.starts_with(prefix) || name[prefix.size()] != '-' ||
      !name.ends_with(suffix)) {
    return std::nullopt;
  }
  name.remove_prefix(prefix.size() + 1);
  name.remove_suffix(suffix.size());
  return name;
}

}  // namespace

std::string format_name(std::string_view prefix, std::uint64_t number, std::string_view suffix) {
  return std::string(prefix) + '-' + std::to_string(number) + std::string(suffix);
}

std::optional<std::uint64_t> parse_name(std::string_view prefix, std::string_view name, std::string_view suffix) {
  const auto middle = middle_of(prefix, name, suffix);
  return middle ? parse_number<std::uint64_t>(*middle) : std::nullopt;
}

std::optional<SetAsideName> parse_set_aside_name(std::string_view name) {
  const auto suffix = name.rfind(kCorruptSuffix);
  if (suffix == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = name.substr(suffix + kCorruptSuffix.size());
  const std::string_view checkpoint = name.substr(0, suffix);
  const std::string_view prefix = checkpoint.substr(0, checkpoint.find_last_of('-'));
  const auto number = parse_name(prefix, checkpoint, kCheckpointSuffix);
  const bool counted = rest.size() > 1 && rest.front() == '.' && parse_number<std::uint64_t>(rest.substr(1));
  if (!number || (!rest.empty() && !counted)) {
    return std::nullopt;
  }
  return SetAsideName{std::string(name), std::string(prefix), *number, std::string(name.substr(suffix))};
}

std::string format_staged_name(std::string_view prefix, StagedName staged, std::string_view suffix) {
  return format_name(prefix, staged.number, "." + std::to_string(staged.time_us) + std::string(suffix));
}

std::optional<StagedName> parse_staged_name(std::string_view prefix, std::string_view name, std::string_view suffix) {
  const auto middle = middle_of(prefix, name, suffix);
  const auto dot = middle ? middle->find('.') : std::string_view::npos;
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = parse_number<std::uint64_t>(middle->substr(0, dot));
  const auto time_us = parse_number<std::int64_t>(middle->substr(dot + 1));
  if (!number || !time_us) {
    return std::nullopt;
  }
  return StagedName{*number, *time_us};
}

bool is_staged_under_another_prefix(std::string_view prefix, std::string_view name) {
  const std::string_view other = name.substr(0, name.find_last_of('-'));  // what follows a prefix has no dash
  return other != prefix &&
         (parse_staged_name(other, name, kCheckpointSuffix) || parse_staged_name(other, name, kFilesSuffix));
}

}  // namespace reprieve::manager
