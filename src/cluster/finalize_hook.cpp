// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/finalize_hook.hpp"

#include <mpi.h>

#include <utility>

#include "cluster/communicator.hpp"
#include "core/log.hpp"

namespace reprieve::cluster {

/// MPI_Finalize deletes the attributes of MPI_COMM_SELF before it does anything else.
struct FinalizeHook::OnDelete {
  static int call(MPI_Comm /*comm*/, int /*keyval*/, void* attribute, void* /*extra*/) {
    auto& hook = *static_cast<FinalizeHook*>(attribute);
    if (std::exchange(hook.armed_, false)) {
      hook.at_finalize_();
    }
    return MPI_SUCCESS;
  }
};

FinalizeHook::FinalizeHook(std::function<void()> at_finalize)
    : at_finalize_(std::move(at_finalize)), keyval_(MPI_KEYVAL_INVALID) {
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, OnDelete::call, &keyval_, nullptr), "MPI_Comm_create_keyval");
  if (const int result = MPI_Comm_set_attr(MPI_COMM_SELF, keyval_, this); result != MPI_SUCCESS) {
    static_cast<void>(MPI_Comm_free_keyval(&keyval_));
    check_mpi(result, "MPI_Comm_set_attr");
  }
}

FinalizeHook::~FinalizeHook() {
  int finalized = 0;
  if (!std::exchange(armed_, false) || !owner_.is_here() || MPI_Finalized(&finalized) != MPI_SUCCESS ||
      finalized != 0) {
    return;
  }
  if (MPI_Comm_delete_attr(MPI_COMM_SELF, keyval_) != MPI_SUCCESS || MPI_Comm_free_keyval(&keyval_) != MPI_SUCCESS) {
    core::log::warning("an attribute of MPI_COMM_SELF could not be removed");
  }
}

}  // namespace reprieve::cluster
