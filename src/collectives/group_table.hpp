#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <lockstep/backend/group_call.hpp>

#include "collectives/collective_checks.hpp"
#include "collectives/rendezvous.hpp"

namespace lockstep::detail {

/// A collective as the backend gets it: the calls of all ranks, made from their arrivals at the meeting.
/// Takes no memory once it has seen a batch as large.
class GroupTable {
 public:
  /// @param arrivals  of all ranks at a collective, checked.
  void set(std::span<const Arrival* const> arrivals);
  /// The same from the mailboxes, after a meeting in which all fingerprints agreed. @param tensor  any
  /// rank's.
  void set(const Rendezvous& rendezvous, int own_rank, const TensorView& tensor);

  std::span<const backend::RankCall> calls() const { return calls_; }
  std::span<const backend::Transfer> transfers() const { return transfers_; }
  /// A rank's segments, whose memory its thread may set.
  std::span<backend::Segment> segments(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return std::span(segments_).subspan(begins_[r], begins_[r + 1] - begins_[r]);
  }
  /// Whether there is nothing to do, on any rank.
  bool is_empty() const { return is_empty_; }
  /// Whether integers are averaged: their segments have the mean's dtype and no values yet. They lie in the
  /// outputs of an all_reduce, else in the memory that is set in `segments`.
  bool converts() const { return converts_; }

 private:
  void clear();
  void add_segments(const CollectiveCall& call, std::int64_t num_ranks);
  /// Makes one segment of those that lie behind each other on every rank, as views of a bucket do.
  void join_neighbours();
  void end_rank(int rank, backend::StreamHandle stream);
  /// @pre all segments have been added, as the vector moves them.
  void set_spans();

  std::vector<backend::Segment> segments_;  // of rank 0, of rank 1, ...
  std::vector<std::size_t> begins_;         // [num_ranks + 1]
  std::vector<backend::RankCall> calls_;
  std::vector<backend::Transfer> transfers_;
  std::vector<bool> joined_;  // by segment: to the one before it. Scratch
  bool is_empty_ = true;
  bool converts_ = false;
};

}  // namespace lockstep::detail
