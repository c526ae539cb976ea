// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Several hosts on one machine: network namespaces with host names of their own, on a virtual switch. Needs root.

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace reprieve::test {

/// True if a shell command succeeds.
inline bool succeeds(const std::string& command) {
  Process process({{"sh", "-ec", command}});
  return process.wait(std::chrono::seconds(60)) == 0;
}

/// Three hosts h0, h1 and h2 on a switch, as long as it lives.
class VirtualHosts {
 public:
  VirtualHosts() : prefix_("rt" + std::to_string(::getpid())) {
    const std::string script = R"(
      p=$1
      ip netns add ${p}sw; ip -n ${p}sw link add br0 type bridge; ip -n ${p}sw link set br0 up
      for i in 0 1 2; do
        ip netns add ${p}h$i
        ip link add eth0 netns ${p}h$i type veth peer name p$i netns ${p}sw
        ip -n ${p}sw link set p$i master br0 up
        ip -n ${p}h$i link set lo up
        ip -n ${p}h$i addr add 10.77.0.$((i + 1))/24 dev eth0
        ip -n ${p}h$i link set eth0 up
      done)";
    works_ = ::geteuid() == 0 && succeeds("set -- " + prefix_ + "\n" + script);
  }
  ~VirtualHosts() {
    static_cast<void>(succeeds("for h in sw h0 h1 h2; do ip netns del " + prefix_ + "$h 2>/dev/null || true; done"));
  }
  VirtualHosts(const VirtualHosts&) = delete;
  VirtualHosts& operator=(const VirtualHosts&) = delete;

  [[nodiscard]] bool work() const { return works_; }
  static constexpr const char* kNeeds = "needs root, and a system that allows network namespaces";

  /// What to put before a command so that it runs on host h0.
  [[nodiscard]] std::vector<std::string> on_h0() const {
    return {"ip", "netns", "exec", prefix_ + "h0", "unshare", "--uts", "sh", "-c", R"(hostname "$0" && exec "$@")",
            "h0"};
  }

  /// A program that mpirun calls like ssh. With @p memory, each host has the directory `<memory>/<host>`, which it sees
  /// as @p seen_as.
  void write_agent(const std::filesystem::path& file, const std::filesystem::path& memory = {},
                   const std::filesystem::path& seen_as = {}) const {
    for (const char* const host : {"h0", "h1", "h2"}) {
      if (!memory.empty()) {
        std::filesystem::create_directory(memory / host);
      }
    }
    const std::string mount =
        memory.empty() ? "" : "mount --bind " + (memory / "\"$0\"").string() + " " + seen_as.string() + " && ";
    std::ofstream(file) << "#!/bin/sh\nh=$1; shift\nexec ip netns exec " << prefix_
                        << R"("$h" unshare --uts --mount sh -c 'hostname "$0" && )" << mount
                        << R"(exec sh -c "$1"' "$h" "$*")" << '\n';
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  /// Sockets that @p make opens are on that host, whichever thread uses them. @return whether it was called
  [[nodiscard]] bool inside(int host, const std::function<void()>& make) const {
    const int here = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    const int there = ::open(("/run/netns/" + prefix_ + "h" + std::to_string(host)).c_str(), O_RDONLY | O_CLOEXEC);
    const bool is_there = here >= 0 && there >= 0 && ::setns(there, CLONE_NEWNET) == 0;
    if (is_there) {
      make();
    }
    const bool is_back = !is_there || ::setns(here, CLONE_NEWNET) == 0;
    ::close(here);
    ::close(there);
    return is_there && is_back;
  }

  [[nodiscard]] bool set_cable(int host, const std::string& state) const {
    return succeeds("ip -n " + prefix_ + "sw link set p" + std::to_string(host) + " " + state);
  }

 private:
  std::string prefix_;
  bool works_ = false;
};

}  // namespace reprieve::test
