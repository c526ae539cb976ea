// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The command that starts a program under a launcher: on how many ranks and which hosts, and the same command for
/// others. Pure.
///
/// A launcher is found among the words by its name (launcher.hpp). Its options end where the program begins, as far as
/// that can be told from outside: an option of a launcher takes the next word, unless it is known to take none or two,
/// or that word begins with a dash.

#include <optional>
#include <string>
#include <vector>

#include "supervisor/host_list.hpp"

namespace reprieve::supervisor {

/// The number of ranks: what follows the launcher's -n, -np, --np or --ntasks. Nothing if there is no launcher among
/// the words, or none of these options of it.
[[nodiscard]] std::optional<int> ranks_of(const std::vector<std::string>& command);

/// The same command on @p ranks ranks. Also where number and option are one word: "-n4", "--ntasks=4". Nothing where
/// `ranks_of` says nothing.
[[nodiscard]] std::optional<std::vector<std::string>> with_ranks(std::vector<std::string> command, int ranks);

/// Where a command for Open MPI's mpirun names its hosts.
struct NamedHosts {
  std::vector<std::string> lists;  ///< the values of --host: "h0:2,h1"
  std::vector<std::string> files;  ///< of --hostfile
};

/// Nothing if Open MPI's mpirun is not among the words.
[[nodiscard]] std::optional<NamedHosts> hosts_of(const std::vector<std::string>& command);

/// The same command on these hosts and no others, by one --host. For a command of which `hosts_of` says something.
[[nodiscard]] std::vector<std::string> with_hosts(const std::vector<std::string>& command,
                                                  const std::vector<HostSlots>& hosts);

/// A command that runs @p words on @p host by this launcher, with those options of @p command that say how hosts are
/// reached. For a command of which `hosts_of` says something.
[[nodiscard]] std::vector<std::string> on_host(const std::vector<std::string>& command, const std::string& host,
                                               const std::vector<std::string>& words);

/// The same command, which ends 0.3 s later: mpirun of Open MPI 5.0 can wait for ever for one that ends at once on
/// another host.
[[nodiscard]] std::vector<std::string> with_rest(const std::vector<std::string>& words);

/// A command that runs @p words once on each node of the job, if srun is the launcher of @p command.
[[nodiscard]] std::optional<std::vector<std::string>> on_nodes_of_srun(const std::vector<std::string>& command,
                                                                       const std::vector<std::string>& words);

}  // namespace reprieve::supervisor
