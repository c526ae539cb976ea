// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/mpi_channel.hpp"

#include "core/log.hpp"

namespace reprieve::cluster {

MpiReductionChannel::MpiReductionChannel(Communicator& comm) : comm_(comm), buffers_(std::make_unique<Buffers>()) {}

MpiReductionChannel::~MpiReductionChannel() {
  if (request_ != MPI_REQUEST_NULL) {
    // Ranks are missing: MPI may still write into the buffers, so they are left to it.
    core::log::debug("a reduction was left incomplete");
    static_cast<void>(buffers_.release());
  }
}

void MpiReductionChannel::post(const AgreementVector& mine) {
  comm_.check_usable("step boundary");
  buffers_->mine = mine;
  check_mpi(MPI_Iallreduce(buffers_->mine.data(), buffers_->result.data(), static_cast<int>(mine.size()), MPI_INT64_T,
                           MPI_MAX, comm_.handle(), &request_),
            "MPI_Iallreduce");
}

bool MpiReductionChannel::test(AgreementVector& result) {
  int done = 0;
  check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done != 0) {
    result = buffers_->result;
  }
  return done != 0;
}

AgreementVector MpiReductionChannel::wait(std::string_view what, std::chrono::milliseconds limit) {
  comm_.wait(request_, what, limit);
  return buffers_->result;
}

}  // namespace reprieve::cluster
