// SPDX-License-Identifier: BSD-3-Clause
#include "settings/manager_settings.hpp"

#include "reprieve/error.hpp"

namespace reprieve {

namespace {

core::Names<WriterKind> writer_names() {
  core::Names<WriterKind> names;
  for (const detail::WriterTraits& writer : detail::kWriters) {
    names.emplace_back(writer.name, writer.kind);
  }
  return names;
}

}  // namespace

// A prefix has at most 180 bytes: file systems allow names of 255, and number, time and suffixes take up to 60.
core::Table<ManagerOptions> manager_settings() {
  using core::duration;
  using O = ManagerOptions;
  using Second = std::ratio<1>;
  return {
      // A program that looks for other files than it has written would begin at zero.
      core::only_in_code(core::text("prefix", &O::prefix, "checkpoint files are called <prefix>-<number>.h5",
                                    R"([^/.\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,179})",
                                    "1 to 180 characters, without / and control characters, not beginning with a dot")),
      core::whole_number("max_to_keep", &O::max_to_keep, {0, 1e9}, "newest checkpoints to keep; 0: all"),
      duration<Second>("keep_every_s", &O::keep_every, {0, kYear},
                       "beyond max_to_keep, keep one checkpoint for every such span of time; 0: off"),
      core::choice("writer", &O::writer, writer_names(),
                   "how the data reach the file: each rank by itself, or collectively through MPI-IO"),
      core::choice("io", &O::io,
                   {{"auto", FileIo::automatic}, {"page_cache", FileIo::page_cache}, {"direct", FileIo::direct}},
                   "how the direct writer hands bytes to the file system; what it cannot do is replaced by something "
                   "simpler"),
      core::flag("durable", &O::durable, "fsync before the commit; without it a power cut can lose checkpoints"),
      core::flag("background", &O::background, "write periodic and requested checkpoints while the program goes on"),
      core::choice("background_busy", &O::background_busy,
                   {{"wait", BackgroundBusy::wait}, {"skip", BackgroundBusy::skip}},
                   "what to do with such a save while the one before is still being written"),
      core::whole_number("background_memory_bytes", &O::background_memory_bytes, {0, 1e15},
                         "the greatest copy of its state that a rank may make for that; 0: no limit"),
      core::text("near_directory", &O::near_directory,
                 "where each node keeps copies of the state for a start after a crash, mostly /dev/shm; empty: none",
                 R"((/.*)?)", "an absolute path, or nothing"),
      duration<Second>("near_every_s", &O::near_every, {0.001, kYear}, "how often such a copy is taken"),
      core::flag("near_partner", &O::near_partner, "keep each part of such a copy on another host as well"),
      core::text("near_domains", &O::near_domains,
                 "a file with lines `<host> <domain>`: partners lie in different domains, such as racks", R"((/.*)?)",
                 "an absolute path, or nothing"),
      duration<Second>("near_rescue_after_s", &O::near_rescue_after, {0, kYear},
                       "how long a notice stands without a save before each rank brings its near copy into the "
                       "directory by itself"),
      core::flag("recycle", &O::recycle, "write over the file of the checkpoint that was retired last"),
      core::flag("reserve", &O::reserve, "take the space for the next checkpoint in advance"),
      core::flag("array_task_is_constant", &O::array_task_is_constant,
                 "inside of a Slurm array, a task does not go on from the state of another one"),
      core::flag("restart_finished", &O::restart_finished,
                 "go on in a directory whose run was finished after its newest checkpoint, and make the steps between "
                 "once more"),
      core::flag("verify_on_restore", &O::verify_on_restore, "verify the checksums of what is restored"),
      core::flag("event_log", &O::event_log, "write events.jsonl in the directory"),
      duration<Second>("lock_timeout_s", &O::lock_timeout, {0, kYear},
                       "how long to wait for a run that still holds the directory"),
      duration<Second>("io_timeout_s", &O::io_timeout, {0.001, kYear},
                       "how long a rank waits for the others in one stage of a save or a restore"),
  };
}

void validate(const ManagerOptions& options) {
  core::check_all(manager_settings(), options);
  for (const detail::WriterTraits& writer : detail::kWriters) {
    if (options.background && options.writer == writer.kind && !writer.in_background) {
      throw ConfigError(std::string("the ") + writer.name +
                        " writer does not write in the background: set writer to direct, or background to false");
    }
  }
}

}  // namespace reprieve
