// SPDX-License-Identifier: BSD-3-Clause
// reprieve show FILE [VAR]

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "command.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "manager/checkpoint_list.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/local/part_file.hpp"
#include "storage/read/inspect_file.hpp"
#include "text.hpp"
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
  add_json(command, options.json);
}

std::filesystem::path files_directory_of(std::filesystem::path file) {
  return file.replace_extension(manager::kFilesSuffix);
}

/// Shape as a person wants to see it: of per-rank variables, what each rank has.
std::string shape_of(const storage::VariableInfo& variable) {
  if (variable.distribution != state::Distribution::per_rank) {
    return shape_text(variable.shape) + (variable.chunk.empty() ? "" : " in chunks of " + shape_text(variable.chunk));
  }
  const auto& shapes = variable.rank_shapes;
  const bool same = std::ranges::all_of(shapes, [&](const Extents& shape) { return shape == shapes.front(); });
  return same && !shapes.empty() ? shape_text(shapes.front()) + " on each rank"
                                 : shape_text(variable.shape) + " in all, differs by rank";
}

std::string joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

/// "struct{x, id}" if the members are known.
std::string type_of(const storage::VariableInfo& variable) {
  if (variable.members.empty()) {
    return to_string(variable.type);
  }
  std::vector<std::string> names;
  for (const Member& member : variable.members) {
    names.push_back(member.name);
  }
  return printable("struct{" + joined(names) + "}");
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
  Table table({{"VARIABLE"}, {"UNITS"}, {"DIMENSIONS"}, {"DESCRIPTION"}});
  bool is_empty = true;
  for (const auto& variable : variables) {
    if (const Annotation& annotation = variable.annotation; annotation != Annotation{}) {
      table.add_row({printable(variable.name), printable(annotation.units), printable(joined(annotation.dims)),
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
  Table table({{"VARIABLE"}, {"KIND"}, {"TYPE"}, {"SHAPE"}, {"SIZE", Table::Align::right}});
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
  return show(options, storage::read_index(std::move(file)));
}

}  // namespace

void add(const Tool& tool) {
  add_command<Options>(tool, "show", "Show the metadata and the variables of a checkpoint, or values", kFooter, define,
                       run);
}

}  // namespace reprieve::tool::show_command
