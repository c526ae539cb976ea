// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/error.hpp"

namespace reprieve {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::config:
      return "config";
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::io:
      return "io";
    case ErrorCode::no_space:
      return "no_space";
    case ErrorCode::permission:
      return "permission";
    case ErrorCode::locked:
      return "locked";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::mpi:
      return "mpi";
    case ErrorCode::cluster:
      return "cluster";
    case ErrorCode::unresponsive:
      return "unresponsive";
    case ErrorCode::internal:
      return "internal";
    case ErrorCode::no_memory:
      return "no_memory";
  }
  return "unknown";  // a number from a newer version
}

void throw_error(ErrorCode code, const std::string& message, int origin_rank) {
  switch (code) {
    case ErrorCode::config:
      throw ConfigError(message, origin_rank);
    case ErrorCode::usage:
      throw UsageError(message, origin_rank);
    case ErrorCode::io:
    case ErrorCode::no_space:
    case ErrorCode::permission:
    case ErrorCode::locked:
      throw StorageError(code, message, origin_rank);
    case ErrorCode::corrupt:
      throw CorruptError(message, origin_rank);
    case ErrorCode::mismatch:
      throw MismatchError(message, origin_rank);
    case ErrorCode::mpi:
      throw MpiError(message, origin_rank);
    case ErrorCode::cluster:
      throw ClusterError(message, origin_rank);
    case ErrorCode::unresponsive:
      throw UnresponsiveError(message, {}, origin_rank);
    case ErrorCode::internal:
    case ErrorCode::no_memory:
      break;
  }
  throw Error(code, message, origin_rank);
}

}  // namespace reprieve
