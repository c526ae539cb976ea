// SPDX-License-Identifier: BSD-3-Clause
// Memory of CUDA by the driver's own interface (cuda.h of CUDA 12), which is declared here as far as it is used. The
// driver's ABI is stable: its functions are never changed, new forms get new names (_v2).

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/log.hpp"
#include "devices/spaces.hpp"
#include "reprieve/error.hpp"

namespace reprieve::devices {

namespace {

using CudaResult = int;
using CudaPointer = std::uintptr_t;  // CUdeviceptr
using CudaContext = struct CUctx_st*;
using CudaStream = struct CUstream_st*;
using CudaArray = struct CUarray_st*;

constexpr CudaResult kSuccess = 0;
constexpr CudaResult kInvalidValue = 1;
constexpr CudaResult kNotInitialized = 3;
constexpr CudaResult kDeinitialized = 4;
constexpr CudaResult kStubLibrary = 34;
constexpr CudaResult kNoDevice = 100;
constexpr CudaResult kInvalidDevice = 101;
constexpr CudaResult kInvalidContext = 201;
constexpr CudaResult kContextIsDestroyed = 709;
constexpr CudaResult kSystemNotReady = 802;
constexpr CudaResult kSystemDriverMismatch = 803;
constexpr CudaResult kCompatNotSupportedOnDevice = 804;

/// What CUDA does not know is an invalid value to it. It may be loaded and never used, or of no use on this host.
constexpr std::array kKnowsNoMemory{kInvalidValue,
                                    kNotInitialized,
                                    kDeinitialized,
                                    kStubLibrary,
                                    kNoDevice,
                                    kInvalidDevice,
                                    kInvalidContext,
                                    kContextIsDestroyed,
                                    kSystemNotReady,
                                    kSystemDriverMismatch,
                                    kCompatNotSupportedOnDevice};

constexpr int kAttributeContext = 1;
constexpr int kAttributeMemoryType = 2;
constexpr int kAttributeIsManaged = 8;
constexpr int kAttributeDeviceOrdinal = 9;

constexpr unsigned kTypeHost = 1;
constexpr unsigned kTypeDevice = 2;
constexpr unsigned kRegisterPortable = 1;

/// One side of a CUDA_MEMCPY2D.
struct CudaSide {
  std::size_t x = 0;
  std::size_t y = 0;
  unsigned type = 0;
  const void* host = nullptr;
  CudaPointer device = 0;
  CudaArray array = nullptr;
  std::size_t pitch = 0;
};

/// CUDA_MEMCPY2D
struct CudaCopy2D {
  CudaSide source;
  CudaSide target;
  std::size_t width = 0;
  std::size_t height = 0;
};

struct CudaDriver {
  CudaResult (*pointer_attribute)(void*, int, CudaPointer);
  CudaResult (*get_current)(CudaContext*);
  CudaResult (*get_device)(int*);
  CudaResult (*push)(CudaContext);
  CudaResult (*pop)(CudaContext*);
  CudaResult (*retain_primary)(CudaContext*, int);
  CudaResult (*release_primary)(int);
  CudaResult (*context_of_stream)(CudaStream, CudaContext*);
  CudaResult (*synchronize_context)();
  CudaResult (*synchronize_stream)(CudaStream);
  CudaResult (*copy_out)(void*, CudaPointer, std::size_t, CudaStream);
  CudaResult (*copy_in)(CudaPointer, const void*, std::size_t, CudaStream);
  CudaResult (*copy_rows)(const CudaCopy2D*, CudaStream);
  CudaResult (*register_host)(void*, std::size_t, unsigned);
  CudaResult (*unregister_host)(void*);
  CudaResult (*error_name)(CudaResult, const char**);
};

bool take_functions(DriverLibrary& library, CudaDriver& driver) {
  library.take(driver.pointer_attribute, "cuPointerGetAttribute");
  library.take(driver.get_current, "cuCtxGetCurrent");
  library.take(driver.get_device, "cuCtxGetDevice");
  library.take(driver.push, "cuCtxPushCurrent_v2");
  library.take(driver.pop, "cuCtxPopCurrent_v2");
  library.take(driver.retain_primary, "cuDevicePrimaryCtxRetain");
  library.take(driver.release_primary, "cuDevicePrimaryCtxRelease_v2");
  library.take(driver.context_of_stream, "cuStreamGetCtx");
  library.take(driver.synchronize_context, "cuCtxSynchronize");
  library.take(driver.synchronize_stream, "cuStreamSynchronize");
  library.take(driver.copy_out, "cuMemcpyDtoHAsync_v2");
  library.take(driver.copy_in, "cuMemcpyHtoDAsync_v2");
  library.take(driver.copy_rows, "cuMemcpy2DAsync_v2");
  library.take(driver.register_host, "cuMemHostRegister_v2");
  library.take(driver.unregister_host, "cuMemHostUnregister");
  library.take(driver.error_name, "cuGetErrorName");
  return library.complete();
}

CudaPointer pointer(const void* address) { return reinterpret_cast<CudaPointer>(address); }

class CudaMemory final : public MemorySpace {
 public:
  CudaMemory(const CudaDriver& driver, void* stream) : driver_(driver), stream_(static_cast<CudaStream>(stream)) {}

  [[nodiscard]] std::string name() const override { return "cuda"; }

  [[nodiscard]] MemoryOwner owner_of(const void* address) const override {
    unsigned type = 0;
    const CudaResult result = driver_.pointer_attribute(&type, kAttributeMemoryType, pointer(address));
    if (std::ranges::find(kKnowsNoMemory, result) != kKnowsNoMemory.end()) {
      return MemoryOwner::other;
    }
    check(result, "cuPointerGetAttribute");
    unsigned managed = 0;
    check(driver_.pointer_attribute(&managed, kAttributeIsManaged, pointer(address)), "cuPointerGetAttribute");
    if (managed != 0) {
      return MemoryOwner::unified;
    }
    return type == kTypeDevice ? MemoryOwner::device : MemoryOwner::other;
  }

  void synchronize(const void* address) override {
    if (stream_ != nullptr) {
      CudaContext context = nullptr;
      check(driver_.context_of_stream(stream_, &context), "cuStreamGetCtx");
      const Current current(*this, context);
      check(driver_.synchronize_stream(stream_), "cuStreamSynchronize");
      return;
    }
    const Current current(*this, address);
    check(driver_.synchronize_context(), "cuCtxSynchronize");
  }

  void copy_out(void* host, const void* device, const CopiedRows& rows) override {
    const Current current(*this, device);
    if (rows.rows == 1) {
      check(driver_.copy_out(host, pointer(device), rows.row_bytes, nullptr), "cuMemcpyDtoHAsync");
      return;
    }
    const CudaCopy2D copy{on_device(device, rows), on_host(host, rows), rows.row_bytes, rows.rows};
    check(driver_.copy_rows(&copy, nullptr), "cuMemcpy2DAsync");
  }

  void copy_in(void* device, const void* host, const CopiedRows& rows) override {
    const Current current(*this, device);
    if (rows.rows == 1) {
      check(driver_.copy_in(pointer(device), host, rows.row_bytes, nullptr), "cuMemcpyHtoDAsync");
      return;
    }
    const CudaCopy2D copy{on_host(host, rows), on_device(device, rows), rows.row_bytes, rows.rows};
    check(driver_.copy_rows(&copy, nullptr), "cuMemcpy2DAsync");
  }

  /// Copies go through the default stream, which needs not be made, nor looked after when a context goes away.
  void wait(const void* address) override {
    const Current current(*this, address);
    check(driver_.synchronize_stream(nullptr), "cuStreamSynchronize");
  }

  void pin(void* host, std::size_t bytes, const void* address) override {
    const Current current(*this, address);
    check(driver_.register_host(host, bytes, kRegisterPortable), "cuMemHostRegister");
  }

  /// The memory of the host has a context itself, while memory of the device may be gone by now.
  [[nodiscard]] bool unpin(void* host, const void* /*address*/) noexcept override {
    return try_twice([&] {
      const Current current(*this, host);
      check(driver_.unregister_host(host), "cuMemHostUnregister");
    });
  }

 private:
  static CudaSide on_host(const void* host, const CopiedRows& rows) {
    return {.type = kTypeHost, .host = host, .pitch = rows.host_pitch};
  }
  static CudaSide on_device(const void* device, const CopiedRows& rows) {
    return {.type = kTypeDevice, .device = pointer(device), .pitch = rows.device_pitch};
  }

  void check(CudaResult result, const char* call) const {
    if (result == kSuccess) {
      return;
    }
    const char* text = nullptr;
    if (driver_.error_name(result, &text) != kSuccess || text == nullptr) {
      text = "an unknown error";
    }
    throw StorageError(ErrorCode::io,
                       std::string("the device failed: ") + call + ": " + text + " (" + std::to_string(result) + ")");
  }

  /// The context of some memory is that of this thread for a while: a thread may have none, or another one.
  class Current {
   public:
    Current(const CudaMemory& cuda, CudaContext context) : cuda_(cuda) { push(context); }
    Current(const CudaMemory& cuda, const void* address) : cuda_(cuda) {
      CudaContext context = nullptr;
      cuda.check(cuda.driver_.pointer_attribute(&context, kAttributeContext, pointer(address)),
                 "cuPointerGetAttribute");
      if (context != nullptr) {
        push(context);
        return;
      }
      // Memory of a pool, or mapped by the program, belongs to a device alone. What is current may be of another one.
      cuda.check(cuda.driver_.pointer_attribute(&device_, kAttributeDeviceOrdinal, pointer(address)),
                 "cuPointerGetAttribute");
      if (!is_current(device_)) {
        cuda.check(cuda.driver_.retain_primary(&context, device_), "cuDevicePrimaryCtxRetain");
        retained_ = true;
        push(context);
      }
    }
    ~Current() {
      CudaContext popped = nullptr;
      if (pushed_ && cuda_.driver_.pop(&popped) != kSuccess) {
        core::log::debug("cuCtxPopCurrent failed");
      }
      release();
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    [[nodiscard]] bool is_current(int device) const {
      CudaContext context = nullptr;
      cuda_.check(cuda_.driver_.get_current(&context), "cuCtxGetCurrent");
      if (context == nullptr) {
        return false;
      }
      int current = 0;
      cuda_.check(cuda_.driver_.get_device(&current), "cuCtxGetDevice");
      return current == device;
    }
    void push(CudaContext context) {
      const CudaResult result = cuda_.driver_.push(context);
      if (result != kSuccess) {
        release();
        cuda_.check(result, "cuCtxPushCurrent");
      }
      pushed_ = true;
    }
    void release() noexcept {
      if (retained_ && cuda_.driver_.release_primary(device_) != kSuccess) {
        core::log::debug("cuDevicePrimaryCtxRelease failed");
      }
      retained_ = false;
    }

    const CudaMemory& cuda_;
    int device_ = 0;
    bool retained_ = false;
    bool pushed_ = false;
  };

  const CudaDriver& driver_;
  CudaStream stream_;
};

}  // namespace

std::shared_ptr<MemorySpace> find_cuda(void* stream) {
  const auto* const driver = find_driver<CudaDriver>("libcuda.so", {"libcuda.so.1"});
  return driver == nullptr ? nullptr : std::make_shared<CudaMemory>(*driver, stream);
}

}  // namespace reprieve::devices
