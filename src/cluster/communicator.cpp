#include "cluster/communicator.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <ctime>
#include <memory>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRollCallTag = 1;
/// How long ranks collect each other's answers after one has given up.
constexpr std::chrono::milliseconds kRollCallWindow{2000};
/// How often a waiting rank looks for a roll call.
constexpr std::chrono::milliseconds kRollCallPoll{5};

/// Gives the processor away, the longer the wait the more of it: ranks may share cores.
void pause(Clock::duration waited) {
  using namespace std::chrono_literals;
  if (waited < 50us) {
    return;
  }
  if (waited < 5ms) {
    sched_yield();
    return;
  }
  const timespec nap{0, waited < 1s ? 50'000 : 500'000};
  nanosleep(&nap, nullptr);  // an early end by a signal only means one more look
}

int to_count(std::size_t size) {
  if (size > INT_MAX) {
    throw Error(ErrorCode::internal, "a message of more than 2 GiB between ranks");
  }
  return static_cast<int>(size);
}

/// Buffers of a collective that did not complete must live on, since MPI may still write into them.
template <class Buffers>
void complete_or_abandon(Communicator& comm, MPI_Request& request, std::unique_ptr<Buffers>& buffers,
                         std::string_view what) {
  try {
    comm.wait(request, what);
  } catch (...) {
    static_cast<void>(buffers.release());
    throw;
  }
}

Bytes encode(const core::Failure& failure) {
  Bytes bytes(sizeof(std::int32_t) + failure.message.size());
  const auto code = static_cast<std::int32_t>(failure.code);
  std::memcpy(bytes.data(), &code, sizeof code);
  std::memcpy(bytes.data() + sizeof code, failure.message.data(), failure.message.size());
  return bytes;
}

core::Failure decode(const Bytes& bytes) {
  std::int32_t code = 0;
  std::memcpy(&code, bytes.data(), sizeof code);
  return {static_cast<ErrorCode>(code),
          std::string(reinterpret_cast<const char*>(bytes.data()) + sizeof code, bytes.size() - sizeof code)};
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::string seconds(std::chrono::milliseconds duration) {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(duration).count());
}

}  // namespace

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) {
    return;
  }
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(result, text, &length) != MPI_SUCCESS) {
    length = 0;
  }
  throw MpiError(fmt::format("{} failed: {}", call, std::string(text, static_cast<std::size_t>(length))));
}

namespace {

/// While it lives, failures on the program's communicator come back as codes, whatever the program wants for its own.
class ErrorsReturned {
 public:
  explicit ErrorsReturned(MPI_Comm comm) : comm_(comm) {
    check_mpi(MPI_Comm_get_errhandler(comm_, &before_), "MPI_Comm_get_errhandler");
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  ~ErrorsReturned() {
    if (MPI_Comm_set_errhandler(comm_, before_) != MPI_SUCCESS || MPI_Errhandler_free(&before_) != MPI_SUCCESS) {
      core::log::warning("the error handler of the program's communicator could not be set again");
    }
  }
  ErrorsReturned(const ErrorsReturned&) = delete;
  ErrorsReturned& operator=(const ErrorsReturned&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

}  // namespace

Communicator::Communicator(MPI_Comm parent, std::chrono::milliseconds timeout) : timeout_(timeout) {
  int initialized = 0;
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized == 0) {
    throw UsageError("MPI is not initialised: call MPI_Init before this");
  }
  if (parent == MPI_COMM_NULL) {
    throw UsageError("the communicator is MPI_COMM_NULL");
  }
  int is_intercommunicator = 0;
  check_mpi(MPI_Comm_test_inter(parent, &is_intercommunicator), "MPI_Comm_test_inter");
  if (is_intercommunicator != 0) {
    throw UsageError("the communicator is an intercommunicator: pass that of all ranks that save together");
  }
  const ErrorsReturned returned(parent);
  check_mpi(MPI_Comm_rank(parent, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(parent, &size_), "MPI_Comm_size");
  check_mpi(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  hosts_.resize(static_cast<std::size_t>(size_));
  exchange_hosts();
}

Communicator::~Communicator() {
  int finalized = 0;
  if (broken_ || !owner_.is_here() || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) {
    return;  // freeing a communicator with missing ranks could wait for them
  }
  if (MPI_Comm_free(&comm_) != MPI_SUCCESS) {
    core::log::warning("MPI_Comm_free failed");
  }
}

void Communicator::exchange_hosts() {
  struct Buffers {
    std::array<char, MPI_MAX_PROCESSOR_NAME> mine{};
    std::vector<char> all;
  };
  auto buffers = std::make_unique<Buffers>();
  int length = 0;
  check_mpi(MPI_Get_processor_name(buffers->mine.data(), &length), "MPI_Get_processor_name");
  buffers->all.resize(static_cast<std::size_t>(size_) * MPI_MAX_PROCESSOR_NAME);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(buffers->mine.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, buffers->all.data(),
                           MPI_MAX_PROCESSOR_NAME, MPI_CHAR, comm_, &request),
            "MPI_Iallgather");
  complete_or_abandon(*this, request, buffers, "start");
  for (int rank = 0; rank < size_; ++rank) {
    hosts_[static_cast<std::size_t>(rank)] =
        std::string(buffers->all.data() + static_cast<std::size_t>(rank) * MPI_MAX_PROCESSOR_NAME);
  }
}

void Communicator::check_usable(std::string_view what) const {
  if (broken_) {
    throw UnresponsiveError(
        fmt::format("{}: ranks were missing before; the communicator cannot be used any more", what), {}, rank_);
  }
  if (!owner_.is_here()) {
    throw UsageError(fmt::format("{}: called in a child that rank {} forked; only the rank itself can", what, rank_));
  }
}

void Communicator::wait(MPI_Request& request, std::string_view what, std::chrono::milliseconds limit) {
  check_usable(what);
  const auto start = Clock::now();
  auto next_roll_call_poll = start + kRollCallPoll;
  for (;;) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    const auto now = Clock::now();
    if (done != 0) {
      // A rank that comes late may still complete, with messages that the others sent before they gave up.
      if (roll_call_seen()) {
        call_the_roll(what, std::chrono::duration_cast<std::chrono::milliseconds>(now - start));
      }
      return;
    }
    if (now - start >= limit) {
      call_the_roll(what, std::chrono::duration_cast<std::chrono::milliseconds>(now - start));
    }
    if (now >= next_roll_call_poll) {
      next_roll_call_poll = now + kRollCallPoll;
      if (roll_call_seen()) {
        call_the_roll(what, std::chrono::duration_cast<std::chrono::milliseconds>(now - start));
      }
    }
    pause(now - start);
  }
}

bool Communicator::roll_call_seen() const {
  int seen = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kRollCallTag, comm_, &seen, MPI_STATUS_IGNORE), "MPI_Iprobe");
  return seen != 0;
}

void Communicator::call_the_roll(std::string_view what, std::chrono::milliseconds waited) {
  broken_ = true;
  // Empty messages: nothing that MPI could still touch after this function was left.
  std::vector<MPI_Request> sends(static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) {
      check_mpi(MPI_Isend(nullptr, 0, MPI_BYTE, rank, kRollCallTag, comm_, &sends[static_cast<std::size_t>(rank)]),
                "MPI_Isend");
    }
  }
  std::vector<bool> present(static_cast<std::size_t>(size_), false);
  present[static_cast<std::size_t>(rank_)] = true;
  const auto start = Clock::now();
  while (Clock::now() - start < kRollCallWindow && std::find(present.begin(), present.end(), false) != present.end()) {
    int seen = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kRollCallTag, comm_, &seen, &status), "MPI_Iprobe");
    if (seen != 0) {
      check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kRollCallTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
      present[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
    } else {
      pause(std::chrono::milliseconds(10));
    }
  }
  std::vector<int> missing;
  std::vector<std::string> names;
  for (int rank = 0; rank < size_; ++rank) {
    if (!present[static_cast<std::size_t>(rank)]) {
      missing.push_back(rank);
      names.push_back(fmt::format("rank {} ({})", rank, host_of(rank)));
    }
  }
  const std::string last_seen = last_seen_.empty() ? "" : fmt::format("; all ranks were last seen at {}", last_seen_);
  if (missing.empty()) {
    throw UnresponsiveError(
        fmt::format("{}: the other ranks had stopped waiting when rank {} ({}) came{}", what, rank_, host(), last_seen),
        {}, rank_);
  }
  throw UnresponsiveError(
      fmt::format("{}: no answer within {} from {}{}", what, seconds(waited), join(names), last_seen), missing, rank_);
}

bool Communicator::is_node_leader() const {
  check_usable("finding the ranks of this node");
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int rank = 0;
  const int result = MPI_Comm_rank(node, &rank);
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  check_mpi(result, "MPI_Comm_rank");
  return rank == 0;
}

void Communicator::barrier(std::string_view what) {
  check_usable(what);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
  wait(request, what);
}

void Communicator::broadcast(Bytes& bytes, int root, std::string_view what) {
  check_usable(what);
  auto size = std::make_unique<std::uint64_t>(bytes.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibcast(size.get(), 1, MPI_UINT64_T, root, comm_, &request), "MPI_Ibcast");
  complete_or_abandon(*this, request, size, what);

  auto buffer = std::make_unique<Bytes>(rank_ == root ? bytes : Bytes(*size));
  check_mpi(MPI_Ibcast(buffer->data(), to_count(buffer->size()), MPI_BYTE, root, comm_, &request), "MPI_Ibcast");
  complete_or_abandon(*this, request, buffer, what);
  bytes = std::move(*buffer);
}

std::vector<Bytes> Communicator::gather(std::span<const std::byte> mine, std::string_view what) {
  check_usable(what);
  struct Buffers {
    Bytes mine;
    int my_size = 0;
    std::vector<int> sizes;
    std::vector<int> offsets;
    Bytes all;
  };
  auto buffers = std::make_unique<Buffers>();
  auto& b = *buffers;
  b.mine.assign(mine.begin(), mine.end());
  b.my_size = to_count(mine.size());
  b.sizes.resize(is_chief() ? static_cast<std::size_t>(size_) : 0);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Igather(&b.my_size, 1, MPI_INT, b.sizes.data(), 1, MPI_INT, 0, comm_, &request), "MPI_Igather");
  complete_or_abandon(*this, request, buffers, what);

  b.offsets.resize(b.sizes.size());
  std::size_t total = 0;
  for (std::size_t rank = 0; rank < b.sizes.size(); ++rank) {
    b.offsets[rank] = to_count(total);
    total += static_cast<std::size_t>(b.sizes[rank]);
  }
  b.all.resize(static_cast<std::size_t>(to_count(total)));
  check_mpi(MPI_Igatherv(b.mine.data(), b.my_size, MPI_BYTE, b.all.data(), b.sizes.data(), b.offsets.data(), MPI_BYTE,
                         0, comm_, &request),
            "MPI_Igatherv");
  complete_or_abandon(*this, request, buffers, what);

  std::vector<Bytes> parts(b.sizes.size());
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const auto first = b.all.begin() + b.offsets[rank];
    parts[rank].assign(first, first + b.sizes[rank]);
  }
  return parts;
}

Bytes Communicator::scatter(const std::vector<Bytes>& parts, std::string_view what) {
  check_usable(what);
  struct Buffers {
    Bytes all;
    std::vector<int> sizes;
    std::vector<int> offsets;
    int my_size = 0;
    Bytes mine;
  };
  auto buffers = std::make_unique<Buffers>();
  auto& b = *buffers;
  if (is_chief()) {
    if (parts.size() != static_cast<std::size_t>(size_)) {
      throw Error(ErrorCode::internal, "scatter needs one part for each rank");
    }
    for (const auto& part : parts) {
      b.offsets.push_back(to_count(b.all.size()));
      b.sizes.push_back(to_count(part.size()));
      b.all.insert(b.all.end(), part.begin(), part.end());
    }
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iscatter(b.sizes.data(), 1, MPI_INT, &b.my_size, 1, MPI_INT, 0, comm_, &request), "MPI_Iscatter");
  complete_or_abandon(*this, request, buffers, what);

  b.mine.resize(static_cast<std::size_t>(b.my_size));
  check_mpi(MPI_Iscatterv(b.all.data(), b.sizes.data(), b.offsets.data(), MPI_BYTE, b.mine.data(), b.my_size, MPI_BYTE,
                          0, comm_, &request),
            "MPI_Iscatterv");
  complete_or_abandon(*this, request, buffers, what);
  return std::move(b.mine);
}

void Communicator::exchange(Parts& mine, Parts& theirs, std::string_view what) {
  check_usable(what);
  struct Direction {
    Parts parts;
    std::vector<int> sizes;
    std::vector<int> offsets;

    void lay_out() {
      std::size_t total = 0;
      for (const int size : sizes) {
        offsets.push_back(to_count(total));
        total += static_cast<std::size_t>(size);
      }
      parts.bytes.resize(static_cast<std::size_t>(to_count(total)));
    }
  };
  struct Buffers {
    Direction out;
    Direction in;
  };
  if (mine.sizes.size() != static_cast<std::size_t>(size_)) {
    throw Error(ErrorCode::internal, "an exchange needs one part for each rank");
  }
  auto buffers = std::make_unique<Buffers>();
  auto& [out, in] = *buffers;
  out.parts = std::move(mine);
  in.parts = std::move(theirs);
  std::transform(out.parts.sizes.begin(), out.parts.sizes.end(), std::back_inserter(out.sizes), to_count);
  out.lay_out();
  in.sizes.resize(out.sizes.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ialltoall(out.sizes.data(), 1, MPI_INT, in.sizes.data(), 1, MPI_INT, comm_, &request), "MPI_Ialltoall");
  complete_or_abandon(*this, request, buffers, what);

  in.lay_out();
  check_mpi(MPI_Ialltoallv(out.parts.bytes.data(), out.sizes.data(), out.offsets.data(), MPI_BYTE,
                           in.parts.bytes.data(), in.sizes.data(), in.offsets.data(), MPI_BYTE, comm_, &request),
            "MPI_Ialltoallv");
  complete_or_abandon(*this, request, buffers, what);
  in.parts.sizes.assign(in.sizes.begin(), in.sizes.end());
  mine = std::move(out.parts);
  theirs = std::move(in.parts);
}

std::int64_t Communicator::reduce(std::int64_t value, MPI_Op operation, std::string_view what) {
  check_usable(what);
  struct Buffers {
    std::int64_t mine = 0;
    std::int64_t all = 0;
  };
  auto buffers = std::make_unique<Buffers>(Buffers{value, 0});
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(&buffers->mine, &buffers->all, 1, MPI_INT64_T, operation, comm_, &request),
            "MPI_Iallreduce");
  complete_or_abandon(*this, request, buffers, what);
  return buffers->all;
}

std::int64_t Communicator::max(std::int64_t value, std::string_view what) { return reduce(value, MPI_MAX, what); }

std::int64_t Communicator::sum(std::int64_t value, std::string_view what) { return reduce(value, MPI_SUM, what); }

void Communicator::agree(const core::Outcome& mine, std::string_view what) {
  // The lowest failing rank has the greatest value.
  const std::int64_t worst = max(mine ? size_ - rank_ : 0, what);
  if (worst == 0) {
    return;
  }
  const int origin = size_ - static_cast<int>(worst);
  Bytes bytes = rank_ == origin ? encode(*mine) : Bytes{};
  broadcast(bytes, origin, what);
  const core::Failure failure = decode(bytes);
  throw_error(failure.code, failure.message, origin);
}

}  // namespace reprieve::cluster
