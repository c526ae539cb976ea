// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "commands.hpp"
#include "gpu.hpp"
#include "manager/manager_impl.hpp"
#include "manager/near_copies.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "ranks.hpp"
#include "report.hpp"
#include "reprieve/reprieve.hpp"
#include "scratch.hpp"

namespace reprieve::bench {

namespace {

struct DeviceOptions {
  std::vector<double> sizes_mib{64, 512};
  std::string near = "/dev/shm";
  CommonOptions common;
};

/// A state of one array, on the device or on the host, with a directory of its own.
class OneArray {
 public:
  OneArray(std::span<std::byte> memory, const std::filesystem::path& directory, const std::string& near) {
    const auto ranks = static_cast<std::uint64_t>(size_of(MPI_COMM_WORLD));
    const auto rank = static_cast<std::uint64_t>(rank_in(MPI_COMM_WORLD));
    const std::uint64_t elements = memory.size() / sizeof(double);
    state_.add_distributed("field", reinterpret_cast<double*>(memory.data()),
                           DistributedLayout{Extents{elements * ranks}, Extents{elements * rank}, Extents{elements}});
    manager_ = std::make_unique<CheckpointManager>(MPI_COMM_WORLD, state_, directory,
                                                   ManagerOptions{.max_to_keep = 1, .near_directory = near});
  }
  void save() { manager_->save(++number_); }
  void restore() {
    if (!manager_->restore_or_initialize()) {
      throw std::runtime_error("nothing was restored");
    }
  }
  void copy_near() {
    if (!manager_->near_copy(++number_)) {
      throw std::runtime_error("no near copy was taken: there is no room for it");
    }
  }
  void wait() {
    if (manager_->impl().near) {  // from the first copy on
      manager_->impl().near->wait();
    }
  }

 private:
  Checkpoint state_;
  std::unique_ptr<CheckpointManager> manager_;
  std::uint64_t number_ = 0;
};

class DeviceCandidates {
 public:
  DeviceCandidates(Gpu& gpu, std::size_t bytes, const std::filesystem::path& directory, const std::string& near)
      : gpu_(gpu),
        host_(bytes),
        on_device_(gpu.allocate(bytes)),
        pinned_(gpu.allocate_pinned(bytes)),
        of_device_(on_device_, directory / "device", near),
        of_host_(host_, directory / "host", near) {
    const std::span numbers(reinterpret_cast<double*>(host_.data()), bytes / sizeof(double));
    std::iota(numbers.begin(), numbers.end(), 1000.0 * rank_in(MPI_COMM_WORLD));
    gpu_.copy_in(on_device_, host_);
  }

  /// Each with the name of that with which it is compared.
  [[nodiscard]] std::vector<std::pair<Candidate, std::string>> all() {
    const auto rest = [this] {
      of_device_.wait();
      of_host_.wait();
    };
    const std::string copy = "copy of the device to pinned memory";
    return {{{copy, [this] { gpu_.copy_out(pinned_, on_device_); }, rest}, copy},
            {{"save, state on the host", [this] { of_host_.save(); }, rest}, "save, state on the host"},
            {{"save, state on the device", [this] { of_device_.save(); }, rest}, "save, state on the host"},
            {{"near copy of the host", [this] { of_host_.copy_near(); }, rest}, "near copy of the host"},
            {{"near copy of the device", [this] { of_device_.copy_near(); }, rest}, copy},
            {{"restore to the host", [this] { of_host_.restore(); }, rest}, "restore to the host"},
            {{"restore to the device", [this] { of_device_.restore(); }, rest}, "restore to the host"}};
  }

  /// A benchmark of something else would be worth nothing.
  void check() {
    of_device_.save();
    std::vector<std::byte> other(host_.size());
    gpu_.copy_in(on_device_, other);
    of_device_.restore();
    gpu_.copy_out(pinned_, on_device_);
    if (!std::ranges::equal(pinned_, host_)) {
      throw std::runtime_error("what came back to the device is not what was saved");
    }
  }

 private:
  Gpu& gpu_;
  std::vector<std::byte> host_;
  std::span<std::byte> on_device_;
  std::span<std::byte> pinned_;
  OneArray of_device_;
  OneArray of_host_;
};

void measure_size(double mib, const DeviceOptions& options, int number, Report& report, bool json) {
  std::string why;
  const std::unique_ptr<Gpu> gpu = Gpu::open(number, why);
  const Scratch scratch(options.common.directory);
  const auto bytes = static_cast<std::size_t>(mib * 1024 * 1024) / sizeof(double) * sizeof(double);
  DeviceCandidates device(*gpu, bytes, scratch.path(), options.near);
  device.check();
  std::vector<Candidate> plain;
  const auto candidates = device.all();
  std::ranges::transform(candidates, std::back_inserter(plain), [](const auto& each) { return each.first; });
  const auto measured = measure_interleaved(MPI_COMM_WORLD, plain, options.common.rounds, 2);
  std::map<std::string, Summary> times;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    times[plain[i].name] = summarize(measured[i].seconds);
  }
  Table table(fmt::format("Memory of a device: {} MiB a rank", mib), {"what", "median", "quartiles", "ratio"});
  for (const auto& [candidate, reference] : candidates) {
    const Summary& time = times.at(candidate.name);
    const double ratio = time.median / times.at(reference).median;
    table.add_row({candidate.name, format_seconds(time.median),
                   format_seconds(time.low) + " .. " + format_seconds(time.high),
                   fmt::format("{:.3f} of {}", ratio, reference)});
    report.add(
        {{"mib", mib}, {"what", candidate.name}, {"median_s", time.median}, {"of", reference}, {"ratio", ratio}});
  }
  if (rank_in(MPI_COMM_WORLD) == 0 && !json) {
    table.print();
  }
}

/// The number of this process among those of its host.
int number_on_host() {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  const int number = rank_in(host);
  MPI_Comm_free(&host);
  return number;
}

void run(const DeviceOptions& options, bool json) {
  const int number = number_on_host();
  std::string why;
  int missing = Gpu::open(number, why) == nullptr ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &missing, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  Report report("device");
  if (missing > 0) {
    if (rank_in(MPI_COMM_WORLD) == 0) {
      std::fprintf(json ? stderr : stdout, "nothing was measured: %d of %d ranks have no device%s%s\n", missing,
                   size_of(MPI_COMM_WORLD), why.empty() ? "" : ": ", why.c_str());
    }
  } else {
    for (const double mib : options.sizes_mib) {
      measure_size(mib, options, number, report, json);
    }
  }
  if (rank_in(MPI_COMM_WORLD) == 0 && json) {
    report.print_json();
  }
}

}  // namespace

void add_device_command(CLI::App& app, const bool& json) {
  auto options = std::make_shared<DeviceOptions>();
  CLI::App* command = app.add_subcommand(
      "device", "How fast a state in the memory of a GPU is saved and restored, beside the same state on the host");
  command->add_option("--sizes-mib", options->sizes_mib, "Sizes of the state, in MiB a rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--near", options->near, "Where the near copies lie")->capture_default_str();
  add_options(*command, options->common);
  command->callback([options, &json] { run(*options, json); });
}

}  // namespace reprieve::bench
