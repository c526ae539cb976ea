// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/writers.hpp"

#include <algorithm>

#include "cluster/communicator.hpp"
#include "reprieve/error.hpp"
#include "storage/write/data_stream.hpp"

namespace reprieve::storage {

std::uint64_t WritePlan::own_bytes() const {
  std::uint64_t bytes = 0;
  for (const WriteItem& item : items) {
    bytes += item.bytes();
  }
  return bytes;
}

std::uint64_t WritePlan::end_in_file() const {
  std::uint64_t end = 0;
  for (const Variable& variable : variables) {
    end = std::max(end, variable.file_offset + variable.bytes);
  }
  return end;
}

std::unique_ptr<Writer> make_direct_or_two_phase_writer(cluster::Communicator& comm, const WritePlan& plan,
                                                        const std::string& what) {
  return exchange_is_worth_it(plan, comm.size()) ? make_two_phase_writer(comm, what) : make_direct_writer();
}

const WriterRow& row_of(WriterKind kind) {
  const auto* const found =
      std::find_if(kWriterRows.begin(), kWriterRows.end(), [kind](const WriterRow& row) { return row.kind == kind; });
  if (found == kWriterRows.end()) {
    throw Error(ErrorCode::internal, "there is no writer " + std::to_string(static_cast<int>(kind)));
  }
  return *found;
}

namespace {

class DirectWriter final : public Writer {
 public:
  WrittenPart write(const WritePlan& plan) override {
    WrittenPart part;
    if (plan.items.empty()) {
      return part;
    }
    check_file_size_limit(plan.file, plan.end_in_file());  // this rank may have another one than rank 0
    part.file.emplace(PosixFile::open_to_write(plan.file));
    DataStream stream(*part.file, plan.io, plan.own_bytes(), plan.least_direct_bytes());
    part.checksums = write_items(stream, plan.items, plan.ranges.get());
    stream.finish();
    return part;
  }
};

}  // namespace

std::unique_ptr<Writer> make_direct_writer() { return std::make_unique<DirectWriter>(); }

}  // namespace reprieve::storage
