// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Everything: what a C++ program includes. Beside it are five headers for those who need them: containers.hpp,
/// eigen.hpp, kokkos.hpp, petsc.hpp, tpetra.hpp.

#include "reprieve/annotation.hpp"
#include "reprieve/checkpoint.hpp"
#include "reprieve/checkpoint_manager.hpp"
#include "reprieve/element_type.hpp"
#include "reprieve/error.hpp"
#include "reprieve/layout.hpp"
#include "reprieve/library_files.hpp"
#include "reprieve/manager_options.hpp"
#include "reprieve/memory.hpp"
#include "reprieve/memory_space.hpp"
#include "reprieve/notice.hpp"
#include "reprieve/particles.hpp"
#include "reprieve/platform.hpp"
#include "reprieve/preemption_checkpoint_handler.hpp"
#include "reprieve/preemption_watcher.hpp"
#include "reprieve/record.hpp"
#include "reprieve/run_resilient.hpp"
#include "reprieve/save.hpp"
#include "reprieve/serializer.hpp"
#include "reprieve/settings.hpp"
#include "reprieve/stored_state.hpp"
#include "reprieve/termination_config.hpp"
#include "reprieve/value_access.hpp"
#include "reprieve/version.hpp"
#include "reprieve/version_details.hpp"
#include "reprieve/xdmf.hpp"
