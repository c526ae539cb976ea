// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints without a time loop: reprieve_manager_...; what a run and its variables are about:
// reprieve_add_constant_...

#include <algorithm>
#include <iterator>

#include "bindings/handles.hpp"
#include "reprieve/error.hpp"

namespace reprieve::bindings {
namespace {

std::string text_or_nothing(const char* text) { return text == nullptr ? "" : text; }

std::vector<std::string> names_of_dimensions(const std::string& name, int dimensions, const char* const* dims) {
  if (dimensions < 0 || (dimensions > 0 && dims == nullptr)) {
    throw UsageError("variable '" + name + "': pass the names of its " + std::to_string(dimensions) +
                     " dimensions, or 0 and NULL");
  }
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(dimensions));
  for (int d = 0; d < dimensions; ++d) {
    names.push_back(checked_text(dims[d], "name of a dimension"));
  }
  return names;
}

/// Shows whether a node-local copy was taken. @param result  may be null
void show(bool was_taken, int* result) {
  if (result != nullptr) {
    *result = was_taken ? 1 : 0;
  }
}

}  // namespace
}  // namespace reprieve::bindings

using namespace reprieve;            // NOLINT: the C interface of that namespace
using namespace reprieve::bindings;  // NOLINT

extern "C" {

int reprieve_manager_open(MPI_Comm comm, reprieve_checkpoint* checkpoint, const char* directory,
                          const reprieve_config* config, reprieve_manager** manager) {
  return guarded([&] {
    if (manager != nullptr) {
      *manager = nullptr;
    }
    OpenArguments arguments = agreed_arguments(comm, checkpoint, directory, config, manager != nullptr);
    result_at(manager, "manager") = new reprieve_manager{
        checkpoint->use,
        std::make_unique<CheckpointManager>(comm, checkpoint->state, arguments.directory, arguments.settings.manager)};
  });
}

int reprieve_manager_close(reprieve_manager** manager) {
  return guarded(
      [&] { const std::unique_ptr<reprieve_manager> owner(std::exchange(result_at(manager, "manager"), nullptr)); });
}

int reprieve_manager_save(reprieve_manager* manager, uint64_t number) {
  return guarded([&] { checked(manager, "manager").manager->save(number); });
}

int reprieve_manager_save_next(reprieve_manager* manager, uint64_t* number) {
  return guarded([&] {
    const uint64_t taken = checked(manager, "manager").manager->save().number;
    if (number != nullptr) {
      *number = taken;
    }
  });
}

int reprieve_manager_save_in_background(reprieve_manager* manager, uint64_t number) {
  return guarded([&] {
    CheckpointManager::SaveRequest request;
    request.number = number;
    checked(manager, "manager").manager->save_in_background(request);
  });
}

int reprieve_manager_background_save_pending(const reprieve_manager* manager) {
  return answer_of([&] { return checked(manager, "manager").manager->background_save_pending(); });
}

int reprieve_manager_background_save_written(const reprieve_manager* manager) {
  return answer_of([&] { return checked(manager, "manager").manager->background_save_written(); });
}

int reprieve_manager_finish_background_save(reprieve_manager* manager) {
  return guarded([&] { checked(manager, "manager").manager->finish_background_save(); });
}

int reprieve_manager_local_copy(reprieve_manager* manager, uint64_t number, int* taken) {
  return guarded([&] { show(checked(manager, "manager").manager->local_copy(number), taken); });
}

int reprieve_manager_local_copy_next(reprieve_manager* manager, int* taken) {
  return guarded([&] { show(checked(manager, "manager").manager->local_copy(), taken); });
}

int reprieve_manager_restore_latest(reprieve_manager* manager, int* restored, reprieve_checkpoint_info* info) {
  return guarded([&] {
    reprieve_manager& open = checked(manager, "manager");
    open.shown = open.manager->restore_or_initialize();
    show(open.shown, restored, info);
  });
}

int reprieve_manager_restore(reprieve_manager* manager, const char* file) {
  return guarded([&] { checked(manager, "manager").manager->restore(checked_text(file, "file")); });
}

int reprieve_manager_latest(reprieve_manager* manager, int* found, reprieve_checkpoint_info* info) {
  return guarded([&] {
    reprieve_manager& open = checked(manager, "manager");
    open.shown = open.manager->latest();
    show(open.shown, found, info);
  });
}

int reprieve_manager_checkpoints(reprieve_manager* manager, size_t* count, const reprieve_checkpoint_info** list) {
  return guarded([&] {
    result_at(count, "count") = 0;
    result_at(list, "list") = nullptr;
    reprieve_manager& open = checked(manager, "manager");
    open.listed = open.manager->checkpoints();
    open.list.clear();
    std::transform(open.listed.begin(), open.listed.end(), std::back_inserter(open.list), shown);
    *count = open.list.size();
    *list = open.list.data();
  });
}

int reprieve_add_constant(reprieve_checkpoint* checkpoint, const char* name, const char* value) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_constant(key, std::string_view(checked_text(value, "value")));
  });
}

int reprieve_add_constant_integer(reprieve_checkpoint* checkpoint, const char* name, int64_t value) {
  return registering(checkpoint, name,
                     [&](Checkpoint& state, const std::string& key) { state.add_constant(key, value); });
}

int reprieve_add_constant_real(reprieve_checkpoint* checkpoint, const char* name, double value) {
  return registering(checkpoint, name,
                     [&](Checkpoint& state, const std::string& key) { state.add_constant(key, value); });
}

int reprieve_add_constant_file(reprieve_checkpoint* checkpoint, const char* name, const char* file) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.add_constant_file(key, checked_text(file, "file"));
  });
}

int reprieve_annotate(reprieve_checkpoint* checkpoint, const char* name, const char* units, const char* description,
                      int dimensions, const char* const* dims) {
  return registering(checkpoint, name, [&](Checkpoint& state, const std::string& key) {
    state.annotate(key,
                   {text_or_nothing(units), text_or_nothing(description), names_of_dimensions(key, dimensions, dims)});
  });
}

}  // extern "C"
