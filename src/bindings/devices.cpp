// SPDX-License-Identifier: BSD-3-Clause
// Memory on devices: reprieve_add_memory_space, reprieve_set_memory_space

#include "bindings/guard.hpp"
#include "bindings/handles.hpp"
#include "reprieve/error.hpp"
#include "reprieve/memory_space.hpp"

namespace reprieve::bindings {
namespace {

struct SpaceCalls {
  reprieve_owner_fn owner_of;
  reprieve_device_fn settle;
  reprieve_copy_fn copy_out;
  reprieve_copy_fn copy_in;
  reprieve_device_fn wait;
  void* user;
};

class SpaceOfC final : public MemorySpace {
 public:
  SpaceOfC(std::string name, const SpaceCalls& calls) : name_(std::move(name)), calls_(calls) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] MemoryOwner owner_of(const void* address) const override {
    switch (const int owner = calls_.owner_of(address, calls_.user)) {
      case REPRIEVE_MEMORY_OTHER:
        return MemoryOwner::other;
      case REPRIEVE_MEMORY_DEVICE:
        return MemoryOwner::device;
      case REPRIEVE_MEMORY_UNIFIED:
        return MemoryOwner::unified;
      default:
        check("owner_of", [owner] { return owner; });
        return MemoryOwner::other;
    }
  }
  void settle(const void* address) override {
    check("settle", [&] { return calls_.settle(address, calls_.user); });
  }
  void copy_out(void* host, const void* device, const CopiedRows& rows) override {
    check("copy_out", [&] {
      return calls_.copy_out(host, rows.host_pitch, device, rows.device_pitch, rows.row_bytes, rows.rows, calls_.user);
    });
  }
  void copy_in(void* device, const void* host, const CopiedRows& rows) override {
    check("copy_in", [&] {
      return calls_.copy_in(device, rows.device_pitch, host, rows.host_pitch, rows.row_bytes, rows.rows, calls_.user);
    });
  }
  void wait(const void* address) override {
    check("wait", [&] { return calls_.wait(address, calls_.user); });
  }

 private:
  void check(const char* function, const std::function<int()>& call) const {
    check_callback(std::string("the function ") + function + " of the memory space '" + name_ + "'", call);
  }

  std::string name_;
  SpaceCalls calls_;
};

void add_space(const std::string& name, const SpaceCalls& calls) {
  if (calls.owner_of == nullptr || calls.settle == nullptr || calls.copy_out == nullptr || calls.copy_in == nullptr ||
      calls.wait == nullptr) {
    throw UsageError("the memory space '" + name + "': a function is NULL");
  }
  add_memory_space(std::make_shared<SpaceOfC>(name, calls));
}

}  // namespace
}  // namespace reprieve::bindings

using namespace reprieve;            // NOLINT: the C interface of that namespace
using namespace reprieve::bindings;  // NOLINT

extern "C" {

int reprieve_add_memory_space(const char* name, reprieve_owner_fn owner_of, reprieve_device_fn settle,
                              reprieve_copy_fn copy_out, reprieve_copy_fn copy_in, reprieve_device_fn wait,
                              void* user) {
  return guarded([&] { add_space(checked_text(name, "name"), {owner_of, settle, copy_out, copy_in, wait, user}); });
}

int reprieve_set_memory_space(reprieve_checkpoint* checkpoint, const char* name, const char* space, void* stream) {
  return registering(checkpoint, [&](Checkpoint& state) {
    state.set_memory_space(checked_text(name, "name"), memory_space(checked_text(space, "space"), stream));
  });
}

}  // extern "C"
