// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/writers.hpp"

#include <algorithm>

#include "cluster/communicator.hpp"
#include "reprieve/error.hpp"

namespace reprieve::storage {

std::unique_ptr<Writer> make_direct_or_two_phase_writer(cluster::Communicator& comm, const WritePlan& plan,
                                                        const std::string& what) {
  return exchange_is_worth_it(plan, comm.size()) ? make_two_phase_writer(comm, what) : make_direct_writer();
}

const WriterRow& row_of(WriterKind kind) {
  const auto* const found =
      std::find_if(kWriterRows.begin(), kWriterRows.end(), [kind](const WriterRow& row) { return row.kind == kind; });
  if (found == kWriterRows.end()) {
    throw Error(ErrorCode::internal, "there is no writer " + std::to_string(static_cast<int>(kind)));
  }
  return *found;
}

}  // namespace reprieve::storage
