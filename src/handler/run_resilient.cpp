// SPDX-License-Identifier: BSD-3-Clause
// Recovery in place. One life of the working ranks after the other:
//
//  1. The working ranks are the first ones of those that live, as many as at first if there are enough.
//  2. They run the body. A rank that learns of a death, by MPI or from another rank, leaves it by an exception and
//     revokes the communicator of the body. So every other working rank leaves it too, wherever it waits. So does a
//     rank that has waited too long. All of them end the ranks of their hosts that are stopped.
//  3. All ranks that live agree on whether every body came to its end, and none failed. Spare ranks have waited here,
//     and say yes. The agreement has the same result on all of them whoever dies meanwhile.
//  4. If so it is over. A rank that died after its body had ended is of no consequence. If a body failed while no rank
//     had died, all ranks throw. If any rank has saved for a notice, all leave.
//  5. If not, the ranks that live make a communicator of theirs, and begin at 1. A rank that dies anywhere on that way
//     is found in 2 or 3 of the next life.
//
// If every working rank is gone, nobody says no: the spare ranks cannot know what the others reached, and leave with
// the code that starts the job again.

#include "reprieve/run_resilient.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/communicator.hpp"
#include "cluster/job_end.hpp"
#include "cluster/lost_ranks.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/threads.hpp"
#include "handler/exit.hpp"
#include "reprieve/error.hpp"
#include "reprieve/termination_config.hpp"

namespace reprieve {

namespace {

using cluster::check_mpi;
using cluster::life;

/// What MPI calls for an error in a communicator of the body.
void on_mpi_error(MPI_Comm* comm, int* result, ...) {  // NOLINT(cert-dcl50-cpp): its type is MPI's
  if (cluster::is_loss(*result)) {
    cluster::revoke(*comm);
  }
  try {
    check_mpi(*result, "MPI");
  } catch (const MpiError& error) {  // MPI's own handler ends the job too
    core::log::error("{}", error.what());
    abort_job(*comm, 1);
  }
}

/// The same for a body without exceptions: MPI returns the code.
void on_returned_error(MPI_Comm* comm, int* result, ...) {  // NOLINT(cert-dcl50-cpp)
  if (cluster::is_loss(*result)) {
    cluster::revoke(*comm);
  }
}

/// A write to a connection whose other end died raises SIGPIPE, which would end this rank too (seen with Open
/// MPI 5.0.7). It is caught and not ignored: programs that this one starts get the default action again.
void survive_closed_connections() {
  struct sigaction action {};
  if (!cluster::survives_lost_ranks() || ::sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) {
    return;
  }
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  if (::sigaction(SIGPIPE, &action, nullptr) != 0) {
    throw UsageError(fmt::format("cannot watch {}: {}", "SIGPIPE", std::strerror(errno)));
  }
}

/// The ranks of the job that live, and the body that the working ones of them run.
class Survivors {
 public:
  Survivors(MPI_Comm comm, const ResilientOptions& options) : options_(options) {
    check_mpi(MPI_Comm_dup(comm, &all_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_create_errhandler(options.errors_return ? on_returned_error : on_mpi_error, &handler_),
              "MPI_Comm_create_errhandler");
    neighbours_ = handler::neighbours(all_);
    wanted_ = size() - options.spare_ranks;
    if (options.spare_ranks < 0 || options.min_ranks < 1 || wanted_ < options.min_ranks) {
      throw UsageError(fmt::format("{} spare ranks of {} leave {} to work, and min_ranks is {}", options.spare_ranks,
                                   size(), wanted_, options.min_ranks));
    }
  }

  ~Survivors() { life() = {}; }
  Survivors(const Survivors&) = delete;
  Survivors& operator=(const Survivors&) = delete;

  /// Steps 1 to 3. True if it is over.
  bool live(const std::function<void(MPI_Comm)>& body) {
    enum : int { kEnded = 1, kNotFailed = 2, kNoNotice = 4 };
    const Result mine = run(body);
    const int all = cluster::agree_among_living(all_, (mine == Result::ended ? kEnded : 0) |
                                                          (mine == Result::failed ? 0 : kNotFailed) |
                                                          (life().is_saved_for_notice ? 0 : kNoNotice));
    if (failure_) {
      throw_failure();
    }
    if ((all & kNotFailed) == 0) {
      throw ClusterError("the program failed on another rank");
    }
    const bool is_saved_for_notice = (all & kNoNotice) == 0;
    if (is_saved_for_notice && mine == Result::lost) {
      leave("the state is saved for a notice, and ranks have died since");
    }
    return (all & kEnded) != 0 || is_saved_for_notice;
  }

  /// Step 5.
  void continue_without_lost() {
    const int before = size();
    shrink();
    if (rank() == 0) {
      core::log::warning("{} of {} ranks have died; {} continue", before - size(), before, std::min(wanted_, size()));
      if (std::getenv("OMPI_MCA_async_mpi_finalize") == nullptr) {
        core::log::warning("MPI_Finalize may hang now: start mpirun with --mca async_mpi_finalize 1");
      }
      if (std::getenv("OMPI_MCA_coll") == nullptr) {
        core::log::warning("Open MPI may crash now if there are several hosts: start mpirun with --mca coll ^han");
      }
    }
    if (size() < options_.min_ranks) {
      leave(fmt::format("{} ranks are left, of {} that are needed", size(), options_.min_ranks).c_str());
    }
  }

  /// Step 4. True on a rank that has worked.
  bool end() {
    const std::vector<int> lost = cluster::lost_ranks(all_);
    const bool work_is_lost =
        !works_ && std::count_if(lost.begin(), lost.end(), [this](int rank) { return rank < wanted_; }) == wanted_;
    if (work_is_lost) {
      leave("all ranks that worked are gone");
    }
    if (!lost.empty()) {
      shrink();  // MPI_Finalize would wait for them
    }
    check_mpi(MPI_Comm_free(&all_), "MPI_Comm_free");
    check_mpi(MPI_Errhandler_free(&handler_), "MPI_Errhandler_free");
    return works_;
  }

 private:
  enum class Result { ended, lost, failed };

  void shrink() {
    life().leave = [this](const char* why) { leave(why); };
    cluster::make_communicator([this] { cluster::shrink(all_); });
  }

  /// Steps 1 and 2. A rank that does not work has ended.
  Result run(const std::function<void(MPI_Comm)>& body) {
    MPI_Comm ranks = MPI_COMM_NULL;
    works_ = rank() < std::min(wanted_, size());
    try {
      cluster::make_communicator([&] {
        MPI_Comm made = MPI_COMM_NULL;  // after an error it can be anything
        check_mpi(MPI_Comm_split(all_, works_ ? 0 : MPI_UNDEFINED, rank(), &made), "MPI_Comm_split");
        ranks = made;
        if (works_) {  // after a split that had ended, ranks hung in one of their next calls
          check_mpi(MPI_Barrier(ranks), "MPI_Barrier");
        }
      });
      if (works_) {
        check_mpi(MPI_Comm_set_errhandler(ranks, handler_), "MPI_Comm_set_errhandler");
        body(ranks);
        check_mpi(MPI_Comm_free(&ranks), "MPI_Comm_free");
      }
      return Result::ended;
    } catch (const Preempted&) {
      failure_ = std::current_exception();  // when the spare ranks know that it is over
      return Result::ended;
    } catch (const std::exception& error) {
      return left(ranks, error);
    }
  }

  /// An error of the program becomes one of the library, which ends the job with a code if nobody catches it: where MPI
  /// outlives lost ranks, mpirun returns 0 if all of them die by signals.
  [[noreturn]] void throw_failure() const {
    try {
      std::rethrow_exception(failure_);
    } catch (const Preempted&) {
      throw;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      std::throw_with_nested(ClusterError(fmt::format("rank {}: {}", rank(), error.what())));
    }
  }

  /// The body was left by an exception.
  Result left(MPI_Comm ranks, const std::exception& error) {
    const bool waited = dynamic_cast<const UnresponsiveError*>(&error) != nullptr ||
                        (options_.errors_return && cluster::has_lost_ranks(ranks));
    bool is_lost = !cluster::lost_ranks(all_).empty() || (waited && loss_is_known_soon(ranks));
    // The others leave too, and look at the ranks of their hosts. Without a communicator they wait for it in `all_`.
    cluster::revoke(ranks != MPI_COMM_NULL ? ranks : all_);
    if ((waited || is_lost) && cluster::survives_lost_ranks()) {
      end_stopped_neighbours();
      is_lost = is_lost || loss_is_known_soon(MPI_COMM_NULL);
    }
    if (!is_lost && (waited || !cluster::survives_lost_ranks())) {
      throw;  // ranks that live but do not answer would not come to the agreement either
    }
    if (!is_lost) {
      failure_ = std::current_exception();
      return Result::failed;
    }
    core::log::info("rank {} leaves its step: {}", rank(), error.what());
    return Result::lost;
  }

  /// Ranks of this host that are stopped would be waited for without a limit: they count as dead. Not those that
  /// continue within a second.
  void end_stopped_neighbours() const {
    const auto is_stopped = [](const handler::Neighbour& other) {
      const auto found = core::stat_of_process(other.pid);
      return found && found->start == other.start && found->is_stopped;
    };
    std::vector<handler::Neighbour> stopped;
    std::copy_if(neighbours_.begin(), neighbours_.end(), std::back_inserter(stopped), is_stopped);
    if (stopped.empty()) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
    for (const handler::Neighbour& other : stopped) {
      if (is_stopped(other) && ::kill(other.pid, SIGKILL) == 0) {
        core::log::warning("process {} is a rank that is stopped and does not answer: it is ended", other.pid);
      }
    }
  }

  /// Another rank may have reported the loss before MPI reports it here.
  [[nodiscard]] bool loss_is_known_soon(MPI_Comm ranks) const {
    constexpr std::chrono::seconds limit{5};
    core::RunningTime time;
    while (!cluster::has_lost_ranks(all_) && !cluster::has_lost_ranks(ranks)) {
      int seen = 0;
      const auto waited = time.elapsed();
      if (!cluster::survives_lost_ranks() || waited > limit ||
          MPI_Iprobe(MPI_ANY_SOURCE, 0, all_, &seen, MPI_STATUS_IGNORE) !=
              MPI_SUCCESS) {  // MPI learns of it in its calls
        return cluster::has_lost_ranks(all_);
      }
      cluster::pause(waited);
    }
    return true;
  }

  [[nodiscard]] int size() const {
    int size = 0;
    check_mpi(MPI_Comm_size(all_, &size), "MPI_Comm_size");
    return size;
  }
  [[nodiscard]] int rank() const {
    int rank = 0;
    check_mpi(MPI_Comm_rank(all_, &rank), "MPI_Comm_rank");
    return rank;
  }

  [[noreturn]] void leave(const char* why) const {
    const std::vector<int> lost = cluster::lost_ranks(all_);
    if (std::count_if(lost.begin(), lost.end(), [this](int other) { return other < rank(); }) == rank()) {  // the first
      core::log::error("{}: the job ends, to be started again (exit code {})", why, options_.restart_exit_code);
    }
    handler::leave_alone(options_.restart_exit_code);
  }

  ResilientOptions options_;
  std::vector<handler::Neighbour> neighbours_;
  int wanted_ = 0;
  bool works_ = false;
  MPI_Comm all_ = MPI_COMM_NULL;
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
  std::exception_ptr failure_;  ///< what leaves the body on this rank while no rank has died; or Preempted
};

}  // namespace

bool run_resilient(MPI_Comm comm, const std::function<void(MPI_Comm)>& body, const ResilientOptions& options) {
  cluster::end_job_at_uncaught_errors();
  survive_closed_connections();
  Survivors survivors(comm, options);
  while (!survivors.live(body)) {
    survivors.continue_without_lost();
  }
  return survivors.end();
}

}  // namespace reprieve
