// SPDX-License-Identifier: BSD-3-Clause
// A libamdhip64.so.6 with as much of HIP's interface as the library uses.

#include "fake_core.hpp"

namespace {

constexpr int kInvalidValue = 1;
constexpr int kInvalidDevice = 101;
constexpr int kLaunchFailure = 719;
thread_local int current_device = 0;

int device_of(const void* address) {
  const auto* const found = fake::find(reinterpret_cast<std::uintptr_t>(address));
  return found == nullptr ? -1 : found->second.device;
}

int copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
              std::size_t height, int kind) {
  const bool out = kind == 2;
  const void* const device = out ? from : to;
  if (device_of(device) != current_device || to_pitch < width || from_pitch < width) {
    return kInvalidValue;
  }
  const std::size_t device_pitch = out ? from_pitch : to_pitch;
  const std::size_t host_pitch = out ? to_pitch : from_pitch;
  fake::count_copy(current_device, out ? to : from, width * height, host_pitch * (height - 1) + width, out);
  unsigned char* const at = fake::shadow(reinterpret_cast<std::uintptr_t>(device), device_pitch * (height - 1) + width);
  fake::copy(current_device, out ? static_cast<unsigned char*>(to) : at, to_pitch,
             out ? at : static_cast<const unsigned char*>(from), from_pitch, width, height);
  return 0;
}

}  // namespace

#define FAKE_CALL(name)                                           \
  const std::lock_guard lock(fake::world().mutex);                \
  if (const int error = fake::failure_of(name, kLaunchFailure)) { \
    return error;                                                 \
  }

extern "C" {

/// hipPointerAttribute_t of ROCm 6
struct Attributes {
  int type;
  int device;
  void* devicePointer;
  void* hostPointer;
  int isManaged;
  unsigned allocationFlags;
};

int hipPointerGetAttributes(Attributes* attributes, const void* address) {
  FAKE_CALL("hipPointerGetAttributes")
  const auto* const found = fake::find(reinterpret_cast<std::uintptr_t>(address));
  // Of memory that is not HIP's the device is none; what is pinned has an address for both.
  *attributes = {};
  attributes->device = fake::device_of_pinned(reinterpret_cast<std::uintptr_t>(address));
  if (attributes->device >= 0) {
    attributes->devicePointer = attributes->hostPointer = const_cast<void*>(address);
  }
  if (found != nullptr) {
    *attributes = {
        2, found->second.device, const_cast<void*>(address), nullptr, found->second.kind == FAKE_MANAGED ? 1 : 0, 0};
  }
  return 0;
}
int hipGetDevice(int* device) {
  FAKE_CALL("hipGetDevice")
  *device = current_device;
  return 0;
}
int hipSetDevice(int device) {
  FAKE_CALL("hipSetDevice")
  if (device < 0 || device > 1) {
    return kInvalidDevice;
  }
  current_device = device;
  return 0;
}
int hipDeviceSynchronize() {
  FAKE_CALL("hipDeviceSynchronize")
  fake::run(fake::world().work[current_device]);
  fake::run(fake::world().copies[current_device]);
  return 0;
}
int hipStreamSynchronize(void*) {
  FAKE_CALL("hipStreamSynchronize")
  fake::run(fake::world().copies[current_device]);
  return 0;
}
int hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, void*) {
  FAKE_CALL("hipMemcpyAsync")
  return copy_rows(to, bytes, from, bytes, bytes, 1, kind);
}
int hipMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                     std::size_t height, int kind, void*) {
  FAKE_CALL("hipMemcpy2DAsync")
  return copy_rows(to, to_pitch, from, from_pitch, width, height, kind);
}
int hipHostRegister(void* host, std::size_t bytes, unsigned) {
  FAKE_CALL("hipHostRegister")
  return fake::pin(host, bytes, current_device) ? 0 : 712;
}
int hipHostUnregister(void* host) {
  FAKE_CALL("hipHostUnregister")
  return fake::unpin(host) ? 0 : 713;
}
int hipGetLastError() { return 0; }
const char* hipGetErrorName(int error) { return error == kLaunchFailure ? "hipErrorLaunchFailure" : "another error"; }
}
