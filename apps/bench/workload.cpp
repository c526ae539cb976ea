// SPDX-License-Identifier: BSD-3-Clause
#include "workload.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

#include "measure.hpp"

namespace reprieve::bench {

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2 << 20;
constexpr double kMib = 1 << 20;

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// Bits without pattern, which no device can compress: splitmix64 of the element's index, as a number from 1 to 2.
double element_at(std::uint64_t place) {
  std::uint64_t bits = (place + 1) * 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebULL;
  return 1.0 + static_cast<double>((bits ^ (bits >> 31U)) >> 11U) * 0x1.0p-53;
}

/// The greatest divisor that is not above the root.
std::uint64_t divisor_near_root(std::uint64_t number, double degree) {
  auto divisor = static_cast<std::uint64_t>(std::pow(static_cast<double>(number), 1 / degree) + 1e-6);
  while (number % std::max<std::uint64_t>(divisor, 1) != 0) {
    --divisor;
  }
  return std::max<std::uint64_t>(divisor, 1);
}

}  // namespace

ArrayPart grid_part(std::uint64_t count, std::uint64_t rank, std::uint64_t ranks) {
  const std::uint64_t x = divisor_near_root(count, 3);
  const std::uint64_t y = divisor_near_root(count / x, 2);
  const std::vector<std::uint64_t> extent{x, y, count / x / y};
  const std::uint64_t across = divisor_near_root(ranks, 3);
  const std::uint64_t along = divisor_near_root(ranks / across, 2);
  const std::vector<std::uint64_t> grid{across, along, ranks / across / along};
  ArrayPart part{{}, {}, extent};
  std::vector<std::uint64_t> at{rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
  for (std::size_t d = 0; d < grid.size(); ++d) {
    part.shape.push_back(grid[d] * extent[d]);
    part.offset.push_back(at[d] * extent[d]);
  }
  return part;
}

void add_options(CLI::App& command, StateOptions& options) {
  add_sizes(command, options.sizes_mib);
  command
      .add_option(
          "--shapes", options.shapes,
          "Other states: small (64 MiB and 2,000 variables of 4 KiB), rows (an array that is cut along its last "
          "dimension), grid (one that is cut along three), or none")
      ->check(CLI::IsMember(std::vector<std::string>{"none", "small", "rows", "grid"}))
      ->capture_default_str();
}

std::vector<WorkloadSpec> states(const StateOptions& options) {
  std::vector<WorkloadSpec> specs;
  for (const double mib : options.sizes_mib) {
    specs.push_back({.large_mib = mib});
  }
  const std::vector<std::pair<std::string, WorkloadSpec>> others{
      {"small", {.large_mib = 64, .small_count = 2000}},
      {"rows", {.large_mib = 256, .row_bytes = 4096}},
      {"grid", {.large_mib = 256, .grid = true}},
  };
  for (const auto& [name, spec] : others) {
    if (std::ranges::find(options.shapes, name) != options.shapes.end()) {
      specs.push_back(spec);
    }
  }
  return specs;
}

void Work::run(std::uint64_t iterations) {
  // A chain of dependent operations that the compiler cannot shorten.
  std::uint64_t state = 88172645463325252ULL;
  for (std::uint64_t i = 0; i < iterations; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    asm volatile("" : "+r"(state));
  }
}

Work::Work() {
  constexpr std::uint64_t kProbe = 2'000'000;
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run(kProbe);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  // All ranks do the same number of iterations.
  seconds_per_iteration_ = greatest(MPI_COMM_WORLD, best) / kProbe;
}

std::uint64_t Work::iterations(double seconds) const {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(seconds / seconds_per_iteration_));
}

std::string WorkloadSpec::name() const {
  std::string text = fmt::format("{:g} MiB a rank", large_mib);
  if (small_count > 0) {
    text += fmt::format(" + {} variables of {} bytes", small_count, small_bytes);
  }
  if (row_bytes > 0) {
    text += fmt::format(" in rows of {} bytes", row_bytes);
  }
  return grid ? text + " of a 3-D grid" : text;
}

Workload::Workload(const WorkloadSpec& spec, int rank, int ranks)
    : spec_(spec), rank_(static_cast<std::uint64_t>(rank)), ranks_(static_cast<std::uint64_t>(ranks)) {
  const auto large_total = static_cast<std::uint64_t>(std::llround(spec.large_mib * kMib / sizeof(double) * ranks));
  const auto first_of = [&](std::uint64_t r) { return large_total * r / ranks_; };
  const auto bytes_of = [&](std::uint64_t r) {
    return (first_of(r + 1) - first_of(r) + spec.small_count * small_elements()) * sizeof(double);
  };
  large_offset_ = first_of(rank_);
  large_count_ = first_of(rank_ + 1) - large_offset_;
  for (std::uint64_t r = 0; r < ranks_; ++r) {
    padded_offset_ = r == rank_ ? padded_total_ : padded_offset_;
    padded_total_ += whole_pages(bytes_of(r));
    total_ += bytes_of(r);
  }
  size_ = bytes_of(rank_);
  padded_ = whole_pages(size_);
  memory_ = make_room(false);
  fill();
  large_part_ = {{large_total}, {large_offset_}, {large_count_}};
  if (spec.row_bytes > 0) {
    const std::uint64_t row = spec.row_bytes / sizeof(double);
    large_part_ = {{large_count_ / row, row * ranks_}, {0, row * rank_}, {large_count_ / row, row}};
  }
  if (spec.grid) {
    large_part_ = grid_part(large_count_, rank_, ranks_);
  }
  checkpoint_.add_distributed("large", large().data(), {large_part_.shape, large_part_.offset, large_part_.extent});
  smalls_.reserve(spec.small_count);
  for (std::uint64_t i = 0; i < spec.small_count; ++i) {
    checkpoint_.add_per_rank(fmt::format("small/{:05}", i), smalls_.emplace_back(small(i)));
  }
}

Workload::Memory Workload::make_room(bool huge_pages) const {
  const std::uint64_t page = huge_pages ? kHugePage : kPage;
  const std::uint64_t room = (padded_ / page + 1) * page;  // more than the padded bytes
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(page, room)));
  if (!memory) {
    throw std::bad_alloc();
  }
  if (huge_pages) {
    static_cast<void>(::madvise(memory.get(), room, MADV_HUGEPAGE));  // a hint
  }
  std::fill_n(memory.get(), room, std::byte{0});
  return memory;
}

std::span<std::byte> Workload::limit_bytes() {
  if (!limit_memory_) {
    limit_memory_ = make_room(true);
    std::copy_n(memory(), padded_, limit_memory_.get());
  }
  return {limit_memory_.get(), padded_};
}

ArrayPart Workload::small_part() const {
  return {{small_elements() * ranks_}, {small_elements() * rank_}, {small_elements()}};
}

std::span<double> Workload::small(std::uint64_t index) noexcept {
  return elements().subspan(large_count_ + index * small_elements(), small_elements());
}

void Workload::fill() {
  const auto all = elements();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = element_at(large_offset_ + i);
  }
}

void Workload::clear() { std::fill_n(memory(), size_, std::byte{0x55}); }

void Workload::change(Change where, std::uint64_t time) {
  constexpr std::uint64_t kEvery = (std::uint64_t{64} << 10U) / sizeof(double);
  constexpr std::uint64_t kInMib = (std::uint64_t{1} << 20U) / sizeof(double);
  const auto all = elements();
  for (std::uint64_t i = kEvery / 2; i < all.size(); i += kEvery) {
    const bool is_changed = where == Change::everywhere || i / kInMib % 5 == 0;
    all[i] = -1.0 - static_cast<double>(is_changed ? time : 0);
  }
}

std::uint64_t Workload::wrong_elements() {
  std::uint64_t wrong = 0;
  const auto mine = large();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    wrong += mine[i] == element_at(large_offset_ + i) ? 0U : 1U;
  }
  return wrong;
}

}  // namespace reprieve::bench
