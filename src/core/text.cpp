#include "core/text.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <cmath>

namespace reprieve::core {

std::string seconds_text(std::chrono::duration<double> duration) { return fmt::format("{:.3g} s", duration.count()); }

std::string duration_text(std::chrono::duration<double> duration) {
  const long total = std::lround(duration.count());
  if (total < 60) {
    return fmt::format("{} s", total);
  }
  if (total < 3600) {
    return fmt::format("{} min {} s", total / 60, total % 60);
  }
  return fmt::format("{} h {} min", total / 3600, total / 60 % 60);
}

std::string list_text(std::span<const std::uint64_t> numbers) { return fmt::format("[{}]", fmt::join(numbers, ", ")); }

}  // namespace reprieve::core
