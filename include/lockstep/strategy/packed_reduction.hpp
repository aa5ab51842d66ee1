#pragma once

#include <cstdint>
#include <exception>
#include <utility>
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
/// (ReplicaContext::start_all_reduce). On GPUs a pack travels in one buffer; on the host no value is copied
/// into one.
///
/// Every replica adds values of the same shapes and dtypes in the same order. Used by the replica's thread,
/// and not after its function has returned. In steady state nothing is taken from the heap but the
/// std::vector that `wait` returns.
class PackedReduction {
 public:
  /// Packs when bytes_per_pack is 0: as PyTorch's DistributedDataParallel (bucket_cap_mb).
  static constexpr std::int64_t kDefaultBytesPerPack = std::int64_t{25} << 20;

  /// What becomes of the values that are added: they stay as they are, or their memory is given to the
  /// results. So a reduction on the host touches half as much memory, and takes none.
  enum class Values { kept, given };

  /// @throws InvalidArgument  a negative option.
  PackedReduction(ReplicaContext& context, ReduceOp op, const CommunicationOptions& options = {},
                  Values values = Values::kept);

  /// The next value is enqueued. It must not be written before wait().
  ///
  /// If values are given, the result lies where the value does, unless it cannot: the value is read-only,
  /// strided or on another device, the result has another dtype, or the strategy has cross-device operations
  /// of its own. Values then overlap no others (InvalidArgument), and if their pack fails they may be partly
  /// reduced.
  /// @throws as start_all_reduce, where it completes a pack.
  void add(const Tensor& value);
  /// Starts the rest, and orders the current stream after all packs.
  /// @return what was added, reduced, in that order; the next add begins anew.
  /// @throws as start_all_reduce; the error of an earlier pack that did not start, also if `add` has thrown
  /// it, as that pack's results are missing.
  std::vector<Tensor> wait();

 private:
  using StartedBatch = std::pair<detail::StartedWork, detail::RecycledVector<detail::Contribution>>;

  void start();
  /// ReplicaContext::start_all_reduce_batch, in place.
  StartedBatch start_in_place(detail::RecycledVector<detail::Contribution> pack);

  ReplicaContext& context_;
  ReduceOp op_;
  Values values_;
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
