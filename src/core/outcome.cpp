#include "core/outcome.hpp"

namespace reprieve::core {

Failure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {known.code(), known.what()};
  } catch (const std::exception& other) {
    return {ErrorCode::internal, other.what()};
  } catch (...) {
    return {ErrorCode::internal, "an exception that is not a std::exception"};
  }
}

}  // namespace reprieve::core
