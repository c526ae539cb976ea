// SPDX-License-Identifier: BSD-3-Clause
// A program of a user's that has much beside Reprieve: the standard library, threads, exceptions across the border of
// the library, HDF5's own interface, and the other libraries of neighbours.cpp. Each part looks at its results.
#include <hdf5.h>
#include <mpi.h>

#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <iomanip>
#include <iostream>
#include <locale>
#include <memory>
#include <regex>
#include <reprieve/reprieve.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#if __has_include(<format>)
#include <format>
#endif

#include "check.hpp"

namespace {

/// An error of the program's own, which goes through the library.
class OwnError : public std::runtime_error {
 public:
  OwnError() : std::runtime_error("of the program") {}
};

void standard_library() {
  check(std::to_string(1234567890123UL) == "1234567890123" && std::to_string(-5) == "-5", "to_string");
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::setw(6) << std::setprecision(3) << 2.5 << std::boolalpha << true;
  check(text.str() == "   2.5true", "a stream");
  std::smatch found;
  const std::string line = "step 42 of [abc]";
  check(std::regex_search(line, found, std::regex("([[:digit:]]+) of .[[.a.]b-c]+")) && found[1] == "42", "a regex");
  const auto shared = std::make_shared<std::string>("shared");
  const std::weak_ptr<std::string> weak = shared;
  check(weak.lock() == shared && *shared == "shared", "a shared pointer");
#ifdef __cpp_lib_format
  check(std::format("{:>4}|{:.2f}", 7, 0.125) == "   7|0.12", "std::format");
#endif
}

void threads() {
  std::promise<int> promise;
  std::thread other([&promise] { promise.set_value(42); });
  const int value = promise.get_future().get();
  other.join();
  auto fails = std::async(std::launch::async, []() -> int { throw OwnError(); });
  bool caught = false;
  try {
    fails.get();
  } catch (const OwnError&) {
    caught = true;
  }
  check(value == 42 && caught, "threads");
}

/// Whether @p call throws an @p E.
template <class E>
bool throws(const std::function<void()>& call) {
  try {
    call();
  } catch (const E&) {
    return true;
  }
  return false;
}

void describe(reprieve::Checkpoint& state, int argc, std::vector<double>& field, std::string& word) {
  state.add_constant("n", argc);
  state.add_constant("half", 0.5);
  state.add_constant("name", "everything");
  state.add_distributed("field", field, {.global_shape = {3}, .offset = {0}, .extent = {3}});
  state.add_replicated("word", word);
  add_neighbours(state);
}

void save(const std::filesystem::path& folder, int argc) {
  std::vector<double> field{1, 2, 3};
  std::string word = "saved";
  reprieve::Checkpoint state;
  describe(state, argc, field, word);
  check(throws<reprieve::UsageError>([&] { state.add_replicated("word", word); }), "an error of the library");

  reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state, folder);
  handler.run([&] { field = {7, 8, 3}; });
  handler.request_checkpoint();
  while (!handler.last_save()) {
    handler.run([] {});
  }
  try {
    handler.run([] { throw OwnError(); });
  } catch (const reprieve::ClusterError& error) {
    check(throws<OwnError>([&] { std::rethrow_if_nested(error); }), "the error of the program in that of the library");
    return;
  }
  check(false, "an error of a step");
}

void restore(const std::filesystem::path& folder, int argc) {
  std::vector<double> field(3);
  std::string word;
  reprieve::Checkpoint state;
  describe(state, argc, field, word);
  reprieve::CheckpointManager manager(MPI_COMM_WORLD, state, folder);
  check(manager.restore_or_initialize().has_value(), "a restore");
  check(field == std::vector<double>{7, 8, 3} && word == "saved", "what was restored");
}

void errors(const std::filesystem::path& folder) {
  check(throws<reprieve::ConfigError>([] { reprieve::settings_from_json("{"); }), "an error in settings");
  check(throws<std::runtime_error>([] { reprieve::settings_from_json("{\"no\": 1}"); }), "an error as its base");
  reprieve::Checkpoint state;
  int value = 0;
  state.add_replicated("value", value);
  reprieve::CheckpointManager manager(MPI_COMM_WORLD, state, folder / "empty");
  check(throws<reprieve::ClusterError>([&] { manager.restore_or_initialize([] { throw OwnError(); }); }),
        "an error of the program, through the library");
}

/// The file of the checkpoint, by HDF5 alone.
void hdf5(const std::filesystem::path& folder) {
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".h5") {
      file = entry.path();
    }
  }
  std::vector<double> field(3);
  const hid_t opened = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(opened, "/state/field", H5P_DEFAULT);
  check(dataset >= 0, "the dataset by HDF5");
  check(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, field.data()) >= 0, "a read by HDF5");
  check(H5Dclose(dataset) >= 0 && H5Fclose(opened) >= 0, "the end of HDF5");
  check(field == std::vector<double>{7, 8, 3}, "what HDF5 has read");
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = "checkpoints";
  MPI_Init(&argc, &argv);
  standard_library();
  threads();
  neighbours();
  save(folder, argc);
  restore(folder, argc);
  errors(folder);
  hdf5(folder);
  MPI_Finalize();
  std::cout << "finished, and right" << std::endl;
}
