// SPDX-License-Identifier: BSD-3-Clause
#include "faults/files/sample.hpp"

#include <mpi.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <span>
#include <stdexcept>

#include "cluster/communicator.hpp"
#include "reprieve/error.hpp"
#include "support/whole_file.hpp"

namespace reprieve::test {

SampleState::SampleState() {
  checkpoint_.add_replicated("scalar", scalar_);
  checkpoint_.add_replicated("text", text_);
  checkpoint_.add_replicated("group/list", list_);
  checkpoint_.add_replicated("flag", flag_);
  checkpoint_.add_per_rank("own", own_);
  checkpoint_.add_distributed("grid", [this]() -> DistributedArray {
    const auto box = [this](std::uint64_t row, std::uint64_t rows) {
      return MemoryBox{
          std::as_writable_bytes(std::span(grid_)).data() + row * 6 * sizeof(double), {row, 0}, {rows, 6}, {}};
    };
    return {element_type_of<double>(), {4, 6}, {box(0, 3), box(3, 1)}};
  });
}

void SampleState::set() {
  scalar_ = 3.25;
  text_ = "a text of some length";
  list_ = {1, -2, 3, -4, 5};
  flag_ = true;
  own_ = {0.5F, 1.5F, 2.5F};
  std::iota(grid_.begin(), grid_.end(), 100.5);
}

void SampleState::spoil() {
  scalar_ = -1;
  text_ = "spoilt";
  list_ = {9};
  flag_ = false;
  own_ = {};
  grid_.fill(-1);
}

bool SampleState::is_as_saved() const {
  SampleState other;
  other.set();
  return scalar_ == other.scalar_ && text_ == other.text_ && list_ == other.list_ && flag_ == other.flag_ &&
         own_ == other.own_ && grid_ == other.grid_;
}

void save_sample(const std::filesystem::path& file) {
  SampleState state;
  state.set();
  cluster::Communicator comm(MPI_COMM_SELF, std::chrono::seconds(60));
  storage::FileMetadata metadata;
  metadata.number = 7;
  metadata.run_calls = 70;
  metadata.time_us = 1'700'000'000'000'000;
  metadata.reason = {SaveReason::Kind::preemption, 0, "node7", "signal SIGTERM", "the end is near"};
  storage::LayoutCache cache;
  storage::write_checkpoint(comm, state.checkpoint().registry(), file, metadata, {WriterKind::direct, false}, cache);
}

storage::Bytes content_of(const std::filesystem::path& file) {
  storage::Bytes content(std::filesystem::file_size(file));
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size()))) {
    throw std::runtime_error("cannot read " + file.string());
  }
  return content;
}

void put_content(const std::filesystem::path& file, const storage::Bytes& content) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  if (!stream.flush()) {
    throw std::runtime_error("cannot write " + file.string());
  }
}

struct SampleReader::Parts {
  SampleState state;
  cluster::Communicator comm{MPI_COMM_SELF, std::chrono::seconds(60)};
};

SampleReader::SampleReader() : parts_(new Parts) {}
SampleReader::~SampleReader() { delete parts_; }

Fate SampleReader::restore(const std::filesystem::path& file, const std::string& place) {
  parts_->state.spoil();
  try {
    storage::restore_checkpoint(parts_->comm, parts_->state.checkpoint().registry(), file, true);
  } catch (const Error& error) {
    const bool is_of_the_file = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::mismatch;
    return is_of_the_file && std::strstr(error.what(), place.c_str()) != nullptr ? Fate::refused : Fate::odd;
  } catch (...) {
    return Fate::odd;
  }
  return parts_->state.is_as_saved() ? Fate::unchanged : Fate::wrong;
}

}  // namespace reprieve::test
