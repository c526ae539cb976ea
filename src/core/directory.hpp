// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A directory as a handle: opened once, then everything in it is reached through the handle, and never through a path
/// that somebody else can point elsewhere. This is the only part of the library that gives names to the system
/// calls that change files.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprieve::core {

/// A file descriptor that is closed with its object. It is none of 0, 1 and 2, on which others print, even where a
/// program has closed these.
class Descriptor {
 public:
  Descriptor() = default;
  /// Takes what a system call has returned; keeps errno where that is no descriptor.
  explicit Descriptor(int number) noexcept;
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  /// Gives it away: the caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// While it lives, none of the numbers 0, 1 and 2 is free: what a foreign library opens gets a greater one.
class StandardDescriptors {
 public:
  StandardDescriptors() noexcept;
  ~StandardDescriptors();
  StandardDescriptors(const StandardDescriptors&) = delete;
  StandardDescriptors& operator=(const StandardDescriptors&) = delete;

 private:
  std::array<bool, 3> filled_{};
};

/// The path without `.` and a slash at its end, and with each `..` resolved as the system does it: where the directory
/// before it is a link, that is the place above the directory to which the link leads. What is not there has the place
/// that the path names. @throws StorageError
[[nodiscard]] std::filesystem::path without_dots(const std::filesystem::path& path);

/// What a name in a directory stands for; links are not followed.
enum class EntryKind { file, directory, link, other };

struct DirectoryEntry {
  std::string name;
  EntryKind kind;
};

/// Whether a name may stand for a link to a file elsewhere.
enum class Links { refused, followed };

/// Opens a regular file by its path, for files that a user names: tools, input. Never waits, as it would for a FIFO.
/// @param links  whether the last name of the path may be one
/// @throws StorageError
[[nodiscard]] Descriptor open_file_by_path(const std::filesystem::path& path, int flags, mode_t mode, Links links);

/// An open directory. Names given to its members are single names, without a slash; no link is followed, and only
/// regular files are opened. Not collective, any thread. Members throw StorageError unless they are marked `noexcept`.
class Directory {
 public:
  /// Opens a directory by its path. Links in the path are resolved now, once: later changes of them have no effect.
  static Directory open(const std::filesystem::path& path);

  /// The path without links, for messages and for programs that are started. It is not used to reach anything.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }
  [[nodiscard]] struct stat status() const;
  /// The mode of a file in it: for its user, and readable for those who may read the directory.
  [[nodiscard]] mode_t file_mode() const;
  /// The same of a directory.
  [[nodiscard]] mode_t directory_mode() const;
  /// Whether the file system is in memory.
  [[nodiscard]] bool is_in_memory() const;
  /// The free space of its file system for this user; nothing if it does not say.
  [[nodiscard]] std::optional<std::uint64_t> available_bytes() const noexcept;
  /// Whether they are one and the same.
  [[nodiscard]] bool is(const Directory& other) const;
  /// Whether the path still leads to this directory: it may have been removed, or replaced by another one.
  [[nodiscard]] bool is_at_its_path() const;

  /// What is known of a name; nothing if it is not there.
  [[nodiscard]] std::optional<struct stat> status_of(const std::string& name) const;
  [[nodiscard]] bool contains(const std::string& name) const { return status_of(name).has_value(); }
  /// The same, but of what a link leads to. Returns an error number, or 0.
  [[nodiscard]] int target_status(const std::string& name, struct stat& status) const;
  /// All names but `.` and `..`, sorted.
  [[nodiscard]] std::vector<DirectoryEntry> list() const;

  /// A directory in this one.
  [[nodiscard]] Directory open_directory(const std::string& name) const;
  /// The same; nothing if there is none of that name: nothing at all, or a file, or a link.
  [[nodiscard]] std::optional<Directory> find_directory(const std::string& name) const;
  /// The same, made again with exactly this mode, whatever the umask, and with the S_ISGID of this one. An error if the
  /// name is taken.
  Directory make_directory(const std::string& name, mode_t mode) const;  // NOLINT(modernize-use-nodiscard)
  /// The same; nothing if the name is taken, or if this directory itself has been removed.
  std::optional<Directory> make_directory_if_free(const std::string& name, mode_t mode) const;  // NOLINT: as above

  /// Opens a regular file. The open never waits, as it would for a FIFO.
  /// @param flags  O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_APPEND, O_TRUNC; the rest is added
  /// @param mode  of a file that is made, exactly, whatever the umask
  [[nodiscard]] Descriptor open_file(const std::string& name, int flags, mode_t mode = 0,
                                     Links links = Links::refused) const;

  /// chmod of a file. Where the file system has no such rights, only a warning.
  void set_file_mode(const std::string& name, mode_t mode) const;

  /// The content of a small file. @throws StorageError also if it is larger than @p most_bytes
  [[nodiscard]] std::string read_text(const std::string& name, std::size_t most_bytes) const;
  /// Replaces a small file as a whole: whoever reads it sees the old text or the new one. What stands in the way of the
  /// temporary name `<name>.new` is removed, and never written to.
  /// @param durable  return only when the new text survives a power cut
  void write_text(const std::string& name, const std::string& text, mode_t mode, bool durable) const;

  void rename(const std::string& from, const Directory& target, const std::string& to) const;
  /// Removes a file or a link. Returns false if it was not there.
  bool remove_file(const std::string& name) const;
  /// Removes a name and all that is below it. A link is removed itself, not what it leads to. Nothing if it is not
  /// there.
  void remove_tree(const std::string& name) const;
  /// Removes an empty directory. Returns false if it is not there, or not empty.
  bool remove_empty_directory(const std::string& name) const;

  /// fsync: what was made, renamed and removed in it survives a power cut. Where the file system cannot do that, only a
  /// warning.
  void sync() const;
  /// fsync of all files and directories below it, and of itself.
  void sync_tree() const;

 private:
  Directory(std::filesystem::path path, Descriptor descriptor) noexcept
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}
  std::filesystem::path path_;
  Descriptor descriptor_;
};

// Where a file lies: its path, for messages and for those who have nothing better, and, where it is known, the open
// directory below which it is reached whatever becomes of the path.

/// A value; any thread. Made of a path alone where nobody holds the directory (tools, files that a user names).
class FileAddress {
 public:
  FileAddress() = default;
  // The condition keeps it away from copies and moves.
  // NOLINTBEGIN(bugprone-forwarding-reference-overload,google-explicit-constructor,hicpp-explicit-conversions)
  template <class Path>
  requires(!std::same_as<std::remove_cvref_t<Path>, FileAddress> &&
           std::constructible_from<std::filesystem::path, Path>) FileAddress(Path&& path)
      : path_(std::forward<Path>(path)) {}
  // NOLINTEND(bugprone-forwarding-reference-overload,google-explicit-constructor,hicpp-explicit-conversions)
  /// @param below  of the directory: names of directories, and that of the file
  FileAddress(std::shared_ptr<const Directory> directory, std::filesystem::path below, std::filesystem::path path)
      : directory_(std::move(directory)), below_(std::move(below)), path_(std::move(path)) {}

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  operator const std::filesystem::path&() const noexcept { return path_; }  // NOLINT: as above
  [[nodiscard]] const char* c_str() const noexcept { return path_.c_str(); }
  [[nodiscard]] std::string string() const { return path_.string(); }
  [[nodiscard]] std::filesystem::path filename() const { return path_.filename(); }

  /// Opens the regular file; see Directory::open_file. Below a directory that is held no link is followed on the way.
  /// @throws StorageError
  [[nodiscard]] Descriptor open(int flags, mode_t mode = 0) const;
  /// The same to read it; the file itself may be a link, since a user may move checkpoints to an archive.
  [[nodiscard]] Descriptor open_to_read() const;

 private:
  [[nodiscard]] Descriptor open_in_place(int flags, mode_t mode, Links links) const;

  std::shared_ptr<const Directory> directory_;  ///< or null
  std::filesystem::path below_;
  std::filesystem::path path_;
};

// Who may read what the library writes. The directory decides: one that the library made is its user's alone, and so
// is all that is in it; into one that the user opened to others (`mkdir -m 750`), checkpoints are put readable for
// those.

/// For directories that the library makes.
inline constexpr mode_t kOwnDirectory = 0700;
/// For files whose directory does not matter, since it is the user's alone.
inline constexpr mode_t kOwnFile = 0600;

/// Whether a refusal to change rights is the way of the file system, and no fault. Says so once.
[[nodiscard]] bool has_no_rights(int error_number) noexcept;

// The directories that save functions write to on ranks other than rank 0. No MPI.

/// A directory that a rank other than rank 0 may write to while a save lasts. Removed with its content at the end.
///
/// It is `<parent>/workertemp_<rank>/<base>` for the checkpoint directory `<parent>/<base>`, if the parent is this
/// user's alone and that name is free or this user's. Else it lies inside of the checkpoint directory, as
/// `<parent>/<base>/workertemp_<rank>/<base>`: where others may write, a name that can be foreseen is
/// theirs as much as ours.
class WriteDirectory {
 public:
  /// Makes it, empty. What a dead run left of that name is removed. @throws StorageError
  /// @param checkpoints  the checkpoint directory, absolute
  WriteDirectory(const std::filesystem::path& checkpoints, int rank);
  /// Removes it, and its `workertemp_<rank>` if nothing else is in there. Logs failures.
  ~WriteDirectory();
  WriteDirectory(const WriteDirectory&) = delete;
  WriteDirectory& operator=(const WriteDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  [[nodiscard]] bool make_beside(const std::filesystem::path& checkpoints, int rank);

  std::string base_;
  Directory parent_;  ///< where `outer_` lies
  std::string outer_;
  std::filesystem::path path_;
};

/// Removes what dead ranks left of their write directories, in both parents. @throws StorageError
void remove_write_directories(const std::filesystem::path& checkpoints);

/// Removes what dead ranks left beside a checkpoint directory called @p base that lies, or lay, in @p parent.
/// @throws StorageError
void remove_write_directories_beside(const Directory& parent, const std::string& base);

}  // namespace reprieve::core
