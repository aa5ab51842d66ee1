#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/collectives/communicator.hpp>

#include "collectives/rendezvous.hpp"

namespace lockstep::detail {

enum class Collective : std::uint8_t { all_reduce, reduce, broadcast, all_gather, reduce_scatter };

/// What one rank asks for: the payload of its Arrival.
struct CollectiveCall {
  Collective collective;
  ReduceOp op;  ///< Where it reduces.
  int root;     ///< Of reduce and broadcast.
  const RankBatch* batch;
  bool deterministic;

  bool has_root() const { return collective == Collective::reduce || collective == Collective::broadcast; }
  bool reduces() const { return collective != Collective::broadcast && collective != Collective::all_gather; }
  bool sends() const { return collective != Collective::broadcast || batch->rank == root; }
  /// Whether outputs are required. The root of a broadcast may leave them out.
  bool receives() const {
    return has_root() ? (batch->rank == root) == (collective == Collective::reduce) : true;
  }
  /// What the rank has in any case: inputs, or outputs where it only receives.
  std::span<const TensorView> tensors() const { return sends() ? batch->inputs : batch->outputs; }
};

/// "all_reduce(sum)", "broadcast".
std::string_view operation_name(Collective collective, ReduceOp op);

/// Checks what all ranks of a group bring to a collective, before anything is enqueued. Run by the last rank
/// to arrive, so one at a time; allocates only while batches grow.
class CollectiveChecks {
 public:
  /// Both outlive this.
  CollectiveChecks(const std::vector<Device>& devices,
                   const std::vector<backend::DeviceBackend*>& device_backends)
      : devices_(devices), device_backends_(device_backends) {}

  /// @throws CollectiveMismatch, InvalidArgument, as Communicator says.
  void run(std::span<const Arrival* const> arrivals);

 private:
  // The bytes of one tensor of one rank.
  struct Interval {
    const std::byte* begin;
    const std::byte* end;
    bool is_written;
    int rank;
  };
  struct Place;  // for messages

  void check_batch(const CollectiveCall& call, const CollectiveCall& first, const Place& place) const;
  void check_against(const TensorView& tensor, const CollectiveCall& reference, Place place) const;
  void check_buffer(const TensorView& tensor, const Place& place) const;
  void check_output(const CollectiveCall& call, const TensorView& output, std::int64_t gathered_rows,
                    const Place& place) const;
  void add_intervals(const CollectiveCall& call, std::size_t tensor, std::int64_t first_row);
  void check_overlap(std::string_view operation);

  const std::vector<Device>& devices_;
  const std::vector<backend::DeviceBackend*>& device_backends_;
  std::vector<Interval> intervals_;
};

}  // namespace lockstep::detail
