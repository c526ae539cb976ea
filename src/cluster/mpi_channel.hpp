// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Reductions of agreement vectors by MPI_Iallreduce.

#include <memory>

#include "cluster/communicator.hpp"
#include "cluster/step_agreement.hpp"

namespace reprieve::cluster {

/// Uses @p comm, which must outlive it and on which nothing else may be in progress between `post` and completion.
class MpiReductionChannel final : public ReductionChannel {
 public:
  explicit MpiReductionChannel(Communicator& comm);
  ~MpiReductionChannel() override;
  MpiReductionChannel(const MpiReductionChannel&) = delete;
  MpiReductionChannel& operator=(const MpiReductionChannel&) = delete;

  void post(const AgreementVector& mine) override;
  bool test(AgreementVector& result) override;
  AgreementVector wait(std::string_view what, std::chrono::milliseconds limit) override;

 private:
  struct Buffers {
    AgreementVector mine{};
    AgreementVector result{};
  };
  Communicator& comm_;
  std::unique_ptr<Buffers> buffers_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace reprieve::cluster
