// SPDX-License-Identifier: BSD-3-Clause
// Meetings: how every operation of a communicator begins, and how ranks learn of each other's failures. Nothing in here
// needs memory, but for the text of an error; where there is none for that, the text is shorter.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "cluster/communicator.hpp"
#include "cluster/prepared.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

namespace {

/// True if there was memory for it.
bool append_if_possible(std::string& text, const char* more, std::size_t size) noexcept {
  try {
    text.append(more, size);
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

Communicator::Met Communicator::meet_for(Kind kind, std::int64_t value, const core::Failure* mine,
                                         std::string_view what) {
  check_usable(what);
  Prepared& p = *prepared_;
  // The lowest failing rank has the greatest mark.
  p.mine[Prepared::kFailing] = mine != nullptr ? size_ - rank_ : 0;
  p.mine[Prepared::kKind] = static_cast<std::int64_t>(kind);
  p.mine[Prepared::kNegatedKind] = -static_cast<std::int64_t>(kind);
  p.mine[Prepared::kValue] = value;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(p.mine.data(), p.all.data(), Prepared::kSlots, MPI_INT64_T, MPI_MAX, comm_, &request),
            "MPI_Iallreduce");
  wait(request, what);
  Met met;
  met.failing_rank = p.all[Prepared::kFailing] == 0 ? -1 : size_ - static_cast<int>(p.all[Prepared::kFailing]);
  met.all_of_kind = p.all[Prepared::kKind] == -p.all[Prepared::kNegatedKind];
  met.value = p.all[Prepared::kValue];
  return met;
}

std::int64_t Communicator::meet(Kind kind, std::int64_t value, const core::Outcome& mine, std::string_view what) {
  const core::Failure* failure = mine ? &*mine : nullptr;
  const Met met = meet_for(kind, value, failure, what);
  if (met.failing_rank >= 0) {
    throw_heard(hear(met.failing_rank, failure, what));
  }
  if (!met.all_of_kind) {
    throw Error(ErrorCode::internal, "the ranks are in different operations; this one is in " + std::string(what));
  }
  return met.value;
}

void Communicator::write_note(const core::Failure& mine, std::string_view what) noexcept {
  Prepared::Note& note = prepared_->note;
  note.code = static_cast<std::int32_t>(mine.code);
  note.origin_rank = mine.origin_rank < 0 ? rank_ : mine.origin_rank;
  note.asked_bytes = mine.asked_bytes;
  note.text_size = mine.message.size();
  if (mine.code != ErrorCode::no_memory || mine.origin_rank >= 0) {
    std::memcpy(note.text.data(), mine.message.data(), std::min(mine.message.size(), note.text.size()));
    return;
  }
  const int what_size = static_cast<int>(std::min<std::size_t>(what.size(), 500));
  int size = std::snprintf(note.text.data(), note.text.size(), "%.*s: rank %d on host %.200s ran out of memory",
                           what_size, what.data(), rank_, host().c_str());
  if (mine.asked_bytes > 0 && size > 0) {
    const auto end = static_cast<std::size_t>(size);
    size += std::snprintf(note.text.data() + end, note.text.size() - end, ": it asked for %llu bytes",
                          static_cast<unsigned long long>(mine.asked_bytes));
  }
  note.text_size = static_cast<std::uint64_t>(std::max(size, 0));
}

core::Failure Communicator::hear(int origin, const core::Failure* mine, std::string_view what) {
  Prepared::Note& note = prepared_->note;
  const bool is_mine = rank_ == origin && mine != nullptr;
  if (is_mine) {
    write_note(*mine, what);
  }
  const auto spread = [&](void* bytes, std::size_t size) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(bytes, static_cast<int>(size), MPI_BYTE, origin, comm_, &request), "MPI_Ibcast");
    wait(request, what);
  };
  spread(&note, sizeof note);
  core::Failure heard{static_cast<ErrorCode>(note.code), {}, note.origin_rank, note.asked_bytes};
  bool has_room = true;
  for (std::uint64_t done = 0; done < note.text_size; done += note.text.size()) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(note.text_size - done, note.text.size()));
    if (done > 0) {
      if (is_mine) {
        std::memcpy(note.text.data(), mine->message.data() + done, size);
      }
      spread(note.text.data(), size);
    }
    has_room = has_room && append_if_possible(heard.message, note.text.data(), size);
  }
  return heard;
}

void Communicator::throw_heard(const core::Failure& failure) const {
  try {
    throw_error(failure.code, failure.message, failure.origin_rank);
  } catch (const std::bad_alloc&) {
    std::rethrow_exception(no_memory_for_text_);
  }
}

/// Ranks that are still inside of the operation hear of the failure in the meeting of whatever they do there, leave it
/// with an error, and come here. So this goes on until all are here.
void Communicator::end_together(core::Outcome mine, std::string_view what) {
  for (;;) {
    const Met met = meet_for(Kind::end, 0, mine ? &*mine : nullptr, what);
    std::optional<core::Failure> heard;
    if (met.failing_rank >= 0) {
      heard = hear(met.failing_rank, mine ? &*mine : nullptr, what);
    }
    if (met.all_of_kind) {
      if (heard) {
        throw_heard(*heard);
      }
      return;
    }
    if (!mine) {
      mine = heard ? std::move(heard)
                   : core::Failure{ErrorCode::internal, "ranks left an operation while others were still in it"};
    }
  }
}

void Communicator::barrier(std::string_view what) { meet(Kind::barrier, 0, {}, what); }

std::int64_t Communicator::max(std::int64_t value, std::string_view what) { return meet(Kind::max, value, {}, what); }

/// The greatest complement is that of the smallest digest.
Communicator::Comparison Communicator::compare(std::uint64_t digest, std::int64_t value, std::string_view what) {
  Prepared& p = *prepared_;
  p.mine[Prepared::kDigest] = static_cast<std::int64_t>(digest);
  p.mine[Prepared::kDigestComplement] = ~p.mine[Prepared::kDigest];
  const std::int64_t greatest = meet(Kind::compare, value, {}, what);
  return {p.all[Prepared::kDigest] == ~p.all[Prepared::kDigestComplement], greatest};
}

void Communicator::agree(const core::Outcome& mine, std::string_view what) { meet(Kind::agree, 0, mine, what); }

}  // namespace reprieve::cluster
