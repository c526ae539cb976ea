// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/suspicion.hpp"

#include <fmt/format.h>

namespace reprieve::supervisor {

SupervisorEvent describe(const std::filesystem::path& suspect, const Suspicion& found) {
  const std::string file = suspect.filename().string();
  switch (found.outcome) {
    case Suspicion::Outcome::sound:
      return {"warning",
              file +
                  " is sound: something else ends the ranks while they read it, such as a lack of memory; it stays "
                  "where it is",
              {}};
    case Suspicion::Outcome::set_aside:
      return {"set_aside", fmt::format("{} is damaged: set aside as {}", file, found.text), {}};
    case Suspicion::Outcome::needed:
      return {"give_up",
              fmt::format("giving up: {} is damaged, and there is no older checkpoint to take instead: {}",
                          suspect.string(), found.text),
              {}};
    case Suspicion::Outcome::unknown:
      break;
  }
  return {"warning", fmt::format("{} cannot be verified, so it stays where it is: {}", file, found.text), {}};
}

}  // namespace reprieve::supervisor
