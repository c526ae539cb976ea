// SPDX-License-Identifier: BSD-3-Clause
// Memory of HIP by the runtime's own interface (hip_runtime_api.h of ROCm 5 to 7), which is declared here as far as it
// is used.

#include <algorithm>
#include <array>

#include "core/log.hpp"
#include "devices/spaces.hpp"
#include "reprieve/error.hpp"

namespace reprieve::devices {

namespace {

using HipResult = int;
using HipStream = struct ihipStream_t*;

constexpr HipResult kHipSuccess = 0;
constexpr HipResult kHipInvalidValue = 1;
constexpr HipResult kHipNotInitialized = 3;
constexpr HipResult kHipDeinitialized = 4;
constexpr HipResult kHipInsufficientDriver = 35;
constexpr HipResult kHipNoDevice = 100;
constexpr HipResult kHipInvalidDevice = 101;

/// What HIP does not know is an invalid value to it. It may be loaded and never used, or of no use on this host.
constexpr std::array kKnowsNoMemoryOfHip{kHipInvalidValue,       kHipNotInitialized, kHipDeinitialized,
                                         kHipInsufficientDriver, kHipNoDevice,       kHipInvalidDevice};
constexpr int kHostToDevice = 1;
constexpr int kDeviceToHost = 2;
constexpr unsigned kHipRegisterPortable = 1;

/// hipPointerAttribute_t. The numbers of the types differ between ROCm 5 and later, so they say nothing.
struct HipAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
  int is_managed;
  unsigned flags;
};

struct HipRuntime {
  HipResult (*attributes)(HipAttributes*, const void*);
  HipResult (*get_device)(int*);
  HipResult (*set_device)(int);
  HipResult (*synchronize_device)();
  HipResult (*synchronize_stream)(HipStream);
  HipResult (*copy)(void*, const void*, std::size_t, int, HipStream);
  HipResult (*copy_rows)(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, int, HipStream);
  HipResult (*register_host)(void*, std::size_t, unsigned);
  HipResult (*unregister_host)(void*);
  HipResult (*last_error)();
  const char* (*error_name)(HipResult);
};

bool take_functions(DriverLibrary& library, HipRuntime& runtime) {
  library.take(runtime.attributes, "hipPointerGetAttributes");
  library.take(runtime.get_device, "hipGetDevice");
  library.take(runtime.set_device, "hipSetDevice");
  library.take(runtime.synchronize_device, "hipDeviceSynchronize");
  library.take(runtime.synchronize_stream, "hipStreamSynchronize");
  library.take(runtime.copy, "hipMemcpyAsync");
  library.take(runtime.copy_rows, "hipMemcpy2DAsync");
  library.take(runtime.register_host, "hipHostRegister");
  library.take(runtime.unregister_host, "hipHostUnregister");
  library.take(runtime.last_error, "hipGetLastError");
  library.take(runtime.error_name, "hipGetErrorName");
  return library.complete();
}

class HipMemory final : public MemorySpace {
 public:
  HipMemory(const HipRuntime& runtime, void* stream) : runtime_(runtime), stream_(static_cast<HipStream>(stream)) {}

  [[nodiscard]] std::string name() const override { return "hip"; }

  [[nodiscard]] MemoryOwner owner_of(const void* address) const override {
    HipAttributes found{};
    const HipResult result = runtime_.attributes(&found, address);
    if (std::ranges::find(kKnowsNoMemoryOfHip, result) != kKnowsNoMemoryOfHip.end()) {
      static_cast<void>(runtime_.last_error());  // the program is not to find it as an error of its own
      return MemoryOwner::other;
    }
    check(result, "hipPointerGetAttributes");
    if (found.is_managed != 0) {
      return MemoryOwner::unified;
    }
    return found.device_pointer != nullptr && found.host_pointer == nullptr ? MemoryOwner::device : MemoryOwner::other;
  }

  void synchronize(const void* address) override {
    if (stream_ != nullptr) {
      check(runtime_.synchronize_stream(stream_), "hipStreamSynchronize");
      return;
    }
    const OfDevice of(*this, address);
    check(runtime_.synchronize_device(), "hipDeviceSynchronize");
  }

  void copy_out(void* host, const void* device, const CopiedRows& rows) override {
    const OfDevice of(*this, device);
    copy(host, rows.host_pitch, device, rows.device_pitch, rows, kDeviceToHost);
  }

  void copy_in(void* device, const void* host, const CopiedRows& rows) override {
    const OfDevice of(*this, device);
    copy(device, rows.device_pitch, host, rows.host_pitch, rows, kHostToDevice);
  }

  void wait(const void* address) override {
    const OfDevice of(*this, address);
    check(runtime_.synchronize_stream(nullptr), "hipStreamSynchronize");
  }

  void pin(void* host, std::size_t bytes, const void* address) override {
    const OfDevice of(*this, address);
    check(runtime_.register_host(host, bytes, kHipRegisterPortable), "hipHostRegister");
  }

  /// The memory of the host has a device itself, while memory of the device may be gone by now.
  [[nodiscard]] bool unpin(void* host, const void* /*address*/) noexcept override {
    return try_twice([&] {
      const OfDevice of(*this, host);
      check(runtime_.unregister_host(host), "hipHostUnregister");
    });
  }

 private:
  void copy(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, const CopiedRows& rows,
            int kind) const {
    if (rows.rows == 1) {
      check(runtime_.copy(to, from, rows.row_bytes, kind, nullptr), "hipMemcpyAsync");
    } else {
      check(runtime_.copy_rows(to, to_pitch, from, from_pitch, rows.row_bytes, rows.rows, kind, nullptr),
            "hipMemcpy2DAsync");
    }
  }

  void check(HipResult result, const char* call) const {
    if (result != kHipSuccess) {
      static_cast<void>(runtime_.last_error());
      throw StorageError(ErrorCode::io, std::string("the device failed: ") + call + ": " + runtime_.error_name(result) +
                                            " (" + std::to_string(result) + ")");
    }
  }

  /// The device of some memory is that of this thread for a while.
  class OfDevice {
   public:
    OfDevice(const HipMemory& hip, const void* address) : hip_(hip) {
      HipAttributes found{};
      hip.check(hip.runtime_.attributes(&found, address), "hipPointerGetAttributes");
      hip.check(hip.runtime_.get_device(&before_), "hipGetDevice");
      changed_ = before_ != found.device;
      if (changed_) {
        hip.check(hip.runtime_.set_device(found.device), "hipSetDevice");
      }
    }
    ~OfDevice() {
      if (changed_ && hip_.runtime_.set_device(before_) != kHipSuccess) {
        core::log::debug("hipSetDevice failed");
      }
    }
    OfDevice(const OfDevice&) = delete;
    OfDevice& operator=(const OfDevice&) = delete;

   private:
    const HipMemory& hip_;
    int before_ = 0;
    bool changed_ = false;
  };

  const HipRuntime& runtime_;
  HipStream stream_;
};

}  // namespace

std::shared_ptr<MemorySpace> find_hip(void* stream) {
  const auto* const runtime = find_driver<HipRuntime>(
      "libamdhip64.so", {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"});
  return runtime == nullptr ? nullptr : std::make_shared<HipMemory>(*runtime, stream);
}

}  // namespace reprieve::devices
