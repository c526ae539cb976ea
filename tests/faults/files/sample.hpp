// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A small checkpoint with a variable of every kind, which knows what its values should be.

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "faults/files/forked_reader.hpp"
#include "reprieve/checkpoint.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::test {

/// The state of a program with one rank.
class SampleState {
 public:
  SampleState();
  SampleState(const SampleState&) = delete;
  SampleState& operator=(const SampleState&) = delete;

  void set();    ///< the values that are saved
  void spoil();  ///< other values
  [[nodiscard]] bool is_as_saved() const;
  [[nodiscard]] const Checkpoint& checkpoint() const { return checkpoint_; }

 private:
  Checkpoint checkpoint_;
  double scalar_ = 0;
  std::string text_;
  std::vector<std::int32_t> list_;
  std::array<double, 24> grid_{};  ///< 4 x 6, held in two boxes
  std::vector<float> own_;
  bool flag_ = false;
};

/// Writes the sample state to @p file. Needs MPI with one rank.
void save_sample(const std::filesystem::path& file);

storage::Bytes content_of(const std::filesystem::path& file);
void put_content(const std::filesystem::path& file, const storage::Bytes& content);

/// Restores the file and compares; what the error says must hold @p place.
class SampleReader {
 public:
  /// To be made in the child that uses it.
  SampleReader();
  ~SampleReader();

  /// @param place  what the message of an error must contain
  Fate restore(const std::filesystem::path& file, const std::string& place);

 private:
  struct Parts;
  Parts* parts_;
};

}  // namespace reprieve::test
