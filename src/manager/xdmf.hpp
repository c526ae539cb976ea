// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The text of an XDMF file. Pure.

#include <string>
#include <vector>

#include "reprieve/checkpoint.hpp"
#include "reprieve/xdmf.hpp"

namespace reprieve::manager {

/// An array that XDMF can show.
struct XdmfArray {
  std::string name;
  ElementType type;
  Extents shape;
};

/// Whether XDMF has this type and this number of dimensions.
bool xdmf_can_show(ElementType type, const Extents& shape);

/// One checkpoint.
struct XdmfCheckpoint {
  std::string prefix;
  std::string path;  ///< from the XDMF file to the checkpoint
  double time = 0;
  std::vector<XdmfArray> arrays;
};

/// @param checkpoints  in any order
std::string xdmf_text(const std::vector<XdmfCheckpoint>& checkpoints, const XdmfOptions& options);

}  // namespace reprieve::manager
