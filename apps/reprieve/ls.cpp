// SPDX-License-Identifier: BSD-3-Clause
// reprieve ls [DIR...]

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "command.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "reprieve/xdmf.hpp"

namespace reprieve::tool::ls_command {

namespace {

constexpr const char* kFooter =
    R"(Lists the committed checkpoints, oldest first. STEP is the number of calls of run() that the state holds. It reads no
data, so it is done at once, also with terabytes: `reprieve verify` reads them, and says which checkpoints are valid.

  STATE    committed: it was written to its end; CORRUPT: what the file says of itself is wrong; NOT A CHECKPOINT: a file
           of another kind with such a name

Examples:
  reprieve ls checkpoints
  reprieve ls run1 run2                           of several directories
  file=$(reprieve ls --latest checkpoints)        the path of the newest one, for scripts
  reprieve ls checkpoints --local /dev/shm        what lies in the memory of this node besides? Listed also without
                                                  --local, if the last run took node-local copies
  reprieve ls --all-local                         what of mine fills the memory of this node, of all directories?
  reprieve ls checkpoints --json | jq '.checkpoints[-1].step'

Exit codes: 0 listed, also if there is none,)";

struct Options {
  std::vector<std::filesystem::path> directories;
  std::filesystem::path local;
  bool all_local = false;
  bool latest = false;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  CLI::Option* const directory = add_directory(command, options.directories, "Directories of checkpoints");
  command.add_flag("--latest", options.latest,
                   "Print the path of the newest checkpoint of each directory alone; exit code 3 if one has none");
  command.add_option("--local", options.local,
                     "Also list the node-local copies in this directory [checkpoints.local_directory of the last run]");
  command
      .add_flag("--all-local", options.all_local,
                "List the node-local copies of all directories of checkpoints, in --local or /dev/shm")
      ->excludes(directory)
      ->excludes("--latest");
  const auto refuse = [] {
    throw UsageError("ls reads no data now, so it has no --quick: leave it out; `reprieve verify` reads the data");
  };
  command.add_flag_callback("--quick", refuse)->group("");  // of version 0.1
  add_color(command);
}

struct LocalListing {
  std::filesystem::path directory;  ///< empty: only what was flushed was looked for
  std::vector<LocalListEntry> entries;
};

const char* state_of(const LocalListEntry& entry) {
  return entry.is_flushed ? "flushed into this directory" : entry.in_use ? "in use" : "left by a run that is gone";
}

void print_text(const LocalListing& listing) {
  const std::string where = listing.directory.empty() ? "" : " in " + listing.directory.string();
  if (listing.entries.empty()) {
    std::cout << "no node-local copies" << where << '\n';
    return;
  }
  std::cout << "parts of node-local copies that this node reaches" << where << ":\n";
  Table table = table_of({"OF", ">STEP", ">PARTS", ">FOR PARTNERS", ">SIZE", ">AGE", "STATE"});
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

/// @param directory  the one that was asked for
Json local_json(const LocalListEntry& entry, const std::filesystem::path& directory) {
  Json item{{"folder", entry.folder.string()},
            {"directory", entry.is_of_directory ? Json(directory.string()) : Json()},
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
  CheckpointFile file;
  std::uint64_t size_bytes = 0;
  std::optional<storage::FileMetadata> metadata;  ///< nothing if it cannot be read
  const char* state = "committed";
  std::string problem;  ///< why it is not committed, or not known to be
};

/// What the log says of an entry's copy elsewhere; null if nothing.
const RemoteCopy* copy_of(const Entry& entry, const std::optional<RunStatus>& status) {
  return status ? status->copy_of(entry.file.path) : nullptr;
}

/// What one directory has.
struct Listing {
  std::filesystem::path directory;
  std::vector<Entry> entries;
  LocalListing local;
  std::optional<RunStatus> status;  ///< by the log
};

Entry entry_of(const CheckpointFile& checkpoint) {
  std::error_code vanished;
  const std::uintmax_t size = std::filesystem::file_size(checkpoint.path, vanished);
  Entry entry{checkpoint, vanished ? 0 : size, {}, "committed", {}};
  try {
    entry.metadata = storage::read_metadata(checkpoint.path);
  } catch (const CorruptError& error) {
    const bool is_other = is_foreign(checkpoint.path);
    entry.state = is_other ? "NOT A CHECKPOINT" : "CORRUPT";
    entry.problem = is_other ? kForeign : error.what();
  } catch (const Error& error) {
    entry.state = "UNREADABLE";
    entry.problem = error.what();
  }
  return entry;
}

std::string copy_text(const RemoteCopy* copy) {
  return copy == nullptr                     ? "-"
         : copy->state == CopyState::copying ? to_string(copy->state)
         : copy->state == CopyState::copied  ? toned(Tone::good, to_string(copy->state))
                                             : toned(Tone::bad, to_string(copy->state));
}

void print_entries(const std::vector<Entry>& entries, const std::optional<RunStatus>& status) {
  std::vector<std::string> titles{"FILE", ">NUMBER", ">STEP", ">SIZE", ">AGE", "REASON", "STATE"};
  const bool has_copies = status && !status->copies.empty();
  if (has_copies) {
    titles.emplace_back("COPY");
  }
  Table table = table_of(titles);
  for (const Entry& entry : entries) {
    const auto& metadata = entry.metadata;
    std::vector<std::string> cells{core::escaped(entry.file.path.filename().string()),
                                   std::to_string(entry.file.number),
                                   !metadata             ? "?"
                                   : metadata->run_calls ? std::to_string(*metadata->run_calls)
                                                         : "-",
                                   core::size_text(entry.size_bytes),
                                   metadata ? human_age(time_of(*metadata)) : "?",
                                   metadata ? reason_text(metadata->reason) : "?",
                                   toned(metadata ? Tone::good : Tone::bad, entry.state) +
                                       (metadata ? "" : ": " + printable(entry.problem)) +
                                       (is_pinned(entry.file.path) ? ", pinned" : "")};
    if (has_copies) {
      cells.push_back(copy_text(copy_of(entry, status)));
    }
    table.add_row(std::move(cells));
  }
  table.print(std::cout);
}

void print_text(const Options& options, const Listing& listing) {
  if (listing.entries.empty()) {
    std::cout << "no checkpoints in " << core::escaped(listing.directory.string()) << '\n';
  } else {
    print_entries(listing.entries, listing.status);
  }
  for (const auto& file : quarantined_files(listing.directory)) {
    std::cout << "quarantined as corrupt: " << core::escaped(file.filename().string()) << '\n';
  }
  for (const auto& file : quarantined_files(listing.directory, manager::kRewoundSuffix)) {
    std::cout << "rewound, `reprieve rewind --undo` takes it back: " << core::escaped(file.filename().string()) << '\n';
  }
  if (!options.local.empty() || !listing.local.entries.empty()) {
    print_text(listing.local);
  }
}

Json to_json(const Entry& entry, const RemoteCopy* copy) {
  Json json{{"file", entry.file.path.string()}, {"number", entry.file.number}};
  if (entry.metadata) {
    const auto& metadata = *entry.metadata;
    const std::chrono::duration<double> age = std::chrono::system_clock::now() - time_of(metadata);
    json["step"] = or_null(metadata.run_calls);
    json["run"] = metadata.identity ? Json(metadata.identity->run) : Json();
    json["save"] = metadata.identity ? Json(metadata.identity->save) : Json();
    json["ranks"] = metadata.world_size;
    json["time"] = utc_time(time_of(metadata));
    json["age_s"] = age.count();
    json["reason"] = tool::to_json(metadata.reason);
  }
  json["size_bytes"] = entry.size_bytes;
  json["state"] = entry.state;
  json["pinned"] = is_pinned(entry.file.path);
  json["copy"] = copy == nullptr ? Json() : tool::to_json(*copy);
  json["problem"] = entry.problem.empty() ? Json() : Json(entry.problem);
  return json;
}

Json to_json(const std::vector<Listing>& listings) {
  Json json{{"directories", Json::array()},
            {"checkpoints", Json::array()},
            {"quarantined", Json::array()},
            {"rewound", Json::array()},
            {"local", Json::array()}};
  for (const Listing& listing : listings) {
    json["directories"].push_back(listing.directory.string());
    for (const Entry& entry : listing.entries) {
      json["checkpoints"].push_back(to_json(entry, copy_of(entry, listing.status)));
    }
    for (const auto& file : quarantined_files(listing.directory)) {
      json["quarantined"].push_back(file.string());
    }
    for (const auto& file : quarantined_files(listing.directory, manager::kRewoundSuffix)) {
      json["rewound"].push_back(file.string());
    }
    for (const LocalListEntry& entry : listing.local.entries) {
      if (entry.is_of_directory || listings.size() == 1) {  // the others would come once for each directory
        json["local"].push_back(local_json(entry, listing.directory));
      }
    }
  }
  return json;
}

/// What this node reaches of node-local copies. Where nobody asked for them, what cannot be listed is left out.
LocalListing reachable_local(const Options& options, const Listing& listing) {
  const std::filesystem::path& directory = listing.directory;
  if (!options.local.empty()) {
    require_directory(options.local);
    return {options.local, list_local(options.local, directory)};
  }
  const std::filesystem::path local = local_directory_of(listing.status).value_or("");
  try {
    return {local, list_local(local, directory)};
  } catch (const Error&) {
    return {};
  }
}

int list_all_local(const Options& options) {
  const std::filesystem::path directory = options.local.empty() ? "/dev/shm" : options.local;
  require_directory(directory);
  const LocalListing local{directory, list_local(directory, {})};
  const auto json = list_json(local.entries, [](const LocalListEntry& entry) { return local_json(entry, {}); });
  print_answer(options.json, {{"local", json}}, [&] { print_text(local); });
  return kGood;
}

std::vector<Entry> entries_of(const std::filesystem::path& directory) {
  std::vector<Entry> entries;
  for_each_checkpoint(directory, [&](const CheckpointFile& file) {
    Entry entry = entry_of(file);
    if (!entry.metadata && is_gone(file.path)) {
      return false;
    }
    entries.push_back(std::move(entry));
    return true;
  });
  return entries;
}

/// The newest that is committed: of each kind, the last one of the list; of several kinds, the one saved last. One
/// that was copied here comes last, as it does in a restore.
Entry latest_of(const std::vector<Entry>& entries, const std::filesystem::path& directory) {
  std::map<std::string, const Entry*> last;
  for (const Entry& entry : entries) {
    if (entry.metadata) {
      last[entry.file.prefix] = &entry;
    }
  }
  if (last.empty()) {
    throw MissingError("there is no checkpoint in " + core::escaped(directory.string()));
  }
  const auto age = [](const auto& each) {
    return std::pair(!each.second->file.is_foreign, each.second->metadata->time_us);
  };
  return *std::ranges::max_element(last, {}, age)->second;
}

/// Paths for scripts: on a terminal alone without what would steer it.
void print_latest(const std::vector<Listing>& listings) {
  for (const Listing& listing : listings) {
    const std::string path = listing.entries.front().file.path.string();
    std::cout << (::isatty(STDOUT_FILENO) == 1 ? core::escaped(path) : path) << '\n';
  }
}

void print_all(const Options& options, const std::vector<Listing>& listings) {
  for (const Listing& listing : listings) {
    if (listings.size() > 1) {
      std::cout << (&listing == &listings.front() ? "" : "\n") << core::escaped(listing.directory.string()) << ":\n";
    }
    print_text(options, listing);
  }
}

int run(const Options& options) {
  if (options.all_local) {
    return list_all_local(options);
  }
  std::ranges::for_each(options.directories, require_directory);
  std::vector<Listing> listings;
  for (const auto& directory : options.directories) {
    Listing& listing = listings.emplace_back(Listing{directory, entries_of(directory), {}, {}});
    if (!options.latest || options.json) {
      listing.status = logged_status(directory);
    }
    if (options.latest) {
      listing.entries = {latest_of(listing.entries, directory)};
    } else {
      listing.local = reachable_local(options, listing);
    }
  }
  print_answer(options.json, to_json(listings),
               [&] { options.latest ? print_latest(listings) : print_all(options, listings); });
  return kGood;
}

}  // namespace

void add(const Tool& tool) { add_command(tool, "ls", "List the checkpoints of a directory", kFooter, define, run); }

}  // namespace reprieve::tool::ls_command

// reprieve xdmf [DIR]

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

Exit codes: 0 written,)";

struct Options {
  std::filesystem::path directory;
  std::filesystem::path output;
  XdmfOptions xdmf;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  add_directory(command, options.directory, "Directory of checkpoints");
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
}

int run(const Options& options) {
  require_directory(options.directory);
  const std::filesystem::path file = options.output.empty() ? options.directory / "checkpoints.xdmf" : options.output;
  const std::vector<CheckpointFile> found = checkpoint_files(options.directory);
  if (found.empty()) {
    throw MissingError("there is no checkpoint in " + core::escaped(options.directory.string()));
  }
  if (std::ranges::all_of(found, [](const CheckpointFile& each) { return is_foreign(each.path); })) {
    require_checkpoint(found.front().path);
  }
  const XdmfReport report = write_xdmf(options.directory, file, options.xdmf);
  print_answer(options.json, {{"file", file.string()}, {"checkpoints", report.checkpoints}, {"arrays", report.arrays}},
               [&] {
                 std::cout << core::escaped(file.string()) << ": " << count_text(report.checkpoints, "checkpoint")
                           << " with " << count_text(report.arrays, "array") << '\n';
               });
  return kGood;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "xdmf", "Let ParaView open the checkpoints of a directory", kFooter, define, run);
}

}  // namespace reprieve::tool::xdmf_command
