// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The words for a save: how and why it is made, what a user adds to it, and what is known of it afterwards. No MPI.

#include <any>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "reprieve/export.h"

namespace reprieve {

/// How the data of a checkpoint reach the file. Both give the same content to any HDF5 tool; see apps/guide/format.md.
enum class WriterKind {
  direct,  ///< rank 0 lays the file out, every rank writes its data with pwrite at the offsets of the datasets
  mpio,    ///< collective HDF5 transfers through MPI-IO, read back and compared before the commit
};

namespace detail {

struct WriterTraits {
  WriterKind kind;
  const char* name;    ///< in settings
  bool in_background;  ///< can write while the program continues
};
inline constexpr std::array<WriterTraits, 2> kWriters{{
    {WriterKind::direct, "direct", true},
    {WriterKind::mpio, "mpio", false},
}};

}  // namespace detail

/// How the direct writer hands bytes to the file system. What a file system cannot do is replaced by the next simpler
/// way, without an error.
enum class FileIo {
  automatic,   ///< as is fastest: `direct` for large parts on a disk, `page_cache` for the rest
  page_cache,  ///< plain pwrite
  direct,      ///< O_DIRECT, by threads that call pwrite
};

/// How the direct writer compresses large arrays, chunk by chunk, while the disk is busy with earlier ones: what it
/// would wait for anyway costs nothing. Needs a library that was built with Blosc.
enum class Compression {
  none,
  lz4,   ///< fast
  zstd,  ///< smaller, at a third of the speed: for slow disks
};

/// Why a checkpoint was written.
struct SaveReason {
  enum class Kind { user, periodic, preemption };
  Kind kind = Kind::user;
  int rank = -1;          ///< preemption: the rank that had the notice
  std::string host{};     ///< preemption: its host
  std::string source{};   ///< preemption: "signal SIGTERM", "watcher function", "file", ...
  std::string message{};  ///< what the notice said, or what the user gave
};

/// Lower-case name: "user", "periodic", "preemption".
REPRIEVE_EXPORT const char* to_string(SaveReason::Kind kind) noexcept;

/// What a user's save function gets.
struct SaveFnContext {
  /// Where this rank may write. Rank 0's files there are committed together with the checkpoint, as the directory
  /// `<prefix>-<number>.files`; the other ranks' directories are scratch and vanish.
  std::filesystem::path write_directory;
  std::uint64_t number = 0;  ///< number of the checkpoint
  bool is_chief = false;
  std::span<const std::any> args;  ///< the arguments of `save_checkpoint_if_preempted(args...)`
};

/// A user's own part of a save, called on every rank before the commit. An exception makes the save fail on all ranks.
/// It must not save or restore by the manager that calls it, but with `SaveFnMode::instead`: that is a UsageError on
/// all ranks.
using SaveFn = std::function<void(const SaveFnContext&)>;

/// What a handler's save is made of, if there is a save function.
enum class SaveFnMode {
  /// The handler writes its checkpoint, and the function adds files to it.
  besides,
  /// The function is all of the save, as in TensorFlow: it calls `handler.manager().save(context.number)`, or writes
  /// what it likes. Its `write_directory` is the checkpoint directory on rank 0, and below a `workertemp_<rank>`,
  /// which vanishes, on the others. The handler restores what its manager finds, and nothing else. Never in the
  /// background.
  instead,
};

/// What is known about one checkpoint without reading its data.
struct CheckpointInfo {
  std::filesystem::path path;
  std::uint64_t number = 0;  ///< from the file name
  /// The handler's `total_run_calls()` at the save, whoever asked for it. Nothing if no handler lived then.
  std::optional<std::uint64_t> run_calls;
  /// What decides which one is the newest of its directory, before its name and its time: the start of a program in
  /// this directory that saved it, counted from 1, and the save, counted from 1 over all starts. Both 0 in files of
  /// versions that did not count; these are older than all others, by number.
  std::uint64_t run = 0;
  std::uint64_t save = 0;
  std::string directory_id;  ///< of the directory that it was saved in; empty in files of older versions
  int world_size = 0;        ///< ranks that saved
  std::chrono::system_clock::time_point time;
  std::uint64_t size_bytes = 0;
  SaveReason reason;
  /// Rank 0's files of the user's save function, if there were any.
  std::optional<std::filesystem::path> files_directory;
};

/// Figures of one save; the same on every rank.
struct SaveReport {
  std::filesystem::path path;
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;  ///< size of the state, all ranks together
  double seconds = 0;       ///< what the save took, to the commit, the slowest rank's
  /// For how much of that the program stood still: all of it, unless it was saved in the background.
  double blocked_seconds = 0;
};

}  // namespace reprieve
