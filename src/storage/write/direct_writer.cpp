// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/data_stream.hpp"
#include "storage/write/writers.hpp"

namespace reprieve::storage {

namespace {

class DirectWriter final : public Writer {
 public:
  WrittenPart write(const WritePlan& plan) override {
    WrittenPart part;
    if (plan.items.empty()) {
      return part;
    }
    check_file_size_limit(plan.file, plan.end_in_file());  // this rank may have another one than the chief
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
