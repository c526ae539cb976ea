// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read/inspect_file.hpp"

#include "reprieve/error.hpp"
#include "storage/read/block_reader.hpp"

namespace reprieve::storage {

namespace {

/// A thread is not worth it for less.
constexpr std::uint64_t kLeastReadAhead = std::uint64_t{8} << 20U;

/// Corruption of everything outside of the variables' data.
void check_structure(const PosixFile& file, const CommitRecord& commit_record, const FileIndex& index,
                     std::vector<Corruption>& corruption) {
  if (structure_digest(file, index, commit_record.checksums.region) != commit_record.structure_digest) {
    corruption.push_back({"", "outside of the variables' data", "HDF5's structures are corrupt (checksum differs)"});
  }
}

using Progress = std::function<void(std::uint64_t, std::uint64_t)>;

void check_variables(const PosixFile& file, const FileIndex& index, const Progress& progress,
                     std::vector<Corruption>& corruption) {
  BlockReader reader(file, index, true);
  if (index.file_size >= kLeastReadAhead) {
    reader.expect_all();
  }
  std::uint64_t done = 0;
  const std::uint64_t all = index.state_bytes();
  const auto tell = [&](std::uint64_t bytes) {
    done += bytes;
    if (progress) {
      progress(done, all);
    }
  };
  const auto check = [&](const BlockReader::StoredBlock& stored, std::size_t /*row*/) {
    if (!reader.block_is_right(stored)) {
      const std::string region = BlockReader::region_of(stored.variable, stored.row, stored.block);
      corruption.push_back({stored.variable.name, region, "checksum differs"});
    }
    tell(bytes_of(stored.block, stored.variable.type.size_bytes));
    return true;
  };
  for_each_block(reader, index, {}, check, tell);
}

}  // namespace

FileMetadata read_metadata(const core::FileAddress& file) {
  const PosixFile opened = PosixFile::open_to_read(file);
  return parse_metadata(read_manifest_bytes(opened, read_commit_record(opened)), file.string());
}

std::vector<VariableInfo> list_variables(const std::filesystem::path& file) {
  return list_variables(read_index(PosixFile::open_to_read(file)));
}

std::vector<VariableInfo> list_variables(const FileIndex& index) {
  std::vector<VariableInfo> list;
  for (const StoredVariable& variable : index.variables) {
    VariableInfo& info = list.emplace_back();
    info.facts() = variable.facts();
    info.bytes = variable.bytes();
    info.chunk = variable.chunk;
    for (std::size_t b = 0; variable.compressed && b < variable.box_count; ++b) {
      const BoxRow row = index.row(variable, b);
      const std::uint64_t blocks = FileIndex::block_count(variable, row);
      for (const std::uint64_t size : index.compressed_sizes.span().subspan(row.first_checksum, blocks)) {
        info.compressed_by += size > 0 ? volume(variable.chunk) * variable.type.size_bytes - size : 0;
      }
    }
    if (variable.distribution == state::Distribution::per_rank) {
      for (std::size_t rank = 0; rank < variable.box_count; ++rank) {
        info.rank_shapes.push_back(to_extents(index.row(variable, rank).extent));
      }
    }
  }
  return list;
}

std::vector<Corruption> verify_file(const std::filesystem::path& file, const Progress& progress) {
  const PosixFile opened = PosixFile::open_to_read(file);
  const Bytes commit_record_at_begin = commit_record_bytes(opened);
  std::vector<Corruption> corruption;
  try {
    const CommitRecord commit_record = read_commit_record(opened);
    const FileIndex index = parse_index(read_index_bytes(opened, commit_record), file.string());
    check_boxes_apart(index, file.string());
    check_structure(opened, commit_record, index, corruption);
    check_variables(opened, index, progress, corruption);
  } catch (const CorruptError& error) {
    corruption.push_back({"", "the file as a whole", error.what()});
  } catch (const MismatchError& error) {
    corruption.push_back({"", "the file as a whole", error.what()});
  }
  if (!corruption.empty()) {
    check_not_retired(opened, commit_record_at_begin);
  }
  return corruption;
}

std::vector<std::byte> read_variable(const std::filesystem::path& file, const std::string& name) {
  const PosixFile opened = PosixFile::open_to_read(file);
  const FileIndex index = read_index(opened);
  const StoredVariable* variable = index.find(name);
  if (variable == nullptr) {
    throw UsageError(file.string() + " has no variable '" + name + "'");
  }
  std::vector<std::byte> content(static_cast<std::size_t>(variable->bytes()));
  BlockReader reader(opened, index, true);
  reader.fill(*variable,
              {content.data(), whole(variable->shape), dense_strides(variable->shape, variable->type.size_bytes)});
  return content;
}

VariableReader::VariableReader(const std::filesystem::path& file)
    : file_(PosixFile::open_to_read(file)),
      commit_record_(commit_record_bytes(file_)),
      index_(read_index(file_)),
      compressed_(std::make_unique<BlockReader>(file_, index_, false)) {}
VariableReader::~VariableReader() = default;

const StoredVariable& VariableReader::find(const std::string& variable) const {
  const StoredVariable* stored = index_.find(variable);
  if (stored == nullptr) {
    throw UsageError(file_.path().string() + " has no variable " + variable);
  }
  return *stored;
}

void VariableReader::read(const std::string& variable, std::uint64_t first, std::span<std::byte> elements) const {
  const StoredVariable& stored = find(variable);
  const std::size_t element_size = stored.type.size_bytes;
  const std::uint64_t count = volume(stored.shape);
  if (first > count || elements.size() > (count - first) * element_size) {
    throw UsageError("the elements asked for are not all in " + variable);
  }
  for (const Box& box : boxes_of_range(stored.shape, first, elements.size() / element_size)) {
    const std::size_t bytes = bytes_of(box, element_size);
    read(variable, box, elements.first(bytes));
    elements = elements.subspan(bytes);
  }
}

void VariableReader::read(const std::string& variable, const Box& box, std::span<std::byte> elements) const {
  const StoredVariable& stored = find(variable);
  if (intersection(box, whole(stored.shape)) != box) {
    throw UsageError("the elements asked for are not all in " + variable);
  }
  const std::size_t element_size = stored.type.size_bytes;
  const Strides strides = dense_strides(box.extent, element_size);
  if (stored.compressed) {
    compressed_->fill(stored, {elements.data(), box, strides});
    return;
  }
  Bytes buffer;
  for (const ChunkPart& part : chunk_parts(stored.dataset(), box)) {
    if (part.box == box) {
      read_block(file_, part.dataset, part.within, elements);
      continue;
    }
    buffer.resize(bytes_of(part.within, element_size));
    read_block(file_, part.dataset, part.within, buffer);
    copy_box(elements.data() + displacement(box, strides, part.box.offset), strides, buffer.data(),
             dense_strides(part.within.extent, element_size), part.within.extent, element_size);
  }
}

}  // namespace reprieve::storage
