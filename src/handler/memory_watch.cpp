// SPDX-License-Identifier: BSD-3-Clause
#include "handler/memory_watch.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/directory.hpp"
#include "core/memory.hpp"
#include "core/process.hpp"
#include "state/strided.hpp"
#include "storage/bytes/checksum.hpp"

namespace reprieve::handler {

namespace {

using Bytes = std::span<const std::byte>;

/// Reads memory that may vanish meanwhile: an error instead of a signal.
class ProcessMemory {
 public:
  /// False if it is not there.
  bool read(std::uint64_t address, std::span<std::byte> to) const {
    const auto got =
        core::uninterrupted([&] { return ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(address)); });
    return got == static_cast<ssize_t>(to.size());
  }

  [[nodiscard]] std::optional<std::uint64_t> digest(std::uint64_t address, std::uint64_t bytes) {
    stream_.reset();
    for (std::uint64_t done = 0; done < bytes;) {
      const std::span<std::byte> piece(buffer_.data(), std::min<std::uint64_t>(buffer_.size(), bytes - done));
      if (!read(address + done, piece)) {
        return std::nullopt;
      }
      stream_.update(piece);
      done += piece.size();
    }
    return stream_.digest();
  }

 private:
  core::Descriptor file_{::open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
  std::vector<std::byte> buffer_ = std::vector<std::byte>(storage::kCachedBytes);
  storage::Xxh3Stream stream_;
};

/// [begin, end) of writable memory that is this process's own.
struct Region {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string path;  ///< "[heap]"; empty: no file
};

std::vector<Region> writable_regions() {
  std::vector<Region> regions;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    Region region;
    char dash = 0;
    std::string rights;
    std::string ignored;
    words >> std::hex >> region.begin >> dash >> region.end >> rights >> ignored >> ignored >> ignored >> region.path;
    if (rights == "rw-p") {
      regions.push_back(std::move(region));
    }
  }
  return regions;
}

// The heap of the GNU C library: each block begins with the size of the one before, if that is free, and its own size,
// whose lowest bits say: the one before is in use; mapped alone; of another thread's heap.

constexpr std::uint64_t kBlockHead = 2 * sizeof(std::uint64_t);
constexpr std::uint64_t kBeforeIsUsed = 1;
constexpr std::uint64_t kMapped = 2;
constexpr std::uint64_t kSizeBits = ~std::uint64_t{7};

struct BlockHead {
  std::uint64_t before = 0;
  std::uint64_t size = 0;
};

std::optional<BlockHead> block_head(const ProcessMemory& memory, std::uint64_t address) {
  std::array<std::byte, kBlockHead> bytes{};
  if (!memory.read(address, bytes)) {
    return std::nullopt;
  }
  BlockHead head;
  std::memcpy(&head, bytes.data(), sizeof(head));
  return head;
}

/// What a program may use of blocks: the address, and the bytes.
using Blocks = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

/// Of the main heap, those in use.
void add_heap_blocks(const ProcessMemory& memory, const Region& heap, Blocks& blocks) {
  constexpr std::uint64_t kLeastSize = 32;
  auto head = block_head(memory, heap.begin);
  for (std::uint64_t at = heap.begin; head;) {
    const std::uint64_t size = head->size & kSizeBits;
    if (size < kLeastSize || size % kBlockHead != 0 || at + size + kBlockHead > heap.end) {
      return;  // the last one, or a heap of another allocator
    }
    const auto next = block_head(memory, at + size);
    if (next && (next->size & kBeforeIsUsed) != 0 && size >= MemoryWatch::kLeastBlock) {
      blocks.emplace_back(at + kBlockHead, size - sizeof(std::uint64_t));
    }
    at += size;
    head = next;
  }
}

/// Large blocks are mapped one by one. Other memory may lie before them.
void add_mapped_blocks(const ProcessMemory& memory, const Region& region, Blocks& blocks) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (std::uint64_t at = region.begin; at < region.end;) {
    const auto head = block_head(memory, at);
    const std::uint64_t size = head ? head->size & kSizeBits : 0;
    const bool is_block = head && (head->size & ~kSizeBits) == kMapped && head->before == 0 && size % page == 0 &&
                          size > 0 && size <= region.end - at;
    if (is_block) {
      blocks.emplace_back(at + kBlockHead, size - kBlockHead);
    }
    at += is_block ? size : page;
  }
}

// Global variables, by the symbol tables.

struct Global {
  std::string name;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// The bytes of a file from an offset on, as an array; empty if they are not all there.
template <class T>
std::span<const T> array_at(Bytes file, std::uint64_t offset, std::uint64_t count) {
  const bool fits = offset <= file.size() && count <= (file.size() - offset) / sizeof(T) && offset % alignof(T) == 0;
  return fits ? std::span(reinterpret_cast<const T*>(file.data() + offset), count) : std::span<const T>();
}

std::string readable(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? name.get() : symbol;
}

/// Of the compiler, the C++ library, or this one.
bool is_of_program(std::string_view name) {
  constexpr std::array kOthers{"guard variable for ", "std::", "vtable for ", "typeinfo ", "reprieve::", "_IO_", "__"};
  const bool is_other = std::ranges::any_of(kOthers, [&](const char* other) { return name.starts_with(other); });
  return !name.empty() &&
         (!is_other || name.find("_MOD_") != std::string_view::npos);  // a variable of a Fortran module
}

/// @param moved  by so much the file lies elsewhere in memory than it says
void add_globals(Bytes file, std::uint64_t moved, std::vector<Global>& globals) {
  const auto header = array_at<Elf64_Ehdr>(file, 0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) {
    return;
  }
  const auto sections = array_at<Elf64_Shdr>(file, header[0].e_shoff, header[0].e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) {
      continue;
    }
    const Elf64_Shdr& texts = sections[section.sh_link];
    const auto names = array_at<char>(file, texts.sh_offset, texts.sh_size);
    for (const Elf64_Sym& symbol : array_at<Elf64_Sym>(file, section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
      const bool is_variable = ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_size > 0 &&
                               symbol.st_shndx < sections.size() && symbol.st_name < names.size() &&
                               (sections[symbol.st_shndx].sh_flags & SHF_WRITE) != 0;
      if (is_variable) {
        globals.push_back({readable(&names[symbol.st_name]), symbol.st_value + moved, symbol.st_size});
      }
    }
  }
}

/// The program, and the libraries that came with it.
bool is_read(const std::string& path) {
  constexpr std::array kLibraries{"libmpi", "libopen-", "libpmix", "libhdf5", "libuc", "libfabric", "libreprieve"};
  const std::string file = path.substr(path.rfind('/') + 1);
  const bool is_system = path.starts_with("/usr/") || path.starts_with("/lib");
  return !is_system && std::ranges::none_of(kLibraries, [&](const char* name) { return file.starts_with(name); });
}

int add_globals_of(::dl_phdr_info* info, std::size_t, void* globals) {
  const std::string path = info->dlpi_name[0] == '\0' ? "/proc/self/exe" : info->dlpi_name;
  const core::Descriptor file(is_read(path) ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1);
  struct stat status = {};
  if (file.is_open() && ::fstat(file.get(), &status) == 0) {
    const auto mapped =
        core::Mapping::find(static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file.get());
    add_globals(mapped.bytes(), info->dlpi_addr, *static_cast<std::vector<Global>*>(globals));
  }
  return 0;
}

std::uint64_t address_of(Bytes bytes) { return reinterpret_cast<std::uint64_t>(bytes.data()); }

Bytes reached(const DistributedArray& array, const MemoryBox& box) {
  const auto strides =
      box.strides_bytes.empty() ? state::dense_strides(box.extent, array.type.size_bytes) : box.strides_bytes;
  const state::Reach reach = state::reach_of(box.extent, strides, array.type.size_bytes);
  return {box.data + reach.begin, static_cast<std::size_t>(reach.end - reach.begin)};
}

}  // namespace

std::vector<VariableMemory> memory_of(const Checkpoint::Registry& registry) {
  std::vector<VariableMemory> variables;
  for (const auto& [name, variable] : registry.variables) {
    VariableMemory memory{name, {}};
    if (variable.value) {
      memory.pieces.push_back(variable.value->bytes());
    } else {
      const DistributedArray array = variable.describe();
      for (const MemoryBox& box : array.boxes) {
        if (box.space == nullptr && box.data != nullptr) {
          memory.pieces.push_back(reached(array, box));
        }
      }
    }
    variables.push_back(std::move(memory));
  }
  return variables;
}

MemoryWatch::Objects MemoryWatch::snapshot() {
  ProcessMemory memory;
  Blocks blocks;
  for (const Region& region : writable_regions()) {
    if (region.path == "[heap]") {
      add_heap_blocks(memory, region, blocks);
    } else if (region.path.empty()) {
      add_mapped_blocks(memory, region, blocks);
    }
  }
  std::vector<Global> globals;
  ::dl_iterate_phdr(add_globals_of, &globals);
  std::erase_if(globals, [](const Global& global) { return !is_of_program(global.name); });
  for (const auto& [address, bytes] : blocks) {
    globals.push_back({"", address, bytes});
  }
  Objects objects;
  for (Global& each : globals) {
    if (const auto digest = memory.digest(each.address, each.bytes)) {
      objects[each.address] = {std::move(each.name), each.bytes, *digest};
    }
  }
  return objects;
}

std::set<std::uint64_t> MemoryWatch::changed_since(const Objects& now) const {
  std::set<std::uint64_t> changed;
  for (const auto& [address, object] : now) {
    const auto before = last_.find(address);
    if (before != last_.end() && before->second.bytes == object.bytes && before->second.digest != object.digest) {
      changed.insert(address);
    }
  }
  return changed;
}

void MemoryWatch::after_step(const std::vector<VariableMemory>& variables) {
  Objects now = snapshot();
  for (const std::uint64_t address : changed_since(now)) {
    ++by_steps_[address];
  }
  for (const VariableMemory& variable : variables) {
    storage::Xxh3Stream stream;
    for (const Bytes piece : variable.pieces) {
      stream.update(piece);
    }
    const std::uint64_t digest = stream.digest();
    const auto [before, is_new] = variables_.try_emplace(variable.name, digest);
    if (!is_new && std::exchange(before->second, digest) != digest) {
      changed_variables_.insert(variable.name);
    }
  }
  steps_ += last_.empty() ? 0 : 1;
  last_ = std::move(now);
}

void MemoryWatch::after_pause() {
  Objects now = snapshot();
  without_steps_.merge(changed_since(now));
  last_ = std::move(now);
}

events::MemoryChanges MemoryWatch::changes(const std::vector<VariableMemory>& variables) const {
  const auto is_covered = [&](std::uint64_t address, std::uint64_t bytes) {
    return std::ranges::any_of(variables, [&](const VariableMemory& variable) {
      return std::ranges::any_of(variable.pieces, [&](Bytes piece) {
        return address_of(piece) < address + bytes && address < address_of(piece) + piece.size();
      });
    });
  };
  events::MemoryChanges result{.steps = static_cast<events::Count>(steps_), .objects = last_.size()};
  for (const auto& [address, times] : by_steps_) {
    const auto object = last_.find(address);
    const bool is_of_steps = object != last_.end() && times * 2 > steps_ && !without_steps_.contains(address);
    if (is_of_steps && !is_covered(address, object->second.bytes)) {
      result.uncovered.push_back({object->second.name, object->second.bytes});
    }
  }
  std::ranges::sort(result.uncovered, std::greater<>(), &events::MemoryChanges::Object::bytes);
  for (const VariableMemory& variable : variables) {
    const auto add = [](std::uint64_t sum, Bytes piece) { return sum + piece.size(); };
    const std::uint64_t bytes = std::accumulate(variable.pieces.begin(), variable.pieces.end(), std::uint64_t{0}, add);
    if (bytes >= kLeastBlock && !changed_variables_.contains(variable.name)) {
      result.unchanged.push_back(variable.name);
    }
  }
  return result;
}

}  // namespace reprieve::handler
