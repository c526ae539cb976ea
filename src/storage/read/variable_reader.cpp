#include "storage/read/variable_reader.hpp"

#include "reprieve/error.hpp"
#include "storage/format/seal.hpp"

namespace reprieve::storage {

VariableReader::VariableReader(const std::filesystem::path& file)
    : file_(PosixFile::open_to_read(file)), index_(read_index(file_)) {}

void VariableReader::read(const std::string& variable, std::uint64_t first, std::span<std::byte> elements) const {
  const StoredVariable* stored = index_.find(variable);
  if (stored == nullptr) {
    throw UsageError(file_.path().string() + " has no variable " + variable);
  }
  const std::uint64_t count = volume(stored->shape);
  if (first > count || elements.size() > (count - first) * stored->type.size_bytes) {
    throw UsageError("the elements asked for are not all in " + variable);
  }
  file_.read_all(elements, stored->file_offset + first * stored->type.size_bytes);
}

}  // namespace reprieve::storage
