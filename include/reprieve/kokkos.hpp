// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Views of Kokkos as state. Only for programs that use Kokkos: this header includes it.
///
///     state.add_distributed("field", reprieve::strided_view(field), {nz, ny, nx}, {z0, 0, 0});   // host memory
///     state.add_distributed("other", reprieve::device_view(other), {nz, ny, nx}, {z0, 0, 0});    // and that of GPUs
///     state.add_replicated_value("weights", reprieve::device_access(weights));                   // any memory
///
/// `strided_view` and `device_view` keep the address alone: the view must outlive the Checkpoint.

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "reprieve/checkpoint.hpp"

namespace reprieve {

/// The memory of a view in any memory space, also one of a device: which space that is, is found by its address when it
/// is saved and restored (apps/guide/devices.md). The elements of a view in the layout of a GPU (LayoutLeft) are copied
/// one by one, unless it has one dimension.
template <class T, class... Properties>
requires(Element<typename Kokkos::View<T, Properties...>::non_const_value_type>) auto device_view(
    const Kokkos::View<T, Properties...>& view) {
  using View = Kokkos::View<T, Properties...>;
  using Value = typename View::non_const_value_type;
  constexpr auto rank = static_cast<std::size_t>(View::rank);
  static_assert(rank > 0, "a view without dimensions: register the value itself");
  StridedView<Value> strided{view.data(), {}, {}};
  for (std::size_t d = 0; d < rank; ++d) {
    strided.extent.push_back(view.extent(d));
    strided.strides_bytes.push_back(static_cast<std::ptrdiff_t>(view.stride(static_cast<unsigned>(d)) * sizeof(Value)));
  }
  return strided;
}

/// The memory of a view that the host can reach, of any layout and any number of dimensions but none.
template <class T, class... Properties>
requires(Element<typename Kokkos::View<T, Properties...>::non_const_value_type>) auto strided_view(
    const Kokkos::View<T, Properties...>& view) {
  using View = Kokkos::View<T, Properties...>;
  static_assert(Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename View::memory_space>::accessible,
                "the host cannot reach this view: see device_view and device_access");
  return device_view(view);
}

namespace detail {

/// Goes through a copy of the view on the host.
template <class View>
class DeviceAccess final : public ValueAccess {
 public:
  explicit DeviceAccess(View view)
      : view_(std::move(view)), host_(Kokkos::create_mirror_view(view_)), access_(make_access(strided_view(host_))) {}
  [[nodiscard]] ElementType type() const override { return access_->type(); }
  [[nodiscard]] Extents shape() const override { return access_->shape(); }
  [[nodiscard]] std::span<const std::byte> bytes() override {
    Kokkos::deep_copy(host_, view_);
    return access_->bytes();
  }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override { return access_->prepare(size); }
  void commit() override {
    access_->commit();
    Kokkos::deep_copy(view_, host_);
  }

 private:
  View view_;
  typename View::HostMirror host_;
  std::unique_ptr<ValueAccess> access_;
};

}  // namespace detail

/// A view in any memory, copied to the host for every save and back after a restore; for `add_replicated_value` and
/// `add_per_rank_value`. The copy on the host is kept.
template <class T, class... Properties>
std::unique_ptr<ValueAccess> device_access(const Kokkos::View<T, Properties...>& view) {
  return std::make_unique<detail::DeviceAccess<Kokkos::View<T, Properties...>>>(view);
}

}  // namespace reprieve
