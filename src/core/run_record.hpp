// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The run record: what a run tells the supervisor that started it.
///
/// A supervisor makes a private directory for each run and names it in the environment. Every process that owns a
/// checkpoint directory then writes its events there as well as into its event log, in the same form, into a file of
/// its own: nodes that share a file system cannot append to one file together. What a supervisor decides rests on these
/// events, since the exit code of a launcher tells too little.

#include <string>

#include "core/event_log.hpp"

namespace reprieve::core {

/// The variable that names the directory.
inline constexpr const char* kRunDirectoryVariable = "REPRIEVE_RUN_DIR";

/// The variable that names the checkpoint directory, for the program that a supervisor starts.
inline constexpr const char* kDirectoryVariable = "REPRIEVE_DIRECTORY";

/// The file in the checkpoint directory that ends the job politely when somebody makes it: a supervisor looks for it,
/// or, where there is none, the run itself.
inline constexpr const char* kPreemptFile = "PREEMPT";

/// The name that a record ends with; before it stand host and process.
inline constexpr const char* kRunRecordSuffix = ".jsonl";

/// Opens the record of this process. Records nothing if no supervisor has started it.
EventLog open_run_record(const std::string& host);

}  // namespace reprieve::core
