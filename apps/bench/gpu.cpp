// SPDX-License-Identifier: BSD-3-Clause
#include "gpu.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>

namespace reprieve::bench {

using DevicePointer = std::uintptr_t;  // CUdeviceptr

/// As cuda.h has them.
struct CudaCalls {
  int (*init)(unsigned);
  int (*count)(int*);
  int (*retain)(void**, int);
  int (*set_current)(void*);
  int (*allocate)(DevicePointer*, std::size_t);
  int (*release)(DevicePointer);
  int (*allocate_host)(void**, std::size_t, unsigned);
  int (*release_host)(void*);
  int (*copy_out)(void*, DevicePointer, std::size_t);
  int (*copy_in)(DevicePointer, const void*, std::size_t);
};

namespace {

template <class Function>
bool take(void* library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool take_all(void* library, CudaCalls& calls) {
  return take(library, calls.init, "cuInit") && take(library, calls.count, "cuDeviceGetCount") &&
         take(library, calls.retain, "cuDevicePrimaryCtxRetain") &&
         take(library, calls.set_current, "cuCtxSetCurrent") && take(library, calls.allocate, "cuMemAlloc_v2") &&
         take(library, calls.release, "cuMemFree_v2") && take(library, calls.allocate_host, "cuMemHostAlloc") &&
         take(library, calls.release_host, "cuMemFreeHost") && take(library, calls.copy_out, "cuMemcpyDtoH_v2") &&
         take(library, calls.copy_in, "cuMemcpyHtoD_v2");
}

void check(int result, const char* call) {
  if (result != 0) {
    throw std::runtime_error(std::string(call) + " failed with the error " + std::to_string(result) + " of CUDA");
  }
}

}  // namespace

std::unique_ptr<Gpu> Gpu::open(int number, std::string& why) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);  // this is the program: it loads the driver
  if (library == nullptr) {
    why = "there is no driver of CUDA (libcuda.so.1)";
    return nullptr;
  }
  auto calls = std::make_unique<CudaCalls>();
  int devices = 0;
  if (!take_all(library, *calls) || calls->init(0) != 0 || calls->count(&devices) != 0 || devices == 0) {
    why = "the driver of CUDA finds no device";
    return nullptr;
  }
  void* context = nullptr;
  check(calls->retain(&context, number % devices), "cuDevicePrimaryCtxRetain");
  check(calls->set_current(context), "cuCtxSetCurrent");
  std::unique_ptr<Gpu> gpu(new Gpu);
  gpu->calls_ = std::move(calls);
  return gpu;
}

Gpu::~Gpu() {
  if (memory_ != nullptr) {
    calls_->release(reinterpret_cast<DevicePointer>(memory_));
  }
  if (pinned_ != nullptr) {
    calls_->release_host(pinned_);
  }
}

std::span<std::byte> Gpu::allocate(std::size_t bytes) {
  DevicePointer address = 0;
  check(calls_->allocate(&address, bytes), "cuMemAlloc");
  memory_ = reinterpret_cast<void*>(address);
  return {static_cast<std::byte*>(memory_), bytes};
}

std::span<std::byte> Gpu::allocate_pinned(std::size_t bytes) {
  check(calls_->allocate_host(&pinned_, bytes, 0), "cuMemHostAlloc");
  return {static_cast<std::byte*>(pinned_), bytes};
}

void Gpu::copy_out(std::span<std::byte> host, std::span<const std::byte> device) const {
  check(calls_->copy_out(host.data(), reinterpret_cast<DevicePointer>(device.data()), device.size()), "cuMemcpyDtoH");
}

void Gpu::copy_in(std::span<std::byte> device, std::span<const std::byte> host) const {
  check(calls_->copy_in(reinterpret_cast<DevicePointer>(device.data()), host.data(), host.size()), "cuMemcpyHtoD");
}

}  // namespace reprieve::bench
