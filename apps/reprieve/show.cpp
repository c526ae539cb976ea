// reprieve show FILE

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "command.hpp"
#include "files.hpp"
#include "manager/file_names.hpp"
#include "storage/checkpoint_file.hpp"
#include "text.hpp"

namespace reprieve::tool {

namespace {

constexpr const char* kFooter = R"(Kinds of variables:
  replicated    the same on all ranks, stored once
  distributed   one array spread over the ranks
  per_rank      every rank has its own

Examples:
  reprieve show checkpoints/ckpt-120.h5
  reprieve show checkpoints/ckpt-120.h5 --json | jq '.variables[].name'
  h5dump -d /state/optimizer/momentum checkpoints/ckpt-120.h5     the values themselves

Reads the metadata only; `reprieve verify` checks the data.)";

struct Options {
  std::filesystem::path file;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command.add_option("FILE", options.file, "A checkpoint, <prefix>-<number>.h5")->required();
  command.add_flag("--json", options.json, "Print JSON");
}

std::filesystem::path files_directory_of(std::filesystem::path file) {
  return file.replace_extension(manager::kFilesSuffix);
}

/// Shape as a person wants to see it: of per-rank variables, what each rank has.
std::string shape_of(const storage::VariableInfo& variable) {
  if (variable.distribution != state::Distribution::per_rank) {
    return shape_text(variable.shape);
  }
  const auto& shapes = variable.rank_shapes;
  const bool same = std::ranges::all_of(shapes, [&](const Extents& shape) { return shape == shapes.front(); });
  return same && !shapes.empty() ? shape_text(shapes.front()) + " on each rank"
                                 : shape_text(variable.shape) + " in all, differs by rank";
}

void print_text(const std::filesystem::path& file, const storage::FileMetadata& metadata,
                const std::vector<storage::VariableInfo>& variables) {
  const auto time = time_of(metadata);
  const auto line = [](const char* key, const std::string& value) {
    std::cout << fmt::format("  {:<11} {}\n", key, printable(value));
  };
  std::cout << file.string() << '\n';
  line("number", std::to_string(metadata.number));
  line("step", fmt::format("{} (calls of run)", metadata.run_calls));
  line("ranks", std::to_string(metadata.world_size));
  line("time", fmt::format("{} ({})", utc_time(time), human_age(time)));
  line("reason", reason_text(metadata.reason));
  line("size", human_size(std::filesystem::file_size(file)));
  if (metadata.has_files) {
    line("files", files_directory_of(file).string());
  }
  line("written by",
       fmt::format("reprieve {}, {}, HDF5 {}", metadata.library_version, metadata.mpi_version, metadata.hdf5_version));
  line("format", std::to_string(metadata.format_version));
  std::cout << '\n';
  Table table({{"VARIABLE"}, {"KIND"}, {"TYPE"}, {"SHAPE"}, {"SIZE", Table::Align::right}});
  for (const auto& variable : variables) {
    table.add_row({printable(variable.name), state::to_string(variable.distribution), to_string(variable.type),
                   shape_of(variable), human_size(variable.bytes)});
  }
  table.print(std::cout);
}

Json variable_json(const storage::VariableInfo& variable) {
  Json json{{"name", variable.name},
            {"kind", state::to_string(variable.distribution)},
            {"type", to_string(variable.type)},
            {"shape", variable.shape},
            {"bytes", variable.bytes}};
  if (variable.distribution == state::Distribution::per_rank) {
    json["rank_shapes"] = variable.rank_shapes;
  }
  return json;
}

Json to_json(const std::filesystem::path& file, const storage::FileMetadata& metadata,
             const std::vector<storage::VariableInfo>& variables) {
  Json json{{"file", file.string()},
            {"number", metadata.number},
            {"run_calls", metadata.run_calls},
            {"world_size", metadata.world_size},
            {"time", utc_time(time_of(metadata))},
            {"reason", tool::to_json(metadata.reason)},
            {"size_bytes", std::filesystem::file_size(file)},
            {"files_directory", metadata.has_files ? Json(files_directory_of(file).string()) : Json()},
            {"library_version", metadata.library_version},
            {"mpi_version", metadata.mpi_version},
            {"hdf5_version", metadata.hdf5_version},
            {"format_version", metadata.format_version},
            {"variables", Json::array()}};
  for (const auto& variable : variables) {
    json["variables"].push_back(variable_json(variable));
  }
  return json;
}

int run(const Options& options) {
  require_file(options.file);
  const storage::FileMetadata metadata = storage::read_metadata(options.file);
  const std::vector<storage::VariableInfo> variables = storage::list_variables(options.file);
  if (options.json) {
    print_json(std::cout, to_json(options.file, metadata, variables));
  } else {
    print_text(options.file, metadata, variables);
  }
  return kGood;
}

}  // namespace

void add_show(CLI::App& app, int& exit_code) {
  add_command<Options>(app, exit_code, "show", "Show the metadata and the variables of a checkpoint", kFooter, define,
                       run);
}

}  // namespace reprieve::tool
