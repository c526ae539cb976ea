// SPDX-License-Identifier: BSD-3-Clause
#include "storage/local/part_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/failpoint.hpp"
#include "core/threads.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/format/manifest.hpp"

namespace reprieve::storage {

namespace {

/// Calls @p visit(key, field) for each field that every head has.
template <class Part, class Visit>
void for_each_field(Part& part, Visit&& visit) {
  auto& copy = part.copy;
  visit("directory", copy.save.directory_id);
  visit("run", copy.save.run);
  visit("save", copy.save.save);
  visit("launch", copy.launch);
  visit("key", copy.directory_key);
  visit("prefix", copy.prefix);
  visit("number", copy.number);
  visit("time_us", copy.time_us);
  visit("ranks", copy.ranks);
  visit("layout", copy.layout_digest);
  visit("known_run", copy.known_run);
  visit("known_save", copy.known_save);
  visit("rank", part.rank);
}

PartName part_from_json(const nlohmann::json& from) {
  PartName part;
  for_each_field(part, [&]<class T>(const char* key, T& field) {
    if constexpr (std::is_integral_v<T>) {
      field = integer<T>(from.at(key));
    } else {
      field = from.at(key).get_ref<const T&>();
    }
  });
  if (from.contains("run_calls")) {
    part.copy.run_calls = integer<std::uint64_t>(from.at("run_calls"));
  }
  require(part.copy.ranks > 0 && part.rank >= 0 && part.rank < part.copy.ranks, "a part of an impossible rank");
  return part;
}

constexpr std::uint64_t kPartMagic = 0x5452415056525052;  // the bytes "RPRVPART"
constexpr std::uint64_t kPartVersion = 2;
/// A head is some hundred bytes and the prefix; a forged one may claim anything.
constexpr std::uint64_t kMostHeadBytes = 64U << 10U;
constexpr std::uint64_t kMostTableBytes = std::uint64_t{2} << 30U;

struct PartCommitRecord {
  std::uint64_t data_bytes = 0;
  GuardedRegion head;
  GuardedRegion tables;
};

void write_part_commit_record(const PosixFile& file, const PartCommitRecord& commit_record) {
  CommitWords words = {};
  words[0] = kPartMagic;
  words[1] = kPartVersion;
  words[2] = commit_record.data_bytes;
  words.put(3, commit_record.head);
  words.put(6, commit_record.tables);
  words.write_to(file);
}

[[noreturn]] void reject(const PosixFile& file, const char* why) {
  throw CorruptError(file.path().string() + ": " + why);
}

PartCommitRecord read_part_commit_record(const PosixFile& file) {
  CommitWords words = {};
  const std::uint64_t size = file.size();
  if (size < kCommitRecordBytes) {
    reject(file, "not a complete part of a node-local copy");
  }
  file.read_all(std::as_writable_bytes(std::span(words)), 0);
  if (words[0] != kPartMagic || !words.is_intact()) {
    reject(file, "not a complete part of a node-local copy");
  }
  if (words[1] != kPartVersion) {
    reject(file, "a part of a node-local copy that another version of this library made");
  }
  PartCommitRecord commit_record{words[2], words.get(3), words.get(6)};
  const Region& head = commit_record.head.region;
  const Region& tables = commit_record.tables.region;
  if (!Region{kPartDataOffset, commit_record.data_bytes}.lies_before(size) || !head.lies_before(size) ||
      !tables.lies_before(size) || head.size > kMostHeadBytes || tables.size > kMostTableBytes) {
    reject(file, "its tables would lie outside of the file");
  }
  return commit_record;
}

Bytes read_guarded_part(const PosixFile& file, const GuardedRegion& guarded) {
  Bytes bytes(static_cast<std::size_t>(guarded.region.size));
  file.read_all(bytes, guarded.region.offset);
  if (xxh3(bytes) != guarded.digest) {
    reject(file, "its tables are corrupt (checksum differs)");
  }
  return bytes;
}

PartName read_head(const PosixFile& file, const PartCommitRecord& commit_record) {
  const Bytes head = read_guarded_part(file, commit_record.head);
  try {
    const auto* first = reinterpret_cast<const char*>(head.data());
    return part_from_json(nlohmann::json::parse(first, first + head.size()));
  } catch (const nlohmann::json::exception&) {
    reject(file, "its head is not understood");
  }
}

Bytes encode_tables(const PartTables& tables) {
  Encoder message;
  message.words(tables.rows);
  message.words(tables.checksums);
  message.bytes(tables.image ? encode(*tables.image) : Bytes());
  return message.take();
}

PartTables read_part_tables(const PosixFile& file, const PartCommitRecord& commit_record) {
  const Bytes bytes = read_guarded_part(file, commit_record.tables);
  try {
    Decoder message(bytes);
    PartTables tables{message.words(), message.words(), std::nullopt};
    if (const Bytes image = message.bytes(); !image.empty()) {
      tables.image = decode_structure_image(image);
    }
    return tables;
  } catch (const CorruptError&) {
    throw;
  } catch (const Error&) {
    reject(file, "its tables are cut off");
  }
}

/// A run has the number of a dead one if the checkpoint directory was put back to what it was before that.
void remove_if_left(const core::Directory& directory, const std::string& name) {
  if (!directory.contains(name)) {
    return;
  }
  const core::Descriptor left = directory.open_file(name, O_RDWR);
  if (::flock(left.get(), LOCK_EX | LOCK_NB) == 0) {
    directory.remove_file(name);
  }
}

/// One who asks whether a part is in use (`reprieve ls --local`, another run that cleans up) has its lock for a moment.
bool lock_soon(const core::Descriptor& file) {
  constexpr int kMostTries = 1000;
  for (int tries = 1; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK || tries == kMostTries) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// What the file holds there, to be read.
core::Mapping read_range(const PosixFile& file, std::uint64_t offset, std::size_t size) {
  if (!Region{offset, size}.lies_before(file.size())) {
    reject(file, "its data end too early");
  }
  if (file.is_in_memory()) {
    return core::Mapping::get(size, PROT_READ, MAP_SHARED, file.descriptor(), offset);
  }
  core::Mapping made = core::Mapping::of_process(size);
  file.read_all(made.bytes(), offset);
  return made;
}

void sync_unless_in_memory(const PosixFile& file) {
  if (!file.is_in_memory()) {
    file.sync();
  }
}

/// Memory that the job's control group cannot give ends the process.
void check_there_is_room(std::uint64_t bytes) {
  constexpr std::uint64_t kStaysFree = 16;  // one part in so many
  const core::AvailableMemory memory = core::available_memory();
  const std::uint64_t available = std::min(memory.of_node, memory.of_group);
  if (bytes > available - available / kStaysFree) {
    throw std::bad_alloc();
  }
}

[[noreturn]] void reject(const Part& part, const char* why) {
  throw CorruptError("the part of rank " + std::to_string(part.name().rank) + " of a node-local copy " + why);
}

/// Calls @p visit(variable, row, offset) for each row of the part that is not empty.
template <class Visit>
void for_each_row(const Part& part, const FileIndex& index, Visit&& visit) {
  const auto rank = static_cast<std::uint64_t>(part.name().rank);
  const std::vector<std::uint64_t>& offsets = part.tables().rows;
  std::size_t next = 0;
  for (const StoredVariable& variable : index.variables) {
    const RowRange rows = index.rows_of(variable, rank, rank + 1);
    for (std::size_t b = rows.begin; b < rows.end; ++b) {
      const BoxRow row = index.row(variable, b);
      const std::uint64_t bytes = volume(row.extent) * variable.type.size_bytes;
      if (bytes == 0) {
        continue;
      }
      if (next == offsets.size() || !Region{offsets[next], bytes}.lies_before(part.data_bytes())) {
        reject(part, "does not hold what the table of boxes says");
      }
      visit(variable, row, offsets[next++]);
    }
  }
  if (next != offsets.size()) {
    reject(part, "holds more than the table of boxes says");
  }
}

void add_item(std::vector<WriteItem>& items, Dataset dataset, Box box, const std::byte* data, bool is_all) {
  Strides dense = dense_strides(box.extent, dataset.element_size);
  items.push_back({std::move(dataset), {data, std::move(box), std::move(dense)}, is_all});
}

/// The rows of a part, ascending. @throws CorruptError if it is not of that file
std::vector<PartRow> rows_of(const Part& part, const FileIndex& index) {
  std::vector<PartRow> rows;
  rows.reserve(part.tables().rows.size());
  std::uint64_t blocks = 0;
  for_each_row(part, index, [&](const StoredVariable& variable, const BoxRow& row, std::uint64_t offset) {
    rows.push_back({row.first_checksum, offset});
    blocks += FileIndex::blocks_of(variable, row).count();
  });
  if (blocks != part.tables().checksums.size()) {
    reject(part, "holds another number of checksums than the table of boxes says");
  }
  return rows;
}

/// The same as items that can be written into the file. @param data  of the part, to which the items refer
std::vector<WriteItem> items_of(const Part& part, std::span<const std::byte> data, const FileIndex& index) {
  std::vector<WriteItem> items;
  for_each_row(part, index, [&](const StoredVariable& variable, const BoxRow& row, std::uint64_t offset) {
    const Box box = FileIndex::dataset_box(variable, row);
    if (variable.chunk.empty()) {
      add_item(items, variable.dataset(), box, data.data() + offset, false);
      return;
    }
    for (ChunkPart& chunk : chunk_parts(variable.dataset(), box)) {
      const std::size_t bytes = bytes_of(chunk.within, variable.type.size_bytes);
      add_item(items, std::move(chunk.dataset), std::move(chunk.within), data.data() + offset, chunk.is_all);
      offset += bytes;
    }
  });
  return items;
}

}  // namespace

nlohmann::json to_json(const PartName& part) {
  nlohmann::json json;
  for_each_field(part, [&](const char* key, const auto& field) { json[key] = field; });
  if (part.copy.run_calls) {
    json["run_calls"] = *part.copy.run_calls;
  }
  return json;
}

PosixFile make_part_file(const core::Directory& directory, const std::string& name) {
  remove_if_left(directory, name);
  core::Descriptor made = directory.open_file(name, O_RDWR | O_CREAT | O_EXCL, core::kOwnFile);
  if (!lock_soon(made)) {
    const int error = errno;
    directory.remove_file(name);
    throw core::storage_error("lock", directory.path() / name, error);
  }
  return {core::FileAddress(directory.path() / name), std::move(made)};
}

void complete_part(const PosixFile& file, std::uint64_t data_bytes, const PartName& name, const PartTables& tables) {
  const std::string head = to_json(name).dump();
  const auto head_bytes = std::as_bytes(std::span(head));
  const Bytes table_bytes = encode_tables(tables);
  PartCommitRecord commit_record{data_bytes, {{kPartDataOffset + data_bytes, head.size()}, xxh3(head_bytes)}, {}};
  commit_record.tables = {{commit_record.head.region.offset + head.size(), table_bytes.size()}, xxh3(table_bytes)};
  file.write_all(head_bytes, commit_record.head.region.offset);
  file.write_all(table_bytes, commit_record.tables.region.offset);
  sync_unless_in_memory(file);
  write_part_commit_record(file, commit_record);
  sync_unless_in_memory(file);
}

PartName read_part_name(const PosixFile& file) { return read_head(file, read_part_commit_record(file)); }

Part::Part(PosixFile file) : file_(std::move(file)) {
  const PartCommitRecord commit_record = read_part_commit_record(file_);
  name_ = read_head(file_, commit_record);
  tables_ = read_part_tables(file_, commit_record);
  data_bytes_ = commit_record.data_bytes;
}

/// Not by a mapping: small pages of memory cost more to map than to copy into the processor's cache.
void Part::for_each_piece(std::uint64_t offset, std::uint64_t size, const UseBytes& use) const {
  read_in_pieces(file_, kPartDataOffset + offset, size, use);
}

core::Mapping Part::data() const { return read_range(file_, kPartDataOffset, static_cast<std::size_t>(data_bytes_)); }

PartSlot::PartSlot(const core::Directory& directory, const std::string& name)
    : file_(make_part_file(directory, name)), in_memory_(file_.is_in_memory()) {}

/// Of a file in memory the space is taken before it is mapped: a write to a page that the system cannot give would end
/// the process.
void PartSlot::make_room(std::size_t size) {
  if (size <= capacity() && !is_cut()) {
    return;
  }
  memory_ = {};
  whole_ = {};
  if (in_memory_) {
    {
      const core::SignalsBlocked blocked;  // a signal would undo it, and a timer's never let it end
      file_.allocate(kPartDataOffset + size);
    }
    memory_ = core::Mapping::get(size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_.descriptor(),
                                 kPartDataOffset);
  } else {
    memory_ = core::Mapping::of_process(size);
  }
}

/// Somebody else has shortened the file. To touch memory behind its end would end the process by a signal.
bool PartSlot::is_cut() const {
  const std::uint64_t data_end = capacity() > 0 ? kPartDataOffset + capacity() : 0;
  return in_memory_ && file_.size() < std::max<std::uint64_t>(data_end, whole_.bytes().size());
}

void PartSlot::check_not_cut() const {
  if (is_cut()) {
    throw StorageError(ErrorCode::io, file_.path().string() + ": somebody has cut the file while it was in use");
  }
}

void PartSlot::copy(std::span<WriteItem> items) {
  make_void();
  const std::size_t size = bytes_of_copy(items);
  make_room(size);
  rows_ = copy_items(items, memory_.bytes());
  used_ = size;
  core::failpoint("local.copied");
}

std::span<std::byte> PartSlot::whole() {
  check_not_cut();
  const auto size = static_cast<std::size_t>(file_.size());
  if (whole_.bytes().size() < size) {
    whole_ = read_range(file_, 0, size);
  }
  return whole_.bytes();
}

void PartSlot::complete(std::span<const WriteItem> items, const PartName& name, std::optional<StructureImage> image) {
  check_not_cut();
  const PartTables tables{rows_, checksums_of(items), std::move(image)};
  core::failpoint("local.checksums_known");
  if (!in_memory_) {
    file_.write_all(memory_.bytes().first(used_), kPartDataOffset);
  }
  complete_part(file_, used_, name, tables);
  core::failpoint("local.record_written");
}

void PartSlot::begin_receiving(std::size_t size) {
  make_void();
  used_ = size - kPartDataOffset;
  if (used_ > capacity() || is_cut()) {
    check_there_is_room(size - std::min<std::uint64_t>(size, file_.size()));
    make_room(used_);
  }
}

void PartSlot::commit_received(std::span<const std::byte> commit_record) {
  core::failpoint("local.received");
  file_.write_all(commit_record, 0);
  core::failpoint("local.partner_record_written");
}

void PartsSource::add(std::shared_ptr<const Part> part, const FileIndex& index) {
  const std::vector<PartRow> rows = rows_of(*part, index);
  add(rows, Data{std::move(part), {}, nullptr});
}

void PartsSource::add(const std::vector<PartRow>& rows, std::span<const std::byte> data,
                      std::shared_ptr<const void> owner) {
  add(rows, Data{nullptr, data, std::move(owner)});
}

void PartsSource::add(const std::vector<PartRow>& rows, Data data) {
  const auto shared = std::make_shared<const Data>(std::move(data));
  for (const PartRow& row : rows) {
    rows_.insert_or_assign(row.first_checksum, Row{shared, row.offset});
  }
}

bool PartsSource::has(const StoredVariable& variable, const BoxRow& row) const {
  return volume(row.extent) * variable.type.size_bytes == 0 || rows_.contains(row.first_checksum);
}

/// Blocks lie one after the other.
std::uint64_t PartsSource::offset_in_row(const StoredVariable& variable, const BoxRow& row,
                                         std::uint64_t number) const {
  if (number == 0) {
    return 0;
  }
  if (row_of_offsets_ != row.first_checksum) {
    const ChunkedSplit split = FileIndex::blocks_of(variable, row);
    places_.clear();
    std::uint64_t next = 0;
    for (std::uint64_t i = 0; i < split.count(); ++i) {
      places_.push_back(next);
      next += bytes_of(split.block(i), variable.type.size_bytes);
    }
    row_of_offsets_ = row.first_checksum;
  }
  return places_.at(static_cast<std::size_t>(number));
}

void PartsSource::for_each_piece(const StoredVariable& variable, const BoxRow& row, std::uint64_t number,
                                 std::size_t size, const UseBytes& use) const {
  const auto found = rows_.find(row.first_checksum);
  if (found == rows_.end()) {
    throw CorruptError("the part of rank " + std::to_string(row.rank) + " of a node-local copy is not on this host");
  }
  const Data& data = *found->second.data;
  const std::uint64_t offset = found->second.offset + offset_in_row(variable, row, number);
  if (data.part) {
    data.part->for_each_piece(offset, size, use);
  } else {
    use(data.bytes.subspan(static_cast<std::size_t>(offset), size));
  }
}

void begin_assembly(const core::FileAddress& file, const StructureImage& image) {
  check_file_size_limit(file, image.commit_record.file_size);
  PosixFile made = PosixFile::create(file);
  image.put_into(made);
  made.close();
  core::failpoint("drain.begun");
}

void add_part(const core::FileAddress& file, const Part& part, std::span<const std::byte> data, const FileIndex& index,
              bool durable) {
  const std::vector<WriteItem> items = items_of(part, data, index);
  PosixFile target = PosixFile::open_to_write(file);
  DataStream stream(target, durable ? FileIo::automatic : FileIo::page_cache, data.size());
  const std::vector<std::uint64_t> checksums = write_items(stream, items).checksums;
  stream.finish();
  if (checksums != part.tables().checksums) {
    reject(part, "is corrupt (checksum differs)");
  }
  if (durable) {
    target.sync();
  }
  target.close();
  core::failpoint("drain.part_written");
}

void end_assembly(const core::FileAddress& file, const StructureImage& image, const FileIndex& index, bool durable) {
  PosixFile target = PosixFile::open_to_write(file);
  CommitRecord commit_record = image.commit_record;
  write_checksums(target, commit_record, index);
  write_commit_record(target, commit_record);
  if (durable) {
    target.sync();
  }
  target.close();
  core::failpoint("drain.completed");
}

}  // namespace reprieve::storage
