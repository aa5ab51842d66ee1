#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/group_call.hpp>
#include <lockstep/collectives/communicator.hpp>

#include "collectives/rendezvous.hpp"

namespace lockstep::detail {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  broadcast,
  all_gather,
  gather,
  scatter,
  all_to_all,
  send_recv
};

/// One rank's call of a collective: the payload of its Arrival.
struct CollectiveCall {
  Collective collective;
  ReduceOp op;  ///< Of a reduction.
  int root;     ///< Of a collective with a root.
  const RankBatch* batch;
  backend::Route route;                 ///< Of a reduction.
  std::span<const int> destinations{};  ///< Of send_recv.
  bool only_checks = false;             ///< check_all_reduce.

  bool is(std::initializer_list<Collective> collectives) const {
    return std::ranges::find(collectives, collective) != collectives.end();
  }
  bool has_root() const {
    return is({Collective::reduce, Collective::broadcast, Collective::gather, Collective::scatter});
  }
  bool reduces() const {
    return is({Collective::all_reduce, Collective::reduce, Collective::reduce_scatter});
  }
  /// Consists of transfers (transfers.hpp).
  bool is_transfers() const {
    return is({Collective::gather, Collective::scatter, Collective::all_to_all, Collective::send_recv});
  }
  /// Its result is a concatenation along axis 0.
  bool gathers() const { return is({Collective::all_gather, Collective::gather}); }
  /// A rank's part is 1/num_ranks of its input.
  bool divides() const {
    return is({Collective::reduce_scatter, Collective::scatter, Collective::all_to_all});
  }
  bool sends() const;
  /// Whether outputs are required. The root of a broadcast may have some, too.
  bool receives() const;
  /// The rank whose input determines this rank's outputs; its own if all inputs do.
  int source() const;
  /// The rank whose batch the others must match: the root, or the first that sends.
  int reference() const;
  /// Whether the elements of `input` are converted to floating-point numbers first: integers of a mean.
  bool converts(const TensorView& input) const {
    return reduces() && op == ReduceOp::mean && is_integer(input.dtype);
  }
  /// The rank's inputs, or its outputs if it only receives.
  std::span<const TensorView> tensors() const { return sends() ? batch->inputs : batch->outputs; }
};

/// "all_reduce(sum)", "broadcast".
std::string_view operation_name(Collective collective, ReduceOp op);

/// The payload of an Arrival at a collective.
inline const CollectiveCall& call_of(const Arrival* arrival) {
  return *static_cast<const CollectiveCall*>(arrival->payload);
}

/// Checks the calls of all ranks of a group before anything is enqueued. Rank 0's thread runs it while the
/// others wait; it allocates only while batches grow.
class CollectiveChecks {
 public:
  /// All outlive this. @param member  the noun for a rank in messages: "rank", "replica".
  CollectiveChecks(const std::vector<Device>& devices,
                   const std::vector<backend::DeviceBackend*>& device_backends, std::string_view member)
      : devices_(devices), device_backends_(device_backends), member_(member) {}

  /// @param arrivals  by rank; null where a rank's is not known yet, as it is another worker's.
  /// @throws CollectiveMismatch, InvalidArgument, Unsupported, as Communicator says.
  void run(std::span<const Arrival* const> arrivals);

 private:
  // The bytes of one tensor of one rank.
  struct Interval {
    const std::byte* begin;
    const std::byte* end;
    bool is_written;
    int rank;
  };
  struct MessagePrefix;

  /// Whether the rank is one of this process, whose memory can be looked at.
  bool is_here(std::size_t rank) const { return device_backends_[rank] != nullptr; }
  void check_agreement(const CollectiveCall& call, const CollectiveCall& first,
                       const MessagePrefix& prefix) const;
  void check_destinations(std::span<const int> destinations, const MessagePrefix& prefix) const;
  void check_batch(const CollectiveCall& call, const CollectiveCall& reference,
                   const MessagePrefix& prefix) const;
  void check_capture(const CollectiveCall& call, const CollectiveCall& first,
                     const MessagePrefix& prefix) const;
  void check_against(const TensorView& tensor, const CollectiveCall& reference, MessagePrefix prefix) const;
  void check_buffer(const TensorView& tensor, const MessagePrefix& prefix) const;
  void check_output(const CollectiveCall& call, const CollectiveCall& source, std::int64_t gathered_rows,
                    const MessagePrefix& prefix) const;
  void add_intervals(const CollectiveCall& call, std::size_t tensor, std::int64_t first_row);
  void check_overlap(std::string_view operation, bool may_be_in_place);

  const std::vector<Device>& devices_;
  const std::vector<backend::DeviceBackend*>& device_backends_;
  const std::string_view member_;
  std::vector<Interval> intervals_;
};

}  // namespace lockstep::detail
