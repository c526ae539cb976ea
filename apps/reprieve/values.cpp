// SPDX-License-Identifier: BSD-3-Clause
#include "values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>

#include "core/setting.hpp"
#include "files.hpp"
#include "reprieve/error.hpp"
#include "storage/read/block_reader.hpp"

namespace reprieve::tool {

namespace {

using Element = std::span<const std::byte>;
using storage::Box;

/// Read at a time.
constexpr std::uint64_t kReadBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kValuesPerLine = 8;

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::int64_t parse_bound(std::string_view text, std::int64_t otherwise) {
  text = trimmed(text);
  std::int64_t value = otherwise;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!text.empty() && (error != std::errc() || rest != text.data() + text.size())) {
    throw UsageError(
        fmt::format("\"{}\" is no whole number; slices are written as in Python: x[0:10, 5], x[-3:]", text));
  }
  return value;
}

Slice parse_slice(std::string_view text, std::size_t dimension, std::uint64_t length) {
  const auto size = static_cast<std::int64_t>(length);
  const auto from_end = [&](std::int64_t bound) { return bound < 0 ? bound + size : bound; };
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) {
    const std::int64_t index = trimmed(text).empty() ? size : from_end(parse_bound(text, 0));
    if (index < 0 || index >= size) {
      throw UsageError(fmt::format("the index \"{}\" is not in dimension {}, which has the length {}", trimmed(text),
                                   dimension, length));
    }
    return {static_cast<std::uint64_t>(index), 1, 1, true};
  }
  const std::string_view rest = text.substr(colon + 1);
  const auto second = rest.find(':');
  const std::int64_t step = second == std::string_view::npos ? 1 : parse_bound(rest.substr(second + 1), 1);
  if (step < 1) {
    throw UsageError(fmt::format("the step {} is not allowed: a slice goes forward", step));
  }
  const std::int64_t begin = std::clamp<std::int64_t>(from_end(parse_bound(text.substr(0, colon), 0)), 0, size);
  const std::int64_t end = std::clamp<std::int64_t>(from_end(parse_bound(rest.substr(0, second), size)), begin, size);
  const std::int64_t whole_steps = (end - begin) / step;
  const std::int64_t count = whole_steps + ((end - begin) % step != 0 ? 1 : 0);
  return {static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(step),
          false};
}

/// A name may hold brackets itself.
std::pair<const storage::StoredVariable*, std::string_view> find_variable(const storage::FileIndex& index,
                                                                          std::string_view selector) {
  std::string name(selector);
  std::string_view slices;
  const storage::StoredVariable* found = index.find(name);
  const auto bracket = selector.rfind('[');
  if (found == nullptr && bracket != std::string_view::npos && selector.ends_with(']')) {
    name = trimmed(selector.substr(0, bracket));
    slices = selector.substr(bracket + 1, selector.size() - bracket - 2);
    found = index.find(name);
  }
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const auto& variable : index.variables) {
      names.push_back(variable.name);
    }
    const auto meant = core::nearest(name, names);
    throw UsageError(fmt::format("there is no variable \"{}\" in the checkpoint{} `reprieve show FILE` lists them all",
                                 name, meant ? "; did you mean \"" + *meant + "\"?" : "."));
  }
  return {found, slices};
}

storage::PosixFile open_checkpoint(const std::filesystem::path& file) {
  require_checkpoint(file);
  return storage::PosixFile::open_to_read(file);
}

/// IEEE 754 numbers of 16 bits, which not every compiler has.
double half_number(Element bytes) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data(), sizeof bits);
  constexpr int kFractionBits = 10;
  constexpr int kLargestExponent = 31;
  constexpr int kBias = 15;
  const int fraction = bits % (1 << kFractionBits);
  const int exponent = (bits >> kFractionBits) % (kLargestExponent + 1);
  const int leading = exponent > 0 ? 1 << kFractionBits : 0;
  double value = std::ldexp(leading + fraction, std::max(exponent, 1) - kBias - kFractionBits);
  if (exponent == kLargestExponent) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits >> 15U) != 0 ? -value : value;
}

std::string hexadecimal(Element bytes) {
  const auto* const first = reinterpret_cast<const unsigned char*>(bytes.data());  // NOLINT: numbers here
  return fmt::format("0x{:02x}", fmt::join(first, first + bytes.size(), ""));
}

std::string real_text(ElementType type, Element element) {
  return type.size_bytes == 2 ? fmt::format("{}", static_cast<float>(half_number(element)))
                              : element_text(type, element);
}

std::string complex_text(ElementType type, Element element) {
  const std::uint32_t half = type.size_bytes / 2;
  const ElementType part{ElementClass::floating, half};
  const std::string imaginary = real_text(part, element.subspan(half));
  return fmt::format("({}{}{}j)", real_text(part, element.first(half)), imaginary.front() == '-' ? "" : "+", imaginary);
}

/// Up to the first zero byte.
std::string string_of(Element bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());  // NOLINT: bytes are characters here
  return text.substr(0, text.find('\0'));
}

/// The elements of an array member from @p dimension on.
Json member_json(const Member& member, std::size_t dimension, Element bytes) {
  if (dimension == member.shape.size()) {
    return value_json(member.type, member.members, bytes);
  }
  Json list = Json::array();
  const std::size_t size = member.shape[dimension] == 0 ? 0 : bytes.size() / member.shape[dimension];
  for (std::uint64_t i = 0; i < member.shape[dimension]; ++i) {
    list.push_back(member_json(member, dimension + 1, bytes.subspan(i * size, size)));
  }
  return list;
}

/// A text is one array of characters.
bool is_string(const Selection& selection) {
  return selection.variable().type == ElementType{ElementClass::text, 1} && selection.shape().size() <= 1;
}

/// One line for each row, or more if it is long; each begins with the index of its first value.
void print_values(const Selection& selection, std::uint64_t most) {
  const storage::StoredVariable& variable = selection.variable();
  const std::size_t size = variable.type.size_bytes;
  const bool is_scalar = selection.whole_shape().empty();
  const std::size_t index_width = shape_text(selection.whole_shape()).size();
  if (most == 0) {
    std::cout << "no values";
  }
  selection.for_each_piece(most, [&](std::uint64_t first, Element bytes) {
    if (is_string(selection)) {
      std::cout << printable(string_of(bytes));
      return;
    }
    std::vector<std::string> values;
    std::size_t width = 0;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      values.push_back(printable(value_text(variable.type, variable.members, bytes.subspan(at, size))));
      width = std::max(width, values.back().size());
    }
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      const std::uint64_t in_row = (first + i) % selection.row_length();
      const bool begins_line = i == 0 || in_row % kValuesPerLine == 0;
      if (begins_line && !is_scalar) {
        std::cout << fmt::format("{}{:<{}}", first + i == 0 ? "" : "\n", shape_text(selection.index_of(first + i)),
                                 index_width);
      }
      std::cout << fmt::format("{}{:>{}}", is_scalar ? "" : " ", values[i], width);
    }
  });
  std::cout << '\n';
}

Json to_json(const ValueOptions& options, const Selection& selection, std::uint64_t most) {
  const storage::StoredVariable& variable = selection.variable();
  const std::size_t size = variable.type.size_bytes;
  Json values = Json::array();
  std::string text;
  selection.for_each_piece(most, [&](std::uint64_t, Element bytes) {
    if (is_string(selection)) {
      text += string_of(bytes);
      return;
    }
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      values.push_back(value_json(variable.type, variable.members, bytes.subspan(at, size)));
    }
  });
  return {{"file", options.file.string()},
          {"variable", variable.name},
          {"kind", state::to_string(variable.distribution)},
          {"rank", or_null(selection.rank())},
          {"type", to_string(variable.type)},
          {"shape", selection.shape()},
          {"values", is_string(selection) ? Json(text) : values},
          {"left_out", selection.elements() - most}};
}

}  // namespace

std::vector<Slice> parse_slices(std::string_view text, const Extents& shape) {
  std::vector<Slice> slices;
  for (bool is_more = !trimmed(text).empty(); is_more;) {
    if (slices.size() == shape.size()) {
      throw UsageError(fmt::format("too many slices: the shape is {}", shape_text(shape)));
    }
    const auto comma = text.find(',');
    slices.push_back(parse_slice(text.substr(0, comma), slices.size(), shape[slices.size()]));
    is_more = comma != std::string_view::npos;
    text = is_more ? text.substr(comma + 1) : "";
  }
  for (std::size_t dimension = slices.size(); dimension < shape.size(); ++dimension) {
    slices.push_back({0, shape[dimension], 1, false});
  }
  return slices;
}

Selection::Selection(const ValueOptions& options)
    : file_(open_checkpoint(options.file)),
      commit_record_(storage::commit_record_bytes(file_)),
      index_(storage::read_index(file_)) {
  const auto [variable, slices] = find_variable(index_, options.selector);
  variable_ = variable;
  choose_rank(options.rank);
  slices_ = parse_slices(slices, whole_);
  for (const Slice& slice : slices_) {
    counts_.push_back(slice.count);
  }
}

void Selection::choose_rank(std::optional<int> rank) {
  if (variable_->distribution != state::Distribution::per_rank) {
    if (rank) {
      throw UsageError(fmt::format("{} is {}: --rank is for per_rank variables", variable_->name,
                                   state::to_string(variable_->distribution)));
    }
    whole_ = variable_->shape;
    return;
  }
  rank_ = rank.value_or(0);
  if (*rank_ < 0 || static_cast<std::size_t>(*rank_) >= variable_->box_count) {
    throw UsageError(fmt::format("there is no rank {}: {} has the values of ranks 0 to {}", *rank_, variable_->name,
                                 variable_->box_count - 1));
  }
  const storage::BoxRow row = index_.row(*variable_, static_cast<std::size_t>(*rank_));
  whole_ = storage::to_extents(row.extent);
  value_of_rank_.resize(storage::volume(whole_) * variable_->type.size_bytes);
  if (!value_of_rank_.empty()) {
    storage::BlockReader(file_, index_, true).read_box(*variable_, row, value_of_rank_);
  }
}

Extents Selection::shape() const {
  Extents shape;
  for (const Slice& slice : slices_) {
    if (!slice.is_index) {
      shape.push_back(slice.count);
    }
  }
  return shape;
}

Extents Selection::index_of(std::uint64_t position) const {
  Extents index(slices_.size());
  for (std::size_t dimension = slices_.size(); dimension-- > 0;) {
    const Slice& slice = slices_[dimension];
    index[dimension] = slice.begin + position % slice.count * slice.step;
    position /= slice.count;
  }
  return index;
}

/// What lies between two steps is read too.
std::uint64_t Selection::piece_elements() const {
  std::uint64_t room = kReadBytes / variable_->type.size_bytes;
  for (const Slice& slice : slices_) {
    room /= slice.count > 1 ? slice.step : 1;
  }
  return std::max<std::uint64_t>(1, room);
}

void Selection::read(std::uint64_t first, std::span<std::byte> elements) const {
  const std::size_t size = variable_->type.size_bytes;
  storage::Bytes buffer;
  for (const Box& box : storage::boxes_of_range(counts_, first, elements.size() / size)) {
    Box source = box;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      source.offset[i] = slices_[i].begin + box.offset[i] * slices_[i].step;
      source.extent[i] = (box.extent[i] - 1) * slices_[i].step + 1;
    }
    buffer.resize(storage::bytes_of(source, size));
    read_box(source, buffer);
    storage::Strides strides = storage::dense_strides(source.extent, size);
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      strides[i] *= box.extent[i] > 1 ? static_cast<std::ptrdiff_t>(slices_[i].step) : 1;
    }
    storage::copy_box(elements.data(), storage::dense_strides(box.extent, size), buffer.data(), strides, box.extent,
                      size);
    elements = elements.subspan(storage::bytes_of(box, size));
  }
}

void Selection::read_box(const Box& box, std::span<std::byte> elements) const {
  const std::size_t size = variable_->type.size_bytes;
  const storage::Strides dense = storage::dense_strides(box.extent, size);
  if (!rank_) {
    storage::BlockReader(file_, index_, true).fill(*variable_, {elements.data(), box, dense});
    return;
  }
  const storage::Strides strides = storage::dense_strides(whole_, size);
  const auto begin = storage::displacement(storage::whole(whole_), strides, box.offset);
  storage::copy_box(elements.data(), dense, value_of_rank_.data() + begin, strides, box.extent, size);
}

Json value_json(ElementType type, const Members& members, Element element) {
  if (!members.empty()) {
    Json object = Json::object();
    for (const Member& member : members) {
      const std::size_t size = storage::volume(member.shape) * member.type.size_bytes;
      object[member.name] = member_json(member, 0, element.subspan(member.offset, size));
    }
    return object;
  }
  const std::string text = value_text(type, members, element);
  if (type.element_class == ElementClass::text || type.element_class == ElementClass::opaque) {
    return text;
  }
  Json number = Json::parse(text, nullptr, false);
  return number.is_discarded() ? Json(text) : number;  // "nan", "(1+2j)"
}

std::string value_text(ElementType type, const Members& members, Element element) {
  if (!members.empty()) {
    return value_json(type, members, element).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  switch (type.element_class) {
    case ElementClass::boolean:
      return std::ranges::any_of(element, [](std::byte byte) { return byte != std::byte{0}; }) ? "true" : "false";
    case ElementClass::floating:
      return real_text(type, element);
    case ElementClass::complex:
      return complex_text(type, element);
    case ElementClass::text:
      return string_of(element);
    case ElementClass::signed_integer:
    case ElementClass::unsigned_integer:
      return element_text(type, element);
    case ElementClass::opaque:
      break;
  }
  return hexadecimal(element);
}

void show_values(const ValueOptions& options, std::uint64_t limit, bool json) {
  const Selection selection(options);
  const std::uint64_t all = selection.elements();
  const std::uint64_t most = limit == 0 ? all : std::min(limit, all);
  if (json) {
    print_json(std::cout, to_json(options, selection, most));
    return;
  }
  const storage::StoredVariable& variable = selection.variable();
  std::cout << fmt::format(
      "{}  {} {}, {}{}\n", printable(variable.name), to_string(variable.type), shape_text(selection.whole_shape()),
      state::to_string(variable.distribution),
      selection.rank() ? fmt::format(", rank {} of {}", *selection.rank(), variable.box_count) : "");
  print_values(selection, most);
  if (most < all) {
    std::cout << fmt::format("... {} more; --limit 0 prints all, `reprieve export` writes them to a file\n",
                             all - most);
  }
}

}  // namespace reprieve::tool
