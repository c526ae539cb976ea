// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/save.hpp"

namespace reprieve {

const char* to_string(SaveReason::Kind kind) noexcept {
  switch (kind) {
    case SaveReason::Kind::user:
      return "user";
    case SaveReason::Kind::periodic:
      return "periodic";
    case SaveReason::Kind::preemption:
      return "preemption";
  }
  return "unknown";
}

}  // namespace reprieve
