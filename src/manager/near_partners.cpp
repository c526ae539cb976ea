// SPDX-License-Identifier: BSD-3-Clause
#include "manager/near_partners.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "reprieve/error.hpp"

namespace reprieve::manager {

namespace {

struct PairedHost {
  std::string name;
  std::string domain;
  std::vector<int> ranks;
};

std::vector<PairedHost> group_by_host(const std::vector<std::string>& hosts, const FailureDomains& domains) {
  std::vector<PairedHost> groups;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    auto group = std::ranges::find(groups, hosts[rank], &PairedHost::name);
    if (group == groups.end()) {
      const auto domain = domains.find(hosts[rank]);
      groups.push_back({hosts[rank], domain == domains.end() ? "host " + hosts[rank] : domain->second, {}});
      group = groups.end() - 1;
    }
    group->ranks.push_back(static_cast<int>(rank));
  }
  return groups;
}

const PairedHost& partner_host(const std::vector<PairedHost>& hosts, std::size_t of) {
  for (std::size_t i = 1; i < hosts.size(); ++i) {
    const PairedHost& other = hosts[(of + i) % hosts.size()];
    if (other.domain != hosts[of].domain) {
      return other;
    }
  }
  return hosts[(of + 1) % hosts.size()];
}

}  // namespace

FailureDomains parse_failure_domains(const std::string& text, const std::string& name) {
  FailureDomains domains;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host;
    std::string domain;
    std::string more;
    if (!(words >> host)) {
      continue;
    }
    if (!(words >> domain) || words >> more) {
      throw ConfigError(
          fmt::format("{}, line {}: a host and its failure domain are expected, as in `node17 rack3`", name, number));
    }
    domains[host] = domain;
  }
  return domains;
}

std::vector<int> choose_partners(const std::vector<std::string>& hosts, const FailureDomains& domains) {
  const std::vector<PairedHost> groups = group_by_host(hosts, domains);
  std::vector<int> partners(hosts.size(), -1);
  if (groups.size() < 2) {
    return partners;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::vector<int>& others = partner_host(groups, i).ranks;
    for (std::size_t k = 0; k < groups[i].ranks.size(); ++k) {
      partners[static_cast<std::size_t>(groups[i].ranks[k])] = others[k % others.size()];
    }
  }
  return partners;
}

}  // namespace reprieve::manager
