// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/command.hpp"

#include <fcntl.h>
#include <signal.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "reprieve/error.hpp"

namespace reprieve::supervisor {

std::vector<std::string> with_all_output(const std::vector<std::string>& command) {
  std::vector<std::string> words{"sh", "-c", "exec \"$@\" 2>&1", "sh"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

Command::Command(const std::vector<std::string>& arguments, const EnvironmentChanges& environment) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw Error(ErrorCode::io, fmt::format("cannot make a pipe: {}", std::generic_category().message(errno)));
  }
  pipe_ = ends[0];
  try {
    pid_ = spawn({.arguments = arguments, .environment = environment, .output = ends[1]});
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
}

Command::~Command() { ::close(pipe_); }

void Command::kill_all() const {
  if (code_) {
    return;  // the number may be that of another process by now
  }
  std::vector<ProcessInfo> processes = descendants_of(pid_);
  processes.insert(processes.begin(),
                   ProcessInfo{pid_, ::getpid(), ""});  // the first to end, so that it starts no others
  for (const ProcessInfo& process : processes) {
    static_cast<void>(::kill(process.pid, SIGKILL));  // it may have ended
  }
}

void Command::on_ended(const EndedChild& child) {
  if (child.pid != pid_ || code_) {
    return;
  }
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(pipe_, buffer.data(), buffer.size())) > 0;) {
    output_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  code_ = child.code;
}

}  // namespace reprieve::supervisor
