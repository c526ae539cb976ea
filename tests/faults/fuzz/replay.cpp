// SPDX-License-Identifier: BSD-3-Clause
// Runs a fuzz target on every file of the folders that are given, and on every beginning of them.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  std::size_t runs = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream stream(entry.path(), std::ios::binary);
      const std::vector<char> content{std::istreambuf_iterator<char>(stream), {}};
      std::vector<std::uint8_t> bytes(content.begin(), content.end());
      for (;; bytes.pop_back()) {
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        ++runs;
        if (bytes.empty()) {
          break;
        }
      }
    }
  }
  std::cout << runs << " inputs\n";
  return runs == 0 ? 1 : 0;
}
