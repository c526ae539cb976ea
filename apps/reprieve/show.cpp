// SPDX-License-Identifier: BSD-3-Clause
// reprieve show FILE [VAR]

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "command.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "manager/checkpoint_list.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/local/part_file.hpp"
#include "storage/read/inspect_file.hpp"
#include "values.hpp"

namespace reprieve::tool::show_command {

namespace {

constexpr const char* kFooter = R"(Kinds of variables:
  replicated    the same on all ranks, stored once
  distributed   one array spread over the ranks
  per_rank      every rank has its own

Examples:
  reprieve show checkpoints/ckpt-120.h5
  reprieve show checkpoints/ckpt-120.h5 --json | jq '.variables[].name'
  reprieve show checkpoints/ckpt-120.h5 optimizer/momentum          its values, the first 200 of them
  reprieve show checkpoints/ckpt-120.h5 'temperature[0:10, 5]'      slices as in Python
  reprieve show checkpoints/ckpt-120.h5 'generator[-3:]' --rank 3   of a per_rank variable

Without VAR the metadata only are read; `reprieve verify` checks the data.

Exit codes: 0 shown,)";

/// Of the values, unless somebody asks for more.
constexpr std::uint64_t kLimit = 200;

struct Options {
  ValueOptions values;
  std::uint64_t limit = kLimit;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command
      .add_option("FILE", options.values.file,
                  "A checkpoint, <prefix>-<number>.h5, or a part of a node-local copy, <run>-<rank>.<slot>.part")
      ->required();
  CLI::Option* const variable =
      command.add_option("VAR", options.values.selector, "Print the values of this variable, or of a slice of it");
  command.add_option("--rank", options.values.rank, "Of a per_rank variable: whose value [0]")->needs(variable);
  command.add_option("--limit", options.limit, "Print so many values at most; 0: all")
      ->capture_default_str()
      ->check(not_negative())
      ->needs(variable);
}

std::filesystem::path files_directory_of(std::filesystem::path file) {
  return file.replace_extension(manager::kFilesSuffix);
}

std::string compressed_text(const storage::VariableInfo& variable) {
  const std::uint64_t percent = variable.compressed_by * 100 / std::max<std::uint64_t>(variable.bytes, 1);
  return variable.compressed_by == 0 ? "" : ", compressed by " + std::to_string(percent) + " %";
}

/// Shape as a person wants to see it: of per-rank variables, what each rank has.
std::string shape_of(const storage::VariableInfo& variable) {
  if (variable.distribution != state::Distribution::per_rank) {
    return shape_text(variable.shape) + (variable.chunk.empty() ? "" : " in chunks of " + shape_text(variable.chunk)) +
           compressed_text(variable);
  }
  const auto& shapes = variable.rank_shapes;
  const bool same = std::ranges::all_of(shapes, [&](const Extents& shape) { return shape == shapes.front(); });
  return (same && !shapes.empty() ? shape_text(shapes.front()) + " on each rank"
                                  : shape_text(variable.shape) + " in all, differs by rank") +
         compressed_text(variable);
}

/// "struct{x, id}" if the members are known.
std::string type_of(const storage::VariableInfo& variable) {
  if (variable.members.empty()) {
    return to_string(variable.type);
  }
  return printable("struct{" + joined(variable.members, &Member::name) + "}");
}

Json members_json(const Members& members) {
  return list_json(members, [](const Member& member) {
    Json entry{
        {"name", member.name}, {"type", to_string(member.type)}, {"offset", member.offset}, {"shape", member.shape}};
    if (!member.members.empty()) {
      entry["members"] = members_json(member.members);
    }
    return entry;
  });
}

/// What the program said of its variables, if it did.
void print_annotations(const std::vector<storage::VariableInfo>& variables) {
  Table table = table_of({"VARIABLE", "UNITS", "DIMENSIONS", "DESCRIPTION"});
  bool is_empty = true;
  for (const auto& variable : variables) {
    if (const Annotation& annotation = variable.annotation; annotation != Annotation{}) {
      table.add_row({printable(variable.name), printable(annotation.units),
                     printable(fmt::format("{}", fmt::join(annotation.dims, ", "))),
                     printable(annotation.description)});
      is_empty = false;
    }
  }
  if (!is_empty) {
    std::cout << '\n';
    table.print(std::cout);
  }
}

void print_variables(const std::vector<storage::VariableInfo>& variables) {
  Table table = table_of({"VARIABLE", "KIND", "TYPE", "SHAPE", ">SIZE"});
  for (const auto& variable : variables) {
    table.add_row({printable(variable.name), state::to_string(variable.distribution), type_of(variable),
                   shape_of(variable), core::size_text(variable.bytes)});
  }
  table.print(std::cout);
  print_annotations(variables);
}

void line(const char* key, const std::string& value) {
  std::cout << fmt::format("  {:<11} {}\n", key, printable(value));
}

void print_text(const std::filesystem::path& file, const storage::FileIndex& index) {
  const storage::FileMetadata& metadata = index.metadata;
  const auto time = time_of(metadata);
  std::cout << core::escaped(file.string()) << '\n';
  line("number", std::to_string(metadata.number));
  line("step",
       metadata.run_calls ? fmt::format("{} (calls of run)", *metadata.run_calls) : "- (saved without a handler)");
  line("saved as", metadata.identity ? fmt::format("save {} of this directory, in its run {}", metadata.identity->save,
                                                   metadata.identity->run)
                                     : "- (by a version that did not count)");
  line("ranks", std::to_string(metadata.world_size));
  line("time", fmt::format("{} ({})", utc_time(time), human_age(time)));
  line("reason", reason_text(metadata.reason));
  line("size", core::size_text(index.file_size));
  if (metadata.has_files) {
    line("files", files_directory_of(file).string());
  }
  line("written by",
       fmt::format("reprieve {}, {}, HDF5 {}", metadata.library_version, metadata.mpi_version, metadata.hdf5_version));
  line("format", std::to_string(metadata.format_version));
  std::cout << '\n';
  print_variables(storage::list_variables(index));
}

Json variable_json(const storage::VariableInfo& variable) {
  Json json{{"name", variable.name},
            {"kind", state::to_string(variable.distribution)},
            {"type", to_string(variable.type)},
            {"shape", variable.shape},
            {"bytes", variable.bytes}};
  if (!variable.chunk.empty()) {
    json["chunk"] = variable.chunk;
  }
  if (variable.compressed_by > 0) {
    json["compressed_by"] = variable.compressed_by;
  }
  if (variable.distribution == state::Distribution::per_rank) {
    json["rank_shapes"] = variable.rank_shapes;
  }
  if (const Annotation& annotation = variable.annotation; annotation != Annotation{}) {
    json["units"] = annotation.units;
    json["description"] = annotation.description;
    json["dims"] = annotation.dims;
  }
  if (!variable.members.empty()) {
    json["members"] = members_json(variable.members);
  }
  return json;
}

Json to_json(const std::filesystem::path& file, const storage::FileIndex& index) {
  const storage::FileMetadata& metadata = index.metadata;
  return {{"file", file.string()},
          {"number", metadata.number},
          {"step", metadata.run_calls ? Json(*metadata.run_calls) : Json()},
          {"run", metadata.identity ? Json(metadata.identity->run) : Json()},
          {"save", metadata.identity ? Json(metadata.identity->save) : Json()},
          {"directory_id", metadata.identity ? Json(metadata.identity->directory_id) : Json()},
          {"ranks", metadata.world_size},
          {"time", utc_time(time_of(metadata))},
          {"reason", tool::to_json(metadata.reason)},
          {"size_bytes", index.file_size},
          {"files_directory", metadata.has_files ? Json(files_directory_of(file).string()) : Json()},
          {"library_version", metadata.library_version},
          {"mpi_version", metadata.mpi_version},
          {"hdf5_version", metadata.hdf5_version},
          {"format_version", metadata.format_version},
          {"variables", list_json(storage::list_variables(index), variable_json)}};
}

/// What the part of rank 0 knows about the whole state.
std::vector<storage::VariableInfo> variables_of(const storage::Part& part, const std::filesystem::path& file) {
  const auto& image = part.tables().image;
  return image ? storage::list_variables(image->index(file.string())) : std::vector<storage::VariableInfo>();
}

Json to_json(const std::filesystem::path& file, const storage::Part& part) {
  const storage::LocalCopy& copy = part.name().copy;
  return {{"file", file.string()},
          {"local_copy", true},
          {"rank", part.name().rank},
          {"number", copy.number},
          {"step", copy.run_calls ? Json(*copy.run_calls) : Json()},
          {"run", copy.save.run},
          {"save", copy.save.save},
          {"directory_id", copy.save.directory_id},
          {"ranks", copy.ranks},
          {"time", utc_time(time_of(copy))},
          {"size_bytes", part.file_bytes()},
          {"variables", list_json(variables_of(part, file), variable_json)}};
}

void print_text(const std::filesystem::path& file, const storage::Part& part) {
  const storage::LocalCopy& copy = part.name().copy;
  const auto time = time_of(copy);
  std::cout << core::escaped(file.string()) << '\n';
  line("part of", fmt::format("a node-local copy: rank {} of {}", part.name().rank, copy.ranks));
  line("step", copy.run_calls ? fmt::format("{} (calls of run)", *copy.run_calls)
                              : fmt::format("- (number {}, taken without a handler)", copy.number));
  line("taken as", fmt::format("save {} of the checkpoint directory {}, in its run {}", copy.save.save,
                               copy.save.directory_id, copy.save.run));
  line("time", fmt::format("{} ({})", utc_time(time), human_age(time)));
  line("size", core::size_text(part.file_bytes()));
  if (const auto variables = variables_of(part, file); !variables.empty()) {
    std::cout << '\n';
    print_variables(variables);
  }
}

template <class Content>
int show(const Options& options, const Content& content) {
  print_answer(options.json, to_json(options.values.file, content), [&] { print_text(options.values.file, content); });
  return kGood;
}

int run(const Options& options) {
  const std::filesystem::path& path = options.values.file;
  require_file(path);
  if (!options.values.selector.empty()) {
    show_values(options.values, options.limit, options.json);
    return kGood;
  }
  // Opened once: a run that lives may retire it at any moment.
  auto file = storage::PosixFile::open_to_read(path);
  if (path.extension() == ".part") {
    return show(options, storage::Part(std::move(file)));
  }
  require_checkpoint(path);
  return show(options, storage::read_index(file));
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "show", "Show the metadata and the variables of a checkpoint, or values", kFooter, define, run);
}

}  // namespace reprieve::tool::show_command

// reprieve export FILE VAR

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
}

// .npy

/// The letter of NumPy for a class of elements.
char letter_of(ElementClass element_class) { return "biufcVS"[static_cast<std::size_t>(element_class)]; }

/// @param escape  stands before each quote inside
std::string quoted(const std::string& text, char quote, char escape) {
  std::ostringstream out;
  out << std::quoted(text, quote, escape);
  return out.str();
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
    fields.push_back(fmt::format("({}, {}{})", quoted(member.name, '\'', '\\'), type_text(member.type, member.members),
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

std::string cell(const std::string& text) {
  return text.find_first_of(",\"\n\r") == std::string::npos ? text : quoted(text, '"', '"');
}

/// "x,id": the columns of structs.
std::string csv_header(const Members& members) {
  const auto name = [](const Member& member) { return cell(member.name); };
  return members.empty() ? "" : joined(members, name, ",") + '\n';
}

std::string csv_row(const Members& members, Element element) {
  const auto value_of = [&](const Member& member) {
    const Element value = element.subspan(member.offset, storage::volume(member.shape) * member.type.size_bytes);
    const bool is_whole = member.shape.empty() && member.members.empty();
    return cell(is_whole ? value_text(member.type, {}, value) : value_json(member.type, member.members, value).dump());
  };
  return joined(members, value_of, ",");
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
  add_command(tool, "export", "Write the values of a variable as .npy or .csv", kFooter, define, run);
}

}  // namespace reprieve::tool::export_command
