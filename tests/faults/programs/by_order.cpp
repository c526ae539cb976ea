// SPDX-License-Identifier: BSD-3-Clause
// faults_by_order ORDERS DIR [reserve|mpio]: opens the directory DIR and does what the files ORDERS/1, ORDERS/2 ...
// say, each as soon as it is there. Rank 0 prints one line for the opening and for each order: "done", or "error CODE
// MESSAGE", the same on all ranks (else "different ..."). Orders:
//   save N            saves checkpoint N
//   hurry             opens the directory again: from now on nothing may take longer than 2 s
//   fail N RANK CALL ERROR OCCURRENCE
//                     saves checkpoint N while that call of the kind CALL on the new file fails on that rank; "no such
//                     call" if it makes fewer
//   restore           restores the newest checkpoint, which must hold the right values
//   starve N RANK     saves checkpoint N while that rank has no descriptor left
//   limit_size RANK   from now on that rank can write no files of more than 64 KiB
//   quit

#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "faults/injector/faulty_calls.hpp"
#include "faults/programs/world.hpp"
#include "reprieve/reprieve.hpp"

namespace {

using namespace reprieve;

void limit(int resource, rlim_t value) {
  rlimit limits{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0) {
    throw std::runtime_error("getrlimit");
  }
  limits.rlim_cur = value;
  if (setrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0) {
    throw std::runtime_error("setrlimit");
  }
}

/// While it lives, this process cannot open anything.
class NoDescriptors {
 public:
  explicit NoDescriptors(bool wanted) {
    if (wanted) {
      limit(RLIMIT_NOFILE, 256);
      for (int taken = ::dup(STDERR_FILENO); taken >= 0; taken = ::dup(STDERR_FILENO)) {
        taken_.push_back(taken);
      }
    }
  }
  ~NoDescriptors() { std::for_each(taken_.begin(), taken_.end(), ::close); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  std::vector<int> taken_;
};

class Run {
 public:
  Run(const char* orders, const char* directory, const std::string& option) : orders_(orders), directory_(directory) {
    const auto rank = static_cast<std::uint64_t>(world_.rank);
    field_.resize(kPart);
    checkpoint_.add_distributed("field", field_.data(),
                                {{kPart * static_cast<std::uint64_t>(world_.size)}, {kPart * rank}, {kPart}});
    options_.reserve = option == "reserve";
    options_.writer = option == "mpio" ? WriterKind::mpio : WriterKind::direct;
    options_.io = FileIo::direct;
    attempt([&] {
      open();
      manager_->restore_or_initialize();
    });
  }

  void obey_all() {
    std::istringstream order;
    std::string word;
    for (int i = 1; word != "quit"; ++i) {
      order = std::istringstream(wait_for_order(i));
      order >> word;
      attempt([&] { obey(word, order); });
    }
  }

 private:
  void open() {
    manager_.reset();
    manager_ = std::make_unique<CheckpointManager>(MPI_COMM_WORLD, checkpoint_, directory_, options_);
  }

  void attempt(const std::function<void()>& operation) {
    std::string outcome = "done";
    has_made_call_ = true;
    try {
      operation();
    } catch (const Error& error) {
      outcome = std::string("error ") + to_string(error.code()) + " " + error.what();
    }
    std::replace(outcome.begin(), outcome.end(), '\n', ' ');
    test::tell(world_, test::agreed(has_made_call_ ? outcome : "no such call"));
  }

  void save_and_fail(std::uint64_t number, std::istringstream& order) {
    test::Fault fault{.path = ".chieftemp/"};
    int victim = 0;
    std::string call;
    order >> victim >> call >> fault.error >> fault.occurrence;
    fault.call = test::call_of(call);
    MPI_Barrier(MPI_COMM_WORLD);
    if (victim == world_.rank) {
      test::arm(fault);
    }
    const auto disarm = [&] {
      int hit = victim == world_.rank && test::disarm().failed > 0 ? 1 : 0;
      MPI_Bcast(&hit, 1, MPI_INT, victim, MPI_COMM_WORLD);
      has_made_call_ = hit == 1;
    };
    try {
      manager_->save(number);
    } catch (const Error&) {
      disarm();
      throw;
    }
    disarm();
  }

  void obey(const std::string& word, std::istringstream& order) {
    std::uint64_t number = 0;
    order >> number;
    if (word == "save") {
      std::fill(field_.begin(), field_.end(), number);
      manager_->save(number);
    } else if (word == "restore") {
      const auto info = manager_->restore_or_initialize();
      const std::uint64_t expected = info ? info->number : 0;
      if (!info || !std::all_of(field_.begin(), field_.end(), [=](auto value) { return value == expected; })) {
        throw std::runtime_error("not the values of the checkpoint");
      }
    } else if (word == "hurry") {
      options_.io_timeout = std::chrono::seconds(2);
      open();
    } else if (word == "fail") {
      save_and_fail(number, order);
    } else if (word == "starve") {
      int victim = 0;
      order >> victim;
      const NoDescriptors starved(victim == world_.rank);
      manager_->save(number);
    } else if (word == "limit_size" && static_cast<int>(number) == world_.rank) {
      limit(RLIMIT_FSIZE, 1U << 16U);
    }
  }

  /// Rank 0 looks, so that all ranks see it at the same time.
  [[nodiscard]] std::string wait_for_order(int number) const {
    const auto file = orders_ / std::to_string(number);
    int there = 0;
    while (there == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      there = std::filesystem::exists(file) ? 1 : 0;
      MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
  }

  static constexpr std::uint64_t kPart = (std::uint64_t{1} << 18U) + 11;  // 2 MiB, not a whole number of pages

  test::World world_;
  std::filesystem::path orders_;
  std::filesystem::path directory_;
  ManagerOptions options_;
  bool has_made_call_ = true;  ///< that was to fail
  Checkpoint checkpoint_;
  std::vector<std::uint64_t> field_;
  std::unique_ptr<CheckpointManager> manager_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: faults_by_order ORDERS DIR [reserve|mpio]\n";
    return 2;
  }
  const std::string option = argc > 3 ? argv[3] : "";
  MPI_Init(&argc, &argv);
  try {
    Run(argv[1], argv[2], option).obey_all();
    if (option == "mpio") {
      std::cout.flush();
      ::_exit(0);  // after errors within MPI-IO, HDF5 may crash in MPI_Finalize
    }
  } catch (const std::exception& error) {
    std::cerr << "faults_by_order: " << error.what() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
