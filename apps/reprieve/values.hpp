// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The values of one variable of a checkpoint, or a slice of them: what `show` prints and `export` writes. How two
/// checkpoints differ: arrays, and the states of a drill.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprieve/element_type.hpp"
#include "reprieve/record.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/format/file_index.hpp"
#include "supervisor/drill.hpp"
#include "text.hpp"

namespace reprieve::tool {

/// What is taken of one dimension.
struct Slice {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  std::uint64_t step = 1;
  bool is_index = false;  ///< one index: the dimension is gone, as in Python

  friend bool operator==(const Slice&, const Slice&) = default;
};

/// Slices as Python has them: "0:10, 5", "-3:", "::2"; dimensions that are not named are whole. Pure.
/// @throws UsageError
std::vector<Slice> parse_slices(std::string_view text, const Extents& shape);

/// Which values are meant.
struct ValueOptions {
  std::filesystem::path file;
  std::string selector;       ///< "name" or "name[slices]"
  std::optional<int> rank{};  ///< of a per-rank variable; nothing: 0
};

/// Reads them, with checksums, piece by piece.
class Selection {
 public:
  /// @throws UsageError, CorruptError, StorageError, MismatchError
  explicit Selection(const ValueOptions& options);

  [[nodiscard]] const storage::StoredVariable& variable() const noexcept { return *variable_; }
  [[nodiscard]] const Extents& whole_shape() const noexcept { return whole_; }
  [[nodiscard]] Extents shape() const;  ///< of what is selected
  [[nodiscard]] std::uint64_t elements() const { return storage::volume(counts_); }
  [[nodiscard]] std::uint64_t row_length() const { return counts_.empty() ? 1 : counts_.back(); }
  [[nodiscard]] std::optional<int> rank() const noexcept { return rank_; }
  /// Where one of the selected elements lies in the variable; @p position among them in C order.
  [[nodiscard]] Extents index_of(std::uint64_t position) const;

  /// Calls @p take for the first @p most of the selected elements, in C order. @param take  (position, bytes)
  template <class Take>
  void for_each_piece(std::uint64_t most, Take&& take) const {
    std::vector<std::byte> piece;
    for (std::uint64_t first = 0; first < most; first += piece.size() / variable_->type.size_bytes) {
      piece.resize(std::min(piece_elements(), most - first) * variable_->type.size_bytes);
      read(first, piece);
      take(first, std::span<const std::byte>(piece));
    }
    storage::check_not_retired(file_, commit_record_);
  }

 private:
  void choose_rank(std::optional<int> rank);
  [[nodiscard]] std::uint64_t piece_elements() const;
  void read(std::uint64_t first, std::span<std::byte> elements) const;
  void read_box(const storage::Box& box, std::span<std::byte> elements) const;

  storage::PosixFile file_;
  storage::Bytes commit_record_;
  storage::FileIndex index_;
  const storage::StoredVariable* variable_ = nullptr;
  std::optional<int> rank_;
  Extents whole_;                 ///< the shape of the variable, or of the value of that rank
  storage::Bytes value_of_rank_;  ///< of a per-rank variable
  std::vector<Slice> slices_;
  Extents counts_;  ///< of the slices
};

/// One element as JSON: a number, a string, an object with its members. Bytes without a meaning are hexadecimal.
Json value_json(ElementType type, const Members& members, std::span<const std::byte> element);
/// The same for people, and for CSV.
std::string value_text(ElementType type, const Members& members, std::span<const std::byte> element);

/// `reprieve show FILE VAR`. @param limit  of the values; 0: all
void show_values(const ValueOptions& options, std::uint64_t limit, bool json);

// How two arrays of the same type and shape differ.

/// What was found, over all pieces that were compared.
struct ArrayComparison {
  std::uint64_t different = 0;               ///< elements that are not the same
  std::optional<std::uint64_t> first_index;  ///< of the first of them, counted in C order
  /// Greatest |a - b| and |a - b| / max(|a|, |b|) among the different numbers; nothing for types that are not numbers.
  std::optional<long double> max_absolute;
  std::optional<long double> max_relative;
  long double largest = 0;  ///< magnitude of the different numbers, if their difference is finite
  /// Differences that are no finite number, since one side is infinite or not a number. The greatest leave them out.
  std::uint64_t not_finite = 0;
};

/// Compares two pieces and adds to @p comparison. Two elements are the same if no bit differs: a NaN equals itself, and
/// -0.0 is not 0.0.
/// @param first_index  index of the pieces' first element in the whole
void compare_piece(ArrayComparison& comparison, ElementType type, std::uint64_t first_index,
                   std::span<const std::byte> a, std::span<const std::byte> b);

/// One element as people read it, with all its digits; empty for types that are no numbers.
std::string element_text(ElementType type, std::span<const std::byte> element);

/// Verifies both files, and compares all variables but those to @p ignore.
supervisor::StateComparison compare_states(const std::filesystem::path& a, const std::filesystem::path& b,
                                           const std::vector<std::string>& ignore);

}  // namespace reprieve::tool
