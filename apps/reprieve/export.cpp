// SPDX-License-Identifier: BSD-3-Clause
// reprieve export FILE VAR

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "command.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "values.hpp"

namespace reprieve::tool::export_command {

namespace {

namespace fs = std::filesystem;
using Element = std::span<const std::byte>;

constexpr const char* kFooter =
    R"(Writes the values of one variable, or a slice of them, to a file; its ending says the form:
  .npy   NumPy's form 1.0: numpy.load("x.npy")
  .csv   text with all digits. A line is a row of the last dimension; of structs, one element with its members
Every byte is compared with its checksum. In front of a file of that name --force is needed.
HDF5 tools read the checkpoint itself: h5py.File("ckpt-120.h5")["state/temperature"][0:10, 5].

Examples:
  reprieve export checkpoints/ckpt-120.h5 temperature -o temperature.npy
  reprieve export checkpoints/ckpt-120.h5 'temperature[0:10, 5]' -o column.csv
  reprieve export checkpoints/ckpt-120.h5 generator --rank 3 -o generator.npy --json

Exit codes: 0 written,)";

struct Options {
  ValueOptions values;
  fs::path output;
  bool force = false;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command.add_option("FILE", options.values.file, "A checkpoint, <prefix>-<number>.h5")->required();
  command
      .add_option("VAR", options.values.selector, "A variable, or slices of it as in Python: 'x[0:10, 5]', 'x[-3:]'")
      ->required();
  command.add_option("-o,--output", options.output, "The file to write, .npy or .csv")->required()->type_name("FILE");
  command.add_option("--rank", options.values.rank, "Of a per_rank variable: whose value [0]");
  command.add_flag("--force", options.force, "Replace the file if it is there");
  add_json(command, options.json);
}

// .npy

/// The letter of NumPy for a class of elements.
char letter_of(ElementClass element_class) { return "biufcVS"[static_cast<std::size_t>(element_class)]; }

std::string quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char character : text) {
    quoted += (character == '\'' || character == '\\') ? "\\" : "";
    quoted += character;
  }
  return quoted + "'";
}

std::string tuple_text(const Extents& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

/// What NumPy calls descr. Bytes between members get a field without a name.
std::string type_text(ElementType type, Members members) {
  if (members.empty()) {
    return fmt::format("'{}{}{}'", type.size_bytes == 1 || letter_of(type.element_class) == 'V' ? '|' : '<',
                       letter_of(type.element_class), type.size_bytes);
  }
  std::ranges::sort(members, {}, &Member::offset);
  std::vector<std::string> fields;
  std::uint64_t end = 0;
  const auto pad_to = [&](std::uint64_t offset) {
    if (offset > end) {
      fields.push_back(fmt::format("('', '|V{}')", offset - end));
    }
  };
  for (const Member& member : members) {
    pad_to(member.offset);
    fields.push_back(fmt::format("({}, {}{})", quoted(member.name), type_text(member.type, member.members),
                                 member.shape.empty() ? "" : ", " + tuple_text(member.shape)));
    end = member.offset + storage::volume(member.shape) * member.type.size_bytes;
  }
  pad_to(type.size_bytes);
  return fmt::format("[{}]", fmt::join(fields, ", "));
}

std::string npy_header(const Selection& selection) {
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kLongest = 65'535;
  constexpr unsigned kByteBits = 8;
  const auto& variable = selection.variable();
  std::string header = fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': {}, }}",
                                   type_text(variable.type, variable.members), tuple_text(selection.shape()));
  const std::string magic("\x93NUMPY\x01\x00", 8);
  const std::size_t length = magic.size() + 2 + header.size() + 1;
  header.append((kAlignment - length % kAlignment) % kAlignment, ' ');
  header += '\n';
  if (header.size() > kLongest) {
    throw UsageError("the list of members is too long for .npy");
  }
  return magic + static_cast<char>(header.size() & 0xffU) + static_cast<char>(header.size() >> kByteBits) + header;
}

void write_npy(std::ostream& out, const Selection& selection) {
  out << npy_header(selection);
  selection.for_each_piece(selection.elements(), [&](std::uint64_t, Element bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()),  // NOLINT: a stream takes characters
              static_cast<std::streamsize>(bytes.size()));
  });
}

// .csv

std::string cell(std::string text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) {
    text.insert(at, 1, '"');
  }
  return '"' + text + '"';
}

/// "x,id": the columns of structs.
std::string csv_header(const Members& members) {
  std::vector<std::string> names;
  for (const Member& member : members) {
    names.push_back(cell(member.name));
  }
  return names.empty() ? "" : fmt::format("{}\n", fmt::join(names, ","));
}

std::string csv_row(const Members& members, Element element) {
  std::vector<std::string> cells;
  for (const Member& member : members) {
    const std::size_t size = storage::volume(member.shape) * member.type.size_bytes;
    const Json value = value_json(member.type, member.members, element.subspan(member.offset, size));
    const bool is_whole = member.shape.empty() && member.members.empty();
    cells.push_back(cell(is_whole ? value_text(member.type, {}, element.subspan(member.offset, size)) : value.dump()));
  }
  return fmt::format("{}", fmt::join(cells, ","));
}

void write_csv(std::ostream& out, const Selection& selection) {
  const auto& variable = selection.variable();
  const std::size_t size = variable.type.size_bytes;
  const std::uint64_t columns = variable.members.empty() && !selection.shape().empty() ? selection.shape().back() : 1;
  out << csv_header(variable.members);
  selection.for_each_piece(selection.elements(), [&](std::uint64_t first, Element bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      const Element element = bytes.subspan(at, size);
      const bool ends_row = (first + at / size + 1) % columns == 0;
      out << (variable.members.empty() ? cell(value_text(variable.type, {}, element))
                                       : csv_row(variable.members, element))
          << (ends_row ? '\n' : ',');
    }
  });
}

// The file.

using Write = void (*)(std::ostream&, const Selection&);

Write writer_for(const Options& options) {
  const std::string ending = options.output.extension();
  if (ending == ".npy") {
    return write_npy;
  }
  if (ending == ".csv") {
    return write_csv;
  }
  throw UsageError(
      fmt::format("{}: found the ending \"{}\"; allowed: .npy, .csv. Copy to another HDF5 file by h5py: "
                  "h5py.File(\"{}\").copy(\"state/NAME\", h5py.File(\"x.h5\", \"w\"))",
                  options.output.string(), ending, options.values.file.string()));
}

int run(const Options& options) {
  const Write write = writer_for(options);
  require_file(options.values.file);
  if (!options.force && fs::exists(fs::symlink_status(options.output))) {
    throw UsageError(options.output.string() + " is there already; --force replaces it");
  }
  const Selection selection(options.values);
  replace_file(options.output, [&](std::ostream& out) { write(out, selection); });
  const std::uint64_t bytes = fs::file_size(options.output);
  print_answer(options.json,
               {{"file", options.output.string()},
                {"variable", selection.variable().name},
                {"type", to_string(selection.variable().type)},
                {"shape", selection.shape()},
                {"bytes", bytes}},
               [&] {
                 std::cout << fmt::format("{}: {} {}, {}\n", core::escaped(options.output.string()),
                                          to_string(selection.variable().type), shape_text(selection.shape()),
                                          core::size_text(bytes));
               });
  return kGood;
}

}  // namespace

void add(const Tool& tool) {
  add_command<Options>(tool, "export", "Write the values of a variable as .npy or .csv", kFooter, define, run);
}

}  // namespace reprieve::tool::export_command
