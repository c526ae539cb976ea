// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The way of the parts of node-local copies to a partner on another host. local_transfer.cpp states the protocol.

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/directory.hpp"
#include "storage/local/part_file.hpp"

namespace reprieve::manager {

// Which rank keeps a second copy of another one's part. Pure.

/// What fails together, such as a rack, by host. A host that is not named is a domain of its own.
using FailureDomains = std::map<std::string, std::string>;

/// Lines `<host> <domain>`; empty lines, and what stands behind `#`, are passed over. @throws ConfigError
[[nodiscard]] FailureDomains parse_failure_domains(const std::string& text, const std::string& name);

/// The partner of each rank, on another host: hosts, not ranks, are paired, each with the next one in the order of
/// their lowest ranks that lies in another domain; if all lie in one, with the next one. -1 for all if there is one
/// host.
/// @param hosts  by rank
[[nodiscard]] std::vector<int> choose_partners(const std::vector<std::string>& hosts, const FailureDomains& domains);

/// A message of the protocol besides the bytes of a part.
using LocalMessage = std::array<std::uint64_t, 2>;

/// Not collective but for the constructor, and for `wait` in effect. For the thread that calls MPI.
class LocalTransfer {
 public:
  /// @param partners  by rank, all of them or none -1; the same on every rank
  /// @param directory  lives as long as this
  /// Collective. @throws MpiError
  LocalTransfer(cluster::Communicator& comm, const core::Directory& directory, std::string launch,
                const std::vector<int>& partners);
  ~LocalTransfer();
  LocalTransfer(const LocalTransfer&) = delete;
  LocalTransfer& operator=(const LocalTransfer&) = delete;

  /// A copy has begun: one part goes to the partner, and one comes from each rank whose partner this is.
  void begin();
  /// The part to be sent, which is complete and stays as it is until this is done; null: there is none, it failed.
  void send(std::shared_ptr<storage::PartSlot> part, int slot);
  [[nodiscard]] bool is_sent() const noexcept { return outgoing_->state != Sending::waiting; }

  /// Moves what can be moved now, without waiting, and for at most some hundredths of the time that passed since the
  /// last call. @throws MpiError
  void advance();
  /// Whether all that `begin` announced is over.
  [[nodiscard]] bool done() const noexcept;
  /// Whether the partner has the newest part of this rank; not if it had no room.
  [[nodiscard]] bool partner_has_it() const noexcept { return outgoing_->state == Sending::committed; }

  /// Waits until all is done, at most so long. What is not done then is left to MPI for ever.
  [[nodiscard]] bool wait(std::chrono::milliseconds limit);

  /// The ranks whose parts this one keeps.
  [[nodiscard]] const std::vector<int>& kept() const noexcept { return kept_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Sending { idle, waiting, offered, moving, committing, committed, refused, failed };
  enum class Receiving { idle, waiting, moving, committing };

  /// Pieces on their way, in order.
  struct Pieces {
    std::byte* bytes = nullptr;
    std::size_t size = 0;
    std::size_t next = 0;  ///< the first byte that is not on its way
    std::deque<MPI_Request> requests;
  };
  struct Outgoing {
    Sending state = Sending::idle;
    std::shared_ptr<storage::PartSlot> part;
    std::span<std::byte> file;
    LocalMessage offer{};
    LocalMessage answer{};
    MPI_Request request = MPI_REQUEST_NULL;
    Pieces pieces;
  };
  struct Incoming {
    int from = 0;
    Receiving state = Receiving::idle;
    LocalMessage offer{};
    LocalMessage answer{};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Request answering = MPI_REQUEST_NULL;
    std::array<std::optional<storage::PartSlot>, 2> slots;
    storage::PartSlot* target = nullptr;
    storage::Bytes commit_record;
    Pieces pieces;
  };

  [[nodiscard]] bool move_outgoing();
  [[nodiscard]] bool move_incoming(Incoming& incoming);
  void take_offer(Incoming& incoming);
  void answer(Incoming& incoming, bool accepted);
  [[nodiscard]] bool move(Pieces& pieces, int peer, bool sends);
  [[nodiscard]] bool progress();

  cluster::Communicator comm_;
  const core::Directory& directory_;
  std::string launch_;
  int partner_;
  std::vector<int> kept_;
  std::size_t window_ = 2;  ///< pieces on their way at once
  std::unique_ptr<Outgoing> outgoing_ = std::make_unique<Outgoing>();
  std::vector<std::unique_ptr<Incoming>> incoming_;
  Clock::time_point last_end_{};
  Clock::time_point not_before_{};
};

}  // namespace reprieve::manager
