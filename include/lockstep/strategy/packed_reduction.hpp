#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/strategy/work.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Reduces values over replicas while others are still being computed: in a replica function, gradients as
/// the backward pass gives them. Values are reduced in packs, in the order in which they were added; a pack
/// starts as soon as it holds more than bytes_per_pack, on the communication stream
/// (ReplicaContext::start_all_reduce). On GPUs a pack travels in one buffer; on the host nothing is copied.
///
/// Every replica adds values of the same shapes and dtypes in the same order. Used by the replica's thread,
/// and not after its function has returned. In steady state nothing is taken from the heap but the
/// std::vector that `wait` returns.
class PackedReduction {
 public:
  /// Packs when bytes_per_pack is 0: as PyTorch's DistributedDataParallel (bucket_cap_mb).
  static constexpr std::int64_t kDefaultBytesPerPack = std::int64_t{25} << 20;

  /// @throws InvalidArgument  a negative option.
  PackedReduction(ReplicaContext& context, ReduceOp op, const CommunicationOptions& options = {});

  /// The next value is enqueued. It must not be written before wait().
  /// @throws as start_all_reduce, where it completes a pack.
  void add(const Tensor& value);
  /// Starts the rest, and orders the current stream after all packs.
  /// @return what was added, reduced, in that order; the next add begins anew.
  /// @throws as start_all_reduce; the error of an earlier pack that did not start, also if `add` has thrown
  /// it, as that pack's results are missing.
  std::vector<Tensor> wait();

 private:
  void start();

  ReplicaContext& context_;
  ReduceOp op_;
  CommunicationOptions options_;
  std::int64_t limit_;
  detail::RecycledVector<detail::Contribution> pack_;
  std::int64_t pack_bytes_ = 0;
  struct Started {
    detail::StartedWork work;
    detail::RecycledVector<detail::Contribution> results;
  };
  detail::RecycledVector<Started> started_;
  std::exception_ptr refused_;  // of the first pack that did not start
};

}  // namespace lockstep

#pragma GCC visibility pop
