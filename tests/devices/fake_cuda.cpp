// SPDX-License-Identifier: BSD-3-Clause
// A libcuda.so.1 with as much of the driver's interface as the library uses.

#include "fake_core.hpp"

extern "C" {

using CUresult = int;
using CUdeviceptr = std::uintptr_t;
using CUcontext = void*;
using CUstream = void*;

/// CUDA_MEMCPY2D of cuda.h
struct Memcpy2D {
  std::size_t srcXInBytes, srcY;
  unsigned srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  void* srcArray;
  std::size_t srcPitch;
  std::size_t dstXInBytes, dstY;
  unsigned dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  void* dstArray;
  std::size_t dstPitch;
  std::size_t WidthInBytes, Height;
};
}

namespace {

constexpr CUresult kInvalidValue = 1;
constexpr CUresult kInvalidContext = 201;
constexpr CUresult kIllegalAddress = 700;

thread_local std::vector<CUcontext> contexts;
char handles[2];
int retained[2];

CUcontext context_of(int device) { return &handles[device]; }
int device_of(CUcontext context) { return static_cast<int>(static_cast<char*>(context) - handles); }
CUcontext current() { return contexts.empty() ? nullptr : contexts.back(); }

/// Whether a copy of that memory is allowed in the current context.
bool is_allowed(CUdeviceptr address) {
  const auto* const found = fake::find(address);
  return found != nullptr && current() == context_of(found->second.device);
}

}  // namespace

#define FAKE_CALL(name)                                            \
  const std::lock_guard lock(fake::world().mutex);                 \
  if (const int error = fake::failure_of(name, kIllegalAddress)) { \
    return error;                                                  \
  }

extern "C" {

CUresult cuPointerGetAttribute(void* data, int attribute, CUdeviceptr address) {
  FAKE_CALL("cuPointerGetAttribute")
  const auto* const found = fake::find(address);
  // Otherwise it is memory of the host, which the driver knows if it is pinned.
  const int device = found != nullptr ? found->second.device : fake::device_of_pinned(address);
  if (device < 0 || (found == nullptr && attribute == 9)) {
    return kInvalidValue;
  }
  switch (attribute) {
    case 1:
      *static_cast<CUcontext*>(data) =
          found != nullptr && found->second.kind == FAKE_POOL ? nullptr : context_of(device);
      return 0;
    case 2:
      *static_cast<unsigned*>(data) = found != nullptr ? 2 : 1;
      return 0;
    case 8:
      *static_cast<unsigned*>(data) = found != nullptr && found->second.kind == FAKE_MANAGED ? 1 : 0;
      return 0;
    case 9:
      *static_cast<int*>(data) = device;
      return 0;
    default:
      return kInvalidValue;
  }
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  FAKE_CALL("cuCtxGetCurrent")
  *context = current();
  return 0;
}

CUresult cuCtxGetDevice(int* device) {
  FAKE_CALL("cuCtxGetDevice")
  if (current() == nullptr) {
    return kInvalidContext;
  }
  *device = device_of(current());
  return 0;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  FAKE_CALL("cuCtxPushCurrent_v2")
  contexts.push_back(context);
  ++fake::world().counts.contexts;
  return 0;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (contexts.empty()) {
    return kInvalidContext;
  }
  *context = contexts.back();
  contexts.pop_back();
  --fake::world().counts.contexts;
  return 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, int device) {
  FAKE_CALL("cuDevicePrimaryCtxRetain")
  *context = context_of(device);
  ++retained[device];
  return 0;
}

CUresult cuDevicePrimaryCtxRelease_v2(int device) {
  if (retained[device] == 0) {
    std::abort();
  }
  --retained[device];
  return 0;
}

/// A stream is the address of a device's handle.
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  FAKE_CALL("cuStreamGetCtx")
  *context = stream;
  return 0;
}

CUresult cuCtxSynchronize() {
  FAKE_CALL("cuCtxSynchronize")
  if (current() == nullptr) {
    return kInvalidContext;
  }
  fake::run(fake::world().work[device_of(current())]);
  fake::run(fake::world().copies[device_of(current())]);
  return 0;
}

CUresult cuStreamSynchronize(CUstream stream) {
  FAKE_CALL("cuStreamSynchronize")
  if (current() == nullptr) {
    return kInvalidContext;
  }
  const int device = device_of(current());
  if (stream != nullptr) {
    fake::run(fake::world().work[device]);
  } else {
    fake::run(fake::world().copies[device]);
  }
  return 0;
}

CUresult cuMemcpyDtoHAsync_v2(void* host, CUdeviceptr device, std::size_t bytes, CUstream) {
  FAKE_CALL("cuMemcpyDtoHAsync_v2")
  if (!is_allowed(device)) {
    return kInvalidContext;
  }
  const int number = device_of(current());
  fake::count_copy(number, host, bytes, bytes, true);
  fake::copy(number, static_cast<unsigned char*>(host), bytes, fake::shadow(device, bytes), bytes, bytes, 1);
  return 0;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr device, const void* host, std::size_t bytes, CUstream) {
  FAKE_CALL("cuMemcpyHtoDAsync_v2")
  if (!is_allowed(device)) {
    return kInvalidContext;
  }
  const int number = device_of(current());
  fake::count_copy(number, host, bytes, bytes, false);
  fake::copy(number, fake::shadow(device, bytes), bytes, static_cast<const unsigned char*>(host), bytes, bytes, 1);
  return 0;
}

CUresult cuMemcpy2DAsync_v2(const Memcpy2D* copy, CUstream) {
  FAKE_CALL("cuMemcpy2DAsync_v2")
  const bool out = copy->srcMemoryType == 2;
  const CUdeviceptr device = out ? copy->srcDevice : copy->dstDevice;
  const std::size_t device_pitch = out ? copy->srcPitch : copy->dstPitch;
  const std::size_t host_pitch = out ? copy->dstPitch : copy->srcPitch;
  const void* const host = out ? copy->dstHost : copy->srcHost;
  const std::size_t width = copy->WidthInBytes;
  if (copy->srcMemoryType + copy->dstMemoryType != 3 || device_pitch < width || host_pitch < width ||
      copy->srcXInBytes + copy->srcY + copy->dstXInBytes + copy->dstY != 0 || copy->Height == 0) {
    return kInvalidValue;
  }
  if (!is_allowed(device)) {
    return kInvalidContext;
  }
  const int number = device_of(current());
  fake::count_copy(number, host, width * copy->Height, host_pitch * (copy->Height - 1) + width, out);
  unsigned char* const at = fake::shadow(device, device_pitch * (copy->Height - 1) + width);
  if (out) {
    fake::copy(number, static_cast<unsigned char*>(copy->dstHost), host_pitch, at, device_pitch, width, copy->Height);
  } else {
    fake::copy(number, at, device_pitch, static_cast<const unsigned char*>(host), host_pitch, width, copy->Height);
  }
  return 0;
}

CUresult cuMemHostRegister_v2(void* host, std::size_t bytes, unsigned) {
  FAKE_CALL("cuMemHostRegister_v2")
  return current() == nullptr ? kInvalidContext : fake::pin(host, bytes, device_of(current())) ? 0 : 712;
}

CUresult cuMemHostUnregister(void* host) {
  FAKE_CALL("cuMemHostUnregister")
  return fake::unpin(host) ? 0 : 713;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  contexts.assign(1, context);
  return 0;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == kIllegalAddress   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == kInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT"
                                     : nullptr;
  return *name == nullptr ? kInvalidValue : 0;
}
}
