#pragma once

#include <span>
#include <string_view>
#include <utility>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// A RankBatch with the lists of views it points to.
class OwnedBatch {
 public:
  OwnedBatch(int rank, StreamRef stream, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
             std::string_view structure = {});
  OwnedBatch(OwnedBatch&&) noexcept = default;  // moving a vector keeps its elements in place

  const RankBatch& batch() const noexcept { return batch_; }

 private:
  RecycledVector<TensorView> inputs_;
  RecycledVector<TensorView> outputs_;
  RankBatch batch_;
};

/// Tensors to receive a reduction of `inputs` on `device`. Those of inputs that lie behind each other do so,
/// too, in one bucket: such a batch is reduced without a copy. @throws InvalidArgument  op is not defined on
/// a dtype.
RecycledVector<Tensor> empty_results(ReduceOp op, std::span<const Tensor> inputs, const Device& device);

/// Communicator::all_reduce, through packs where options.bytes_per_pack asks for them and the backend does
/// not pack: values of one dtype are copied into buffers of about that many bytes, in order, each member at a
/// multiple of kPackAlignment, reduced, and copied back. The result is the same bit for bit wherever the
/// library does the arithmetic.
void all_reduce(Communicator& communicator, ReduceOp op, std::span<const RankBatch> batches,
                const CommunicationOptions& options);

}  // namespace lockstep::detail
