// SPDX-License-Identifier: BSD-3-Clause
#include "faults/injector/faulty_memory.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprieve::test {

namespace {

struct CodeRange {
  std::uintptr_t begin;
  std::uintptr_t end;
};

/// The JSON library takes memory in its destructor, where an exception would end the process: nothing that uses it can
/// do anything about that. The destructor's code, as the symbol table of @p file has it.
void add_json_destructors(const std::string& file, std::uintptr_t loaded_at, std::vector<CodeRange>& ranges) {
  std::ifstream stream(file, std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(stream), {}};
  const auto at = [&](std::size_t offset, auto& record) {
    if (offset + sizeof record > image.size()) {
      return false;
    }
    std::memcpy(&record, image.data() + offset, sizeof record);
    return true;
  };
  ElfW(Ehdr) header{};
  if (!at(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return;
  }
  for (std::size_t s = 0; s < header.e_shnum; ++s) {
    ElfW(Shdr) table{};
    ElfW(Shdr) names{};
    if (!at(header.e_shoff + s * sizeof table, table) || table.sh_type != SHT_SYMTAB ||
        !at(header.e_shoff + table.sh_link * sizeof names, names)) {
      continue;
    }
    ElfW(Sym) symbol{};
    for (std::size_t i = 0; (i + 1) * sizeof symbol <= table.sh_size && at(table.sh_offset + i * sizeof symbol, symbol);
         ++i) {
      const std::size_t name = names.sh_offset + symbol.st_name;
      if (name < image.size() &&
          std::string_view(image.c_str() + name).find("json_value7destroy") != std::string_view::npos) {
        ranges.push_back({loaded_at + symbol.st_value, loaded_at + symbol.st_value + symbol.st_size});
      }
    }
  }
}

/// Of the program and of this project's libraries.
std::vector<CodeRange> json_destructors() {
  std::vector<CodeRange> ranges;
  const auto visit = [](dl_phdr_info* info, std::size_t, void* found) {
    const std::string_view name = info->dlpi_name;
    if (name.empty() || name.find("reprieve") != std::string_view::npos) {
      add_json_destructors(name.empty() ? "/proc/self/exe" : std::string(name), info->dlpi_addr,
                           *static_cast<std::vector<CodeRange>*>(found));
    }
    return 0;
  };
  ::dl_iterate_phdr(visit, &ranges);
  return ranges;
}

struct ArmedMemory {
  std::atomic<bool> any{false};
  std::atomic<bool> is_shown{false};
  std::atomic<std::uint64_t> seen{0};
  std::atomic<std::uint64_t> failed{0};
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  const std::vector<CodeRange>* ranges = nullptr;
};

/// Needs no construction: memory is asked for from the very start of the process.
constinit ArmedMemory armed_memory;

/// Whether the standard library lists a directory there: its functions for that are noexcept, and take memory.
bool lists_directory(const void* frame) noexcept {
  Dl_info info{};
  return ::dladdr(frame, &info) != 0 && info.dli_sname != nullptr &&
         std::string_view(info.dli_sname).find("directory_iterator") != std::string_view::npos;
}

/// Whether memory that runs out there ends the process, whatever its caller does.
bool is_beyond_help(std::span<void* const> frames) noexcept {
  return std::any_of(frames.begin(), frames.end(), [](const void* frame) {
    const auto address = reinterpret_cast<std::uintptr_t>(frame);
    return lists_directory(frame) ||
           std::any_of(armed_memory.ranges->begin(), armed_memory.ranges->end(),
                       [=](const CodeRange& range) { return address >= range.begin && address < range.end; });
  });
}

bool memory_is_out() noexcept {
  ArmedMemory& state = armed_memory;
  if (!state.any.load(std::memory_order_relaxed)) {
    return false;
  }
  const std::uint64_t number = ++state.seen;
  if (number < state.first || number > state.last) {
    return false;
  }
  std::array<void*, 24> frames{};
  const int depth = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  if (is_beyond_help(std::span(frames).first(static_cast<std::size_t>(depth)))) {
    return false;
  }
  if (state.failed++ == 0 && state.is_shown) {
    ::backtrace_symbols_fd(frames.data(), depth, 2);
  }
  return true;
}

}  // namespace

void arm_memory(const MemoryFault& fault) noexcept {
  static const auto* ranges = new std::vector<CodeRange>(json_destructors());  // never destroyed
  ArmedMemory& state = armed_memory;
  state.ranges = ranges;
  state.is_shown = std::getenv("FAULTY_MEMORY_SHOWN") != nullptr;  // where it was that memory ran out, on stderr
  state.first = fault.occurrence;
  state.last = fault.count > UINT64_MAX - fault.occurrence ? UINT64_MAX : fault.occurrence + fault.count - 1;
  state.seen = 0;
  state.failed = 0;
  state.any = true;
}

MemoryHits disarm_memory() noexcept {
  armed_memory.any = false;
  return {armed_memory.seen, armed_memory.failed};
}

}  // namespace reprieve::test

void* operator new(std::size_t size) {
  void* memory = reprieve::test::memory_is_out() ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  static auto* real = reinterpret_cast<void* (*)(std::size_t, std::size_t)>(::dlsym(RTLD_NEXT, "aligned_alloc"));
  if (reprieve::test::memory_is_out()) {
    errno = ENOMEM;
    return nullptr;
  }
  return real(alignment, size);
}
