// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Matrices and arrays of Eigen as state. Only for programs that use Eigen: this header includes it.
///
///     state.add_replicated("weights", reprieve::strided_view(weights));
///     state.add_distributed("field", reprieve::strided_view(field), {ny, nx}, {y0, 0});
///
/// The file has two dimensions, rows and columns, whatever the order of storage; vectors have one. The view keeps the
/// address and the size: a matrix that is resized or swapped afterwards is registered with a function that makes the
/// view again at every save and restore, `[&] { return reprieve::strided_view(field); }` instead of the view.

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>

#include "reprieve/layout.hpp"

namespace reprieve {

template <>
inline constexpr bool is_half<Eigen::half> = true;

/// The memory of a matrix, an array, a map, or a block of one of these.
template <class Derived>
requires(Element<typename Derived::Scalar> &&
         (int{Derived::Flags} & Eigen::DirectAccessBit) !=
             0) StridedView<typename Derived::Scalar> strided_view(Eigen::DenseBase<Derived>& matrix) {
  using T = typename Derived::Scalar;
  Derived& dense = matrix.derived();
  const auto bytes = [](Eigen::Index elements) {
    return static_cast<std::ptrdiff_t>(elements) * static_cast<std::ptrdiff_t>(sizeof(T));
  };
  if constexpr (bool{Derived::IsVectorAtCompileTime}) {
    return {dense.data(), {static_cast<std::uint64_t>(dense.size())}, {bytes(dense.innerStride())}};
  } else {
    const bool by_rows = bool{Derived::IsRowMajor};
    return {dense.data(),
            {static_cast<std::uint64_t>(dense.rows()), static_cast<std::uint64_t>(dense.cols())},
            {bytes(by_rows ? dense.outerStride() : dense.innerStride()),
             bytes(by_rows ? dense.innerStride() : dense.outerStride())}};
  }
}

/// The same for what is made on the spot: a block of a matrix.
template <class Derived>
auto strided_view(Eigen::DenseBase<Derived>&& matrix) {
  return strided_view(static_cast<Eigen::DenseBase<Derived>&>(matrix));
}

}  // namespace reprieve
