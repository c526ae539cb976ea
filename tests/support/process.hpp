// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Real processes for end-to-end tests: start them, signal them, read their output, and leave none behind.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "support/temporary_directory.hpp"

namespace reprieve::test {

/// Variables to set, or (without a value) to remove, on top of this process's environment.
using Environment = std::map<std::string, std::optional<std::string>>;

/// How often a test does something: @p usual, or what an environment variable says.
[[nodiscard]] int count_from(const char* variable, int usual);

/// Asks @p predicate every few milliseconds until it is true; false if it is not within @p limit.
[[nodiscard]] bool wait_until(const std::function<bool()>& predicate, std::chrono::milliseconds limit);

/// The content of a file; empty if there is none.
std::string read_text(const std::filesystem::path& file);

/// Words of a command line, and more of them behind.
inline std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The words of a text, between which there are blanks.
inline std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return std::vector<std::string>(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
}

/// Path of a program of this build ("reprieve", "reprieve-trainer", ...).
std::string program(const std::string& name);

/// What every mpirun of the tests reads, of Open MPI 4 (OMPI_) and 5 (PRTE_): root may start it, and ranks may
/// outnumber the cores and are not bound to them.
Environment mpirun_environment();

/// Whether mpirun is that of Open MPI 4: version 5 has fewer options, and ends ranks 0.5 s after a SIGTERM.
[[nodiscard]] bool has_open_mpi_4();

/// What to start.
struct Command {
  std::vector<std::string> arguments;  ///< the program (searched in PATH), then its arguments
  Environment environment = {};
  std::filesystem::path directory = {};  ///< to start in; empty: this process's
};

/// A running or finished process in a process group of its own. Standard input is empty; the output goes to files, so
/// that a process never waits for its reader.
///
/// What it starts is found by a mark in the environment, so also when it changed its group or lost its parent, and is
/// killed with it in the destructor. Start it from a thread that lives as long as it: the kernel kills the process when
/// that thread ends, so that a test killed by its time limit leaves nothing behind either.
class Process {
 public:
  /// @throws std::runtime_error if the program cannot be started
  explicit Process(const Command& command);
  /// Kills everything that is left of it.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Exit code as a shell shows it (128 + signal if one killed it), or nothing while it runs.
  [[nodiscard]] std::optional<int> exit_code();
  [[nodiscard]] bool running() { return !exit_code().has_value(); }

  /// Waits for the end of the process (not of what it started). Nothing if it does not end within @p limit.
  std::optional<int> wait(std::chrono::milliseconds limit);

  /// Sends a signal to the process alone, or to its whole group as a terminal does. Nothing happens after its end.
  void send(int signal);
  void send_to_group(int signal);

  /// What it and those it started have written so far.
  [[nodiscard]] std::string out() const { return read_text(files_ / "out"); }
  [[nodiscard]] std::string err() const { return read_text(files_ / "err"); }

  /// The living processes that it started, directly or not, without itself.
  [[nodiscard]] std::vector<pid_t> descendants() const;

  /// Waits until none of them is left.
  [[nodiscard]] bool wait_for_descendants(std::chrono::milliseconds limit) const;

 private:
  void kill_all();

  TemporaryDirectory files_;
  std::string mark_;
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

/// What to start under mpirun.
struct MpiCommand {
  int ranks = 1;
  std::vector<std::string> arguments;            ///< the program, then its arguments
  std::vector<std::string> mpirun_options = {};  ///< more options for mpirun
  std::vector<std::string> launch_prefix = {};   ///< put before mpirun, as in {"env", "--block-signal=TERM"}
  std::vector<std::string> rank_prefix = {};     ///< put before the program on every rank, as in {"nice", "-n", "5"}
  Environment environment = {};
  std::filesystem::path directory = {};
};

namespace detail {
/// Keeps the shared memory files of killed ranks out of /dev/shm, and what a killed mpirun of Open MPI 5 leaves out of
/// /tmp, where a later one with the same number would fail because of it. A base, so that it outlives the process.
struct SharedMemoryDirectory {
  TemporaryDirectory shared_memory{"/dev/shm"};
};
}  // namespace detail

/// An mpirun and its ranks, as many as wanted on however few cores.
class Mpirun : private detail::SharedMemoryDirectory, public Process {
 public:
  explicit Mpirun(const MpiCommand& command);

  /// The process of each rank that has started the program and lives, by rank. A rank that a wrapper is still starting
  /// is not there yet.
  [[nodiscard]] std::map<int, pid_t> ranks() const;

  /// Waits until all ranks have started the program; false too if mpirun ended before.
  [[nodiscard]] bool wait_for_ranks(std::chrono::milliseconds limit);

  /// Sends a signal to one rank; false if it does not live.
  bool send_to_rank(int rank, int signal);
  /// Sends a signal to every rank that lives, in the order of the ranks; returns how many.
  int send_to_ranks(int signal);

 private:
  int size_;
  std::filesystem::path program_;
};

}  // namespace reprieve::test
