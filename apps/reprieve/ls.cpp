// SPDX-License-Identifier: BSD-3-Clause
// reprieve ls DIR

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <optional>

#include "command.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "reprieve/error.hpp"
#include "reprieve/xdmf.hpp"
#include "text.hpp"

namespace reprieve::tool::ls_command {

namespace {

constexpr const char* kFooter =
    R"(Lists the committed checkpoints, oldest first, and verifies their checksums. STEP is the number of calls of run()
that the state holds. A restart takes the newest valid one.

Examples:
  reprieve ls checkpoints
  reprieve ls checkpoints --quick                 without reading the data: at once, also for terabytes
  reprieve ls checkpoints --local /dev/shm         what lies in the memory of this node besides? Without --local this is
                                                  told where the last run took node-local copies
  reprieve ls --all-local                         what of mine fills the memory of this node, of all directories?
  reprieve ls checkpoints --json | jq '.checkpoints[-1].step'

Exit codes: 0 listed (whether valid or not), 2 unreadable directory or wrong usage.)";

struct Options {
  std::filesystem::path directory;
  std::filesystem::path local;
  bool all_local = false;
  bool quick = false;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  CLI::Option* const directory = command.add_option("DIR", options.directory, "Directory of checkpoints");
  command.add_flag("--quick", options.quick, "Do not verify the data");
  command.add_option("--local", options.local,
                     "Also list the node-local copies in this directory [checkpoints.local_directory of the last run]");
  command
      .add_flag("--all-local", options.all_local,
                "List the node-local copies of all directories of checkpoints, in --local or /dev/shm")
      ->excludes(directory);
  add_json(command, options.json);
}

struct LocalListing {
  std::filesystem::path place;  ///< empty: only what was flushed was looked for
  std::vector<LocalListEntry> entries;
};

const char* state_of(const LocalListEntry& entry) {
  return entry.is_flushed ? "flushed into this directory" : entry.in_use ? "in use" : "left by a run that is gone";
}

void print_text(const LocalListing& listing) {
  const std::string place = listing.place.empty() ? "" : " in " + listing.place.string();
  if (listing.entries.empty()) {
    std::cout << "no node-local copies" << place << '\n';
    return;
  }
  constexpr auto kRight = Table::Align::right;
  std::cout << "parts of node-local copies that this node reaches" << place << ":\n";
  Table table({{"OF"},
               {"STEP", kRight},
               {"PARTS", kRight},
               {"FOR PARTNERS", kRight},
               {"SIZE", kRight},
               {"AGE", kRight},
               {"STATE"}});
  for (const LocalListEntry& entry : listing.entries) {
    const std::string owner = entry.is_of_directory ? "this directory" : core::escaped(entry.folder.string());
    if (entry.copy) {
      table.add_row({owner, std::to_string(entry.step()), fmt::format("{} of {}", entry.parts, entry.copy->ranks),
                     std::to_string(entry.partner_parts), core::size_text(entry.size_bytes), human_age(entry.time()),
                     state_of(entry)});
    } else {
      table.add_row({owner, "-", "0", "0", "-", "-", state_of(entry)});
    }
  }
  table.print(std::cout);
}

/// With the keys in the order of their names.
Json local_json(const LocalListEntry& entry) {
  nlohmann::json item{{"folder", entry.folder.string()},
                      {"of_this_directory", entry.is_of_directory},
                      {"in_use", entry.in_use},
                      {"flushed", entry.is_flushed},
                      {"parts", entry.parts},
                      {"partner_parts", entry.partner_parts},
                      {"size_bytes", entry.size_bytes}};
  if (entry.copy) {
    item["step"] = entry.step();
    item["ranks"] = entry.copy->ranks;
    item["run"] = entry.copy->save.run;
    item["save"] = entry.copy->save.save;
    item["time"] = utc_time(entry.time());
  }
  return item;
}

/// One file of the list.
struct Entry {
  std::filesystem::path file;
  std::uint64_t number = 0;
  std::uint64_t size_bytes = 0;
  std::optional<storage::FileMetadata> metadata;  ///< nothing if it cannot be read
  std::optional<bool> valid;                      ///< nothing if the data were not verified, or cannot be read
  std::string problem;                            ///< why it is not valid, or not known to be
};

void verify(Entry& entry) {
  const auto corruptions = verify_with_progress(entry.file);
  entry.valid = corruptions.empty();
  if (!corruptions.empty()) {
    entry.problem = corruption_text(corruptions.front());
  }
}

Entry look_at(const CheckpointFile& checkpoint, bool quick) {
  const std::filesystem::path& file = checkpoint.path;
  Entry entry;
  entry.file = file;
  entry.number = checkpoint.number;
  try {
    std::error_code vanished;
    const std::uintmax_t size = std::filesystem::file_size(file, vanished);
    entry.size_bytes = vanished ? 0 : size;
    entry.metadata = storage::read_metadata(file);
    if (!quick) {
      verify(entry);
    }
  } catch (const StorageError& error) {
    entry.problem = error.what();  // it may be valid all the same
  } catch (const Error& error) {
    entry.valid = false;
    entry.problem = error.what();
  }
  return entry;
}

std::string validity_text(const Entry& entry) {
  if (!entry.valid) {
    return entry.problem.empty() ? "not checked" : "UNREADABLE: " + printable(entry.problem);
  }
  return *entry.valid ? "valid" : "INVALID: " + printable(entry.problem);
}

void print_entries(const std::vector<Entry>& entries) {
  constexpr auto kRight = Table::Align::right;
  Table table(
      {{"FILE"}, {"NUMBER", kRight}, {"STEP", kRight}, {"SIZE", kRight}, {"AGE", kRight}, {"REASON"}, {"STATE"}});
  for (const Entry& entry : entries) {
    std::vector<std::string> cells{core::escaped(entry.file.filename().string()),
                                   std::to_string(entry.number),
                                   "?",
                                   core::size_text(entry.size_bytes),
                                   "?",
                                   "?",
                                   validity_text(entry) + (is_pinned(entry.file) ? ", pinned" : "")};
    if (entry.metadata) {
      cells[2] = entry.metadata->run_calls ? std::to_string(*entry.metadata->run_calls) : "-";
      cells[4] = human_age(time_of(*entry.metadata));
      cells[5] = reason_text(entry.metadata->reason);
    }
    table.add_row(std::move(cells));
  }
  table.print(std::cout);
}

void print_text(const Options& options, const std::vector<Entry>& entries, const LocalListing& local) {
  if (entries.empty()) {
    std::cout << "no checkpoints in " << core::escaped(options.directory.string()) << '\n';
  } else {
    print_entries(entries);
  }
  for (const auto& file : quarantined_files(options.directory)) {
    std::cout << "quarantined as corrupt: " << core::escaped(file.filename().string()) << '\n';
  }
  for (const auto& file : quarantined_files(options.directory, manager::kRewoundSuffix)) {
    std::cout << "rewound, `reprieve rewind --undo` takes it back: " << core::escaped(file.filename().string()) << '\n';
  }
  if (!options.local.empty() || !local.entries.empty()) {
    print_text(local);
  }
}

Json to_json(const Entry& entry) {
  Json json{{"file", entry.file.string()}, {"number", entry.number}};
  if (entry.metadata) {
    const auto& metadata = *entry.metadata;
    const std::chrono::duration<double> age = std::chrono::system_clock::now() - time_of(metadata);
    json["step"] = metadata.run_calls ? Json(*metadata.run_calls) : Json();
    json["run"] = metadata.identity ? Json(metadata.identity->run) : Json();
    json["save"] = metadata.identity ? Json(metadata.identity->save) : Json();
    json["world_size"] = metadata.world_size;
    json["time"] = utc_time(time_of(metadata));
    json["age_s"] = age.count();
    json["reason"] = tool::to_json(metadata.reason);
  }
  json["size_bytes"] = entry.size_bytes;
  json["pinned"] = is_pinned(entry.file);
  json["valid"] = entry.valid ? Json(*entry.valid) : Json();
  json["problem"] = entry.problem.empty() ? Json() : Json(entry.problem);
  return json;
}

Json to_json(const Options& options, const std::vector<Entry>& entries, const LocalListing& local) {
  return {
      {"directory", options.directory.string()},
      {"checkpoints", list_json(entries, [](const Entry& entry) { return to_json(entry); })},
      {"quarantine", list_json(quarantined_files(options.directory), [](const auto& file) { return file.string(); })},
      {"rewound", list_json(quarantined_files(options.directory, manager::kRewoundSuffix),
                            [](const auto& file) { return file.string(); })},
      {"local", list_json(local.entries, local_json)}};
}

/// What this node reaches of node-local copies. Where nobody asked for them, what cannot be listed is left out.
LocalListing look_at_local(const Options& options) {
  if (!options.local.empty()) {
    require_directory(options.local);
    return {options.local, list_local(options.local, options.directory)};
  }
  const std::filesystem::path local = local_directory_of(options.directory).value_or("");
  try {
    return {local, list_local(local, options.directory)};
  } catch (const Error&) {
    return {};
  }
}

int list_all_local(const Options& options) {
  const std::filesystem::path place = options.local.empty() ? "/dev/shm" : options.local;
  require_directory(place);
  const LocalListing local{place, list_local(place, {})};
  print_answer(options.json, {{"local", list_json(local.entries, local_json)}}, [&] { print_text(local); });
  return kGood;
}

int run(const Options& options) {
  if (options.all_local) {
    return list_all_local(options);
  }
  require_directory(options.directory);
  const LocalListing local = look_at_local(options);
  std::vector<Entry> entries;
  look_at_each(options.directory, [&](const CheckpointFile& file) {
    Entry entry = look_at(file, options.quick);
    if (!entry.valid.value_or(true) && is_gone(file.path)) {
      return false;
    }
    entries.push_back(std::move(entry));
    return true;
  });
  print_answer(options.json, to_json(options, entries, local), [&] { print_text(options, entries, local); });
  return kGood;
}

}  // namespace

void add(const Tool& tool) {
  add_command<Options>(tool, "ls", "List the checkpoints of a directory", kFooter, define, run);
}

}  // namespace reprieve::tool::ls_command

// reprieve xdmf DIR

namespace reprieve::tool::xdmf_command {

namespace {

constexpr const char* kFooter =
    R"(Writes a side file with which ParaView, VisIt and others open the checkpoints of a directory directly, as a series in
time; no data are copied. It shows the distributed arrays of one to three dimensions, of integers and of float and
double, as values at the points of a regular grid. Write it again when there are more checkpoints, or fewer.

Examples:
  reprieve xdmf checkpoints                                 checkpoints/checkpoints.xdmf; the time is the number
  reprieve xdmf checkpoints --time progress/time            the time is a replicated number in the state
  reprieve xdmf checkpoints --spacing 0.1,0.1,0.05          of the dimensions as h5dump shows them: z,y,x
  paraview checkpoints/checkpoints.xdmf                     choose one of the XDMF readers

Exit codes: 0 written, 2 unreadable directory, no such time variable, or wrong usage.)";

struct Options {
  std::filesystem::path directory;
  std::filesystem::path output;
  XdmfOptions xdmf;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command.add_option("DIR", options.directory, "Directory of checkpoints")->required();
  command.add_option("--output", options.output, "The file to write (default: checkpoints.xdmf in DIR)")
      ->type_name("FILE");
  command.add_option("--time", options.xdmf.time_variable, "The variable that is the time (default: the number)")
      ->type_name("NAME");
  command
      .add_option("--origin", options.xdmf.origin, "Position of the first point, slowest dimension first (default: 0)")
      ->delimiter(',')
      ->type_name("Z,Y,X");
  command.add_option("--spacing", options.xdmf.spacing, "Distance of neighbours, slowest dimension first (default: 1)")
      ->delimiter(',')
      ->type_name("Z,Y,X");
  add_json(command, options.json);
}

int run(const Options& options) {
  require_directory(options.directory);
  const std::filesystem::path file = options.output.empty() ? options.directory / "checkpoints.xdmf" : options.output;
  const XdmfReport report = write_xdmf(options.directory, file, options.xdmf);
  print_answer(options.json, {{"file", file.string()}, {"checkpoints", report.checkpoints}, {"arrays", report.arrays}},
               [&] {
                 std::cout << core::escaped(file.string()) << ": " << report.checkpoints << " checkpoints with "
                           << report.arrays << " arrays\n";
               });
  return kGood;
}

}  // namespace

void add(const Tool& tool) {
  add_command<Options>(tool, "xdmf", "Let ParaView open the checkpoints of a directory", kFooter, define, run);
}

}  // namespace reprieve::tool::xdmf_command
