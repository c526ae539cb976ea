// SPDX-License-Identifier: BSD-3-Clause
#include "core/error.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve {

Error::Error(ErrorCode code, const std::string& message, int origin_rank)
    : std::runtime_error(core::with_message_code(message)), code_(code), origin_rank_(origin_rank) {}

const char* to_string(ErrorCode code) noexcept {
  static constexpr const char* kUnknown = "unknown";  // a number from a newer version, or one that is not used
  static constexpr const char* kNames[] = {kUnknown,     "config", "usage",        "io",       "no_space",
                                           "permission", "locked", "corrupt",      "mismatch", "mpi",
                                           "cluster",    kUnknown, "unresponsive", "internal", "no_memory"};
  const auto number = static_cast<std::size_t>(code);
  return number < std::size(kNames) ? kNames[number] : kUnknown;
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

namespace reprieve::core {

namespace {

struct MessageCode {
  std::string_view code;
  std::string_view part;  ///< of the message
};

constexpr MessageCode kMessageCodes[] = {
#include "core/message_codes.inc"
};

constexpr std::string_view kMarkBegin = " [RPV-";
constexpr std::string_view kMarkEnd = "0000]";
constexpr std::size_t kMarkLength = kMarkBegin.size() + kMarkEnd.size();

/// Where the first " [RPV-0101]" is, from @p from on.
std::size_t find_mark(std::string_view text, std::size_t from = 0) {
  const auto is_like = [](char a, char b) { return a == b || (b == '0' && a >= '0' && a <= '9'); };
  std::size_t at = text.find(kMarkBegin, from);
  while (at != std::string_view::npos &&
         !std::ranges::equal(text.substr(at + kMarkBegin.size()).substr(0, kMarkEnd.size()), kMarkEnd, is_like)) {
    at = text.find(kMarkBegin, at + 1);
  }
  return at;
}

/// Several entries may fit: the longest part is the one that says most.
std::string find_code(std::string_view text) {
  MessageCode longest;
  for (const MessageCode& each : kMessageCodes) {
    if (each.part.size() > longest.part.size() && text.find(each.part) != std::string_view::npos) {
      longest = each;
    }
  }
  return std::string(longest.code);
}

/// The text is so short that a string holds it without memory of its own.
Failure no_memory(std::uint64_t bytes) { return {ErrorCode::no_memory, "out of memory", -1, bytes}; }

Failure described(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {known.code(), known.what(), known.origin_rank()};
  } catch (const NoMemory& refused) {
    return no_memory(refused.bytes());
  } catch (const std::bad_alloc&) {
    return no_memory(0);
  } catch (const std::exception& other) {
    return {ErrorCode::internal, other.what()};
  } catch (...) {
    return {ErrorCode::internal, "an exception that is not a std::exception"};
  }
}

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorCode::no_space;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::permission;
    default:
      return ErrorCode::io;
  }
}

/// " (12 bytes and 3 inodes available)" for messages; empty if that is not known.
std::string available_space(const std::filesystem::path& path) {
  struct statvfs status = {};
  if (::statvfs(path.c_str(), &status) != 0 && ::statvfs(path.parent_path().c_str(), &status) != 0) {
    return "";
  }
  return " (" + std::to_string(std::uint64_t{status.f_bavail} * status.f_frsize) + " bytes and " +
         std::to_string(status.f_favail) + " inodes available)";
}

}  // namespace

Failure failure_of(const std::exception_ptr& error) noexcept {
  try {
    return described(error);
  } catch (...) {  // the copy of the message
    return no_memory(0);
  }
}

std::string message_code_in(std::string_view text) {
  const std::size_t at = find_mark(text);
  return at == std::string_view::npos ? "" : std::string(text.substr(at + 2, kMarkLength - 3));
}

std::string with_message_code(std::string text) {
  if (const std::size_t first = find_mark(text); first != std::string::npos) {
    const std::size_t behind = first + kMarkLength;
    for (std::size_t at = find_mark(text, behind); at != std::string::npos; at = find_mark(text, behind)) {
      text.erase(at, kMarkLength);
    }
  } else if (const std::string code = find_code(text); !code.empty()) {
    text.insert(std::min(text.find('\n'), text.size()), " [" + code + "]");
  }
  return text;
}

void throw_failure(const Failure& failure) {
  if (failure.code == ErrorCode::no_memory && failure.origin_rank < 0) {
    throw NoMemory(failure.asked_bytes);
  }
  throw_error(failure.code, failure.message, failure.origin_rank);
}

StorageError storage_error(const std::string& action, const std::filesystem::path& path, int error_number) {
  const bool is_full = code_of(error_number) == ErrorCode::no_space;
  return {code_of(error_number), "cannot " + action + " " + escaped(path.string()) + ": " +
                                     std::generic_category().message(error_number) +
                                     (is_full ? available_space(path) : "")};
}

}  // namespace reprieve::core
