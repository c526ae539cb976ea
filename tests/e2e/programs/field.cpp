// SPDX-License-Identifier: BSD-3-Clause
// e2e_field DIR STEPS STEP_MS [KEY=VALUE...]: a field whose values do not depend on the number of ranks, saved as it
// goes. Rank 0 prints "step N" after each step, and "digest D" and "handled N" at the end.
//
//   save_every=N, background=1, keep=N       checkpoints
//   files=1                                  new files each time, and with each checkpoint a file of a save function
//   local=DIR, partner=1, emergency_ms=M     node-local copies after each millisecond
//   hosts=1                                  each rank is on a host of its own
//   io=direct                                past the page cache
//   check_restored=1                         every restored element is compared with what it must be
//   peer_timeout_ms, io_timeout_ms, lock_timeout_ms     time limits
//   elements=N                               of the field, 8 bytes each
//   columns=N, turn=N                        as an array of so many columns; the ranks have the pieces in turn
//   pieces=1                                 split by columns, so that the ranks exchange small pieces
//   own=1                                    each rank has a variable of its own
//   deaf=1                                   does not look at the environment
//   late=MS        rank 1 starts so late, and a signal until then kills it, as before main
//   signals=usr2   only SIGUSR2 is a notice
//   own_handlers=1   the program has signal handlers of its own, whose calls are "handled"
//   keep_running=N   the first N preemptions are saved for, and then the program continues
//   late_init=1    initialises part of its state after the restore
//   series=FILE    rank 0 notes each step, and writes all at the end; with forgets=1 they are not in the state
//   hidden=1       each step changes a block and a global variable that are not in the state, and one variable never
//                  changes
//   print=N        N more bytes of output in every step of rank 0
//   lag=1          each step uses what the one before has left beside the state, as ghost cells that are exchanged last
//   random=1       with a source that is another one in each start
//   rounding=1     the last bits of the sum depend on the number of ranks
//   no_finish=1    without finish() at the end
//   hang_after=N   after N steps of this start comes one that never ends; the ranks say so in DIR/hangs.RANK
//
// Of the last rank, or of the one that KEY_rank says:
//   stop_at=N        it stops itself (SIGSTOP) in step N
//   stop_in_save=N   ... in the save function of the save after step N (stop_rank)
//   busy_at=N, busy_ms=M   it computes for so long in step N
//   fork_at=N        it forks a child in step N: see fork_child
//   exec_at=N        it starts a program in step N that lists its open files in DIR/../open_files
//   die_at=N         it kills itself in step N, in the first start only (a file in DIR remembers it)
//   always_die_at=N  in every start
//   die_reading=N    it kills itself while it restores the state of step N
//   die_at_end=1     it kills itself after finish(), in the first start only
//   throw_at=N       it throws in step N
//   notice_at_end=1  it gets SIGTERM after its last step; with notice_at_begin=1 in the first step of each start

#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprieve/reprieve.hpp"

namespace {

using Options = std::map<std::string, std::string>;

/// Kills the process if it is restored at a certain step.
struct Mine {
  std::uint64_t step = 0;
  std::uint64_t deadly_step = 0;
};

}  // namespace

template <>
struct reprieve::Serializer<Mine> {
  static std::vector<std::byte> save(const Mine& mine) {
    std::vector<std::byte> bytes(sizeof mine.step);
    std::memcpy(bytes.data(), &mine.step, sizeof mine.step);
    return bytes;
  }
  static void load(Mine& mine, std::span<const std::byte> bytes) {
    std::memcpy(&mine.step, bytes.data(), sizeof mine.step);
    if (mine.deadly_step != 0 && mine.step == mine.deadly_step) {
      ::raise(SIGKILL);
    }
  }
};

namespace {

std::array<double, 512> hidden_counts{};

/// Signals that reached the program's own handler.
volatile std::sig_atomic_t handled = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void count_signal(int /*signal*/) { handled = handled + 1; }

/// Whether each rank says that it is on a host of its own.
bool hosts_are_played = false;

class Field {
 public:
  Field(std::filesystem::path directory, std::uint64_t step_ms, Options options)
      : directory_(std::move(directory)), step_time_(step_ms), options_(std::move(options)) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    const auto size = static_cast<std::uint64_t>(size_);
    piece_ = (static_cast<std::uint64_t>(rank_) + number("turn")) % size;
    first_ = elements_ * piece_ / size;
    values_.resize(elements_ * (piece_ + 1) / size - first_);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = place(i);
    }
    own_.assign(10 + static_cast<std::size_t>(rank_), 1);
    if (options_.contains("random")) {
      source_ = std::random_device()();
    }
  }

  void run(std::uint64_t steps) {
    if (rank_ == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(number("late")));
    }
    reprieve::Checkpoint state;
    add_to(state);
    reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state, directory_, termination(), checkpoints());
    handler_ = &handler;
    if (number("check_restored") != 0) {
      check_values();
    }
    if (options_.contains("late_init")) {
      values_.assign(values_.size(), 1);
    }
    const std::string chatter(number("print"), '.');
    const std::uint64_t endless = handler.total_run_calls() + number("hang_after", steps);
    while (handler.total_run_calls() < steps) {
      if (handler.total_run_calls() == endless) {
        handler.run([&] { hang(); });
      }
      handler.run([&] { step(); });
      if (std::exchange(is_first_, false) && options_.contains("notice_at_begin") && concerned("notice_rank")) {
        ::raise(SIGTERM);
      }
      if (rank_ == 0) {
        std::cout << "step " << handler.total_run_calls() << chatter << std::endl;
      }
    }
    if (options_.contains("notice_at_end") && concerned("notice_rank")) {
      ::raise(SIGTERM);
    }
    if (!options_.contains("no_finish")) {
      handler.finish();
    }
    if (options_.contains("die_at_end") && concerned("die_rank")) {
      die_once();
    }
    print_result();
  }

 private:
  [[nodiscard]] std::uint64_t number(const std::string& key, std::uint64_t otherwise = 0) const {
    const auto found = options_.find(key);
    return found == options_.end() ? otherwise : std::stoull(found->second);
  }

  /// Whether this is the rank that an option is about (the last one, unless it says otherwise).
  [[nodiscard]] bool concerned(const std::string& key) const {
    return static_cast<std::uint64_t>(rank_) == number(key, static_cast<std::uint64_t>(size_) - 1);
  }

  /// Where an element of this rank lies in the whole field.
  [[nodiscard]] std::uint64_t place(std::uint64_t i) const {
    const std::uint64_t width = columns_ / static_cast<std::uint64_t>(size_);
    return in_pieces_ ? i / width * columns_ + piece_ * width + i % width : first_ + i;
  }

  [[nodiscard]] reprieve::DistributedLayout layout() const {
    const std::uint64_t width = columns_ / static_cast<std::uint64_t>(size_);
    if (in_pieces_) {
      return {{elements_ / columns_, columns_}, {0, piece_ * width}, {elements_ / columns_, width}};
    }
    if (options_.contains("columns")) {
      return {{elements_ / columns_, columns_}, {first_ / columns_, 0}, {values_.size() / columns_, columns_}};
    }
    return {{elements_}, {first_}, {values_.size()}};
  }

  void add_to(reprieve::Checkpoint& state) {
    state.add_distributed("values", values_.data(), layout());
    if (options_.contains("own")) {
      state.add_per_rank("own", own_);
    }
    state.add_replicated("step", step_);
    state.add_replicated("sum", sum_);
    if (options_.contains("die_reading")) {
      mine_.deadly_step = concerned("die_rank") ? number("die_reading") : 0;
    }
    state.add_replicated("mine", mine_);
    if (options_.contains("series") && !options_.contains("forgets")) {
      state.add_per_rank("series", series_);
    }
    if (options_.contains("hidden")) {
      state.add_replicated("calm", calm_);
      hidden_.resize(4000);
    }
  }

  reprieve::TerminationConfig termination() {
    reprieve::TerminationConfig config;
    if (options_.contains("signals")) {
      config.signals = std::vector{SIGUSR2};
    }
    config.save_every_steps = number("save_every");
    config.peer_timeout = std::chrono::milliseconds(number("peer_timeout_ms", 120'000));
    if (options_.contains("stop_in_save")) {
      config.save_fn = [this](const reprieve::SaveFnContext& /*context*/) {
        if (step_ == number("stop_in_save") && concerned("stop_rank")) {
          ::raise(SIGSTOP);
        }
      };
    }
    if (options_.contains("files")) {
      config.save_fn = [](const reprieve::SaveFnContext& context) {
        std::ofstream(context.write_directory / "notes.txt") << "of checkpoint " << context.number;
      };
    }
    if (options_.contains("keep_running")) {
      config.exit_fn = [this, left = number("keep_running")](const reprieve::ExitContext& context) mutable {
        if (left == 0) {
          reprieve::leave_together(context);
        }
        --left;
      };
    }
    return config;
  }

  [[nodiscard]] reprieve::ManagerOptions checkpoints() const {
    reprieve::ManagerOptions options;
    options.read_environment = !options_.contains("deaf");
    options.background = number("background") != 0;
    options.max_to_keep = number("keep", 3);
    options.io_timeout = std::chrono::milliseconds(number("io_timeout_ms", 120'000));
    options.recycle = !options_.contains("files");
    options.io = options_.contains("io") ? reprieve::FileIo::direct : options.io;
    if (options_.contains("local")) {
      options.local_directory = options_.at("local");
      options.local_every = std::chrono::milliseconds(1);
      options.local_partner = number("partner") != 0;
      options.emergency_save_after = std::chrono::milliseconds(number("emergency_ms", 1000));
    }
    options.lock_timeout = std::chrono::milliseconds(number("lock_timeout_ms", 30'000));
    return options;
  }

  /// What an element is after a step, if it was @p value before.
  [[nodiscard]] std::uint64_t next(std::uint64_t value, std::uint64_t step, std::size_t i) const {
    return value * 6364136223846793005ULL + step + place(i);
  }
  static double next_sum(double sum, std::uint64_t step) { return sum * 1.000001 + static_cast<double>(step); }

  /// Computes all steps again: a state that was put together from two checkpoints cannot pass.
  void check_values() const {
    double sum = 0;
    for (std::uint64_t step = 1; step <= step_; ++step) {
      sum = next_sum(sum, step);
    }
    bool right = sum == sum_;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      std::uint64_t value = place(i);
      for (std::uint64_t step = 1; step <= step_; ++step) {
        value = next(value, step, i);
      }
      right = right && value == values_[i];
    }
    if (!right) {
      std::cout << "wrong element on rank " << rank_ << " at step " << step_ << std::endl;
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
  }

  void step() {
    ++step_;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = next(values_[i], step_, i);
    }
    for (std::uint64_t& value : own_) {
      value = value * 6364136223846793005ULL + step_;
    }
    sum_ = next_sum(sum_, step_) * (options_.contains("rounding") ? 1 + 1e-13 * size_ : 1);
    values_[0] += lag_ + source_;
    lag_ = options_.contains("lag") ? values_[0] : 0;
    mine_.step = step_;
    series_.push_back(step_);
    for (double& value : hidden_) {
      value += 1;
    }
    hidden_counts[step_ % hidden_counts.size()] += hidden_.empty() ? 0 : 1;
    disturb();
    std::this_thread::sleep_for(step_time_);
  }

  /// A step that does not end. Signals are heard meanwhile.
  [[noreturn]] void hang() const {
    std::ofstream(directory_ / ("hangs." + std::to_string(rank_))) << step_;
    for (;;) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
  }

  void disturb() const {
    if (step_ == number("stop_at") && concerned("stop_rank")) {
      ::raise(SIGSTOP);
    }
    if (step_ == number("busy_at") && concerned("busy_rank")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(number("busy_ms")));
    }
    if (step_ == number("fork_at") && concerned("fork_rank")) {
      fork_child();
    }
    if (step_ == number("exec_at") && concerned("exec_rank")) {
      const std::string command = "ls -l /proc/self/fd > " + (directory_.parent_path() / "open_files").string();
      if (std::system(command.c_str()) != 0) {
        throw std::runtime_error("cannot list open files");
      }
    }
    if (concerned("die_rank")) {
      die();
    }
  }

  void die() const {
    if (step_ == number("always_die_at")) {
      ::raise(SIGKILL);
    }
    if (step_ == number("die_at")) {
      die_once();
    }
    if (step_ == number("throw_at")) {
      throw std::runtime_error("the pressure is negative");
    }
  }

  void die_once() const {
    const auto died = directory_ / "died";
    if (!std::filesystem::exists(died)) {
      std::ofstream(died) << "x";
      ::raise(SIGKILL);
    }
  }

  /// The child lives on without its parent. It unwinds its copies of all objects, makes calls that it should not, and
  /// tells what it saw in DIR/../child.
  void fork_child() const {
    const pid_t child = ::fork();
    if (child != 0) {
      return;
    }
    close_connections();
    std::ofstream report(directory_.parent_path() / "child");
    try {
      handler_->manager().save(77777);
      report << "saved\n";
    } catch (const reprieve::UsageError& error) {
      report << "refused: " << error.what() << '\n';
    }
    try {
      handler_->manager().~CheckpointManager();
      handler_->~PreemptionCheckpointHandler();
    } catch (const std::exception& error) {
      report << "unwinding: " << error.what() << '\n';
    }
    report << "parent " << ::getppid() << "\npid " << ::getpid() << std::endl;
    std::this_thread::sleep_for(std::chrono::seconds(300));  // until a SIGTERM ends it
    report << "survived" << std::endl;
    _exit(0);
  }

  /// mpirun waits until nobody holds the pipes and sockets of a dead rank. Files stay open: they are what is tested.
  static void close_connections() {
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int descriptor = 0; descriptor < 1024; ++descriptor) {
      struct stat status = {};
      if (::fstat(descriptor, &status) == 0 && (S_ISSOCK(status.st_mode) || S_ISFIFO(status.st_mode))) {
        ::dup2(nothing, descriptor);
      }
    }
  }

  void print_result() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      sum += values_[i] * (2 * place(i) + 1);
    }
    if (options_.contains("own")) {
      sum += (static_cast<std::uint64_t>(rank_) + 2) * own_.back();
    }
    std::uint64_t total = 0;
    MPI_Reduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank_ == 0 && options_.contains("series")) {
      std::ofstream file(options_.at("series"));
      for (const std::uint64_t step : series_) {
        file << step << '\n';
      }
    }
    if (rank_ == 0) {
      std::cout << "digest " << total << ' ' << std::hexfloat << sum_ << std::endl;
      std::cout << "handled " << handled << std::endl;
    }
  }

  std::filesystem::path directory_;
  std::chrono::milliseconds step_time_;
  Options options_;
  bool in_pieces_ = options_.contains("pieces");  // asked for at each element
  int rank_ = 0;
  int size_ = 1;
  std::uint64_t elements_ = number("elements", 1000);
  std::uint64_t columns_ = number("columns", 1);
  std::uint64_t piece_ = 0;  ///< of the field
  std::uint64_t first_ = 0;
  bool is_first_ = true;  ///< step of this start
  std::vector<std::uint64_t> own_;
  std::vector<std::uint64_t> values_;
  std::uint64_t step_ = 0;
  double sum_ = 0;
  std::uint64_t lag_ = 0;
  std::uint64_t source_ = 0;
  Mine mine_;
  std::vector<std::uint64_t> series_;
  std::vector<double> hidden_;
  std::vector<double> calm_ = std::vector<double>(200, 1.0);
  reprieve::PreemptionCheckpointHandler* handler_ = nullptr;
};

}  // namespace

/// In place of MPI's own, which the library asks for the name of its host.
extern "C" int MPI_Get_processor_name(char* name, int* length) {
  if (!hosts_are_played) {
    return PMPI_Get_processor_name(name, length);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  *length = std::snprintf(name, MPI_MAX_PROCESSOR_NAME, "node%d", rank);
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: e2e_field DIR STEPS STEP_MS [KEY=VALUE...]\n";
    return 2;
  }
  Options options;
  for (int i = 4; i < argc; ++i) {
    const std::string text = argv[i];
    options[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  if (options.contains("own_handlers")) {
    struct sigaction action {};
    action.sa_handler = count_signal;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGUSR1, &action, nullptr);
  }
  hosts_are_played = options.contains("hosts");
  if (!options.contains("late") && !options.contains("signals")) {
    reprieve::watch_signals();
  }
  MPI_Init(&argc, &argv);
  try {
    Field(argv[1], std::stoull(argv[3]), options).run(std::stoull(argv[2]));
  } catch (const std::exception& error) {
    std::cerr << "e2e_field: " << error.what() << std::endl;
    return 3;  // without MPI_Finalize, which would wait for ranks that are gone
  }
  MPI_Finalize();
  return 0;
}
