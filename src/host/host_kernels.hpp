#pragma once

#include <lockstep/backend/kernel_backend.hpp>

namespace lockstep::host {

/// Element-wise work on the calling thread; replicas provide the parallelism. It has no state. Each family of
/// calls has a file, and each call computes in the library's own FloatEnvironment.
class HostKernels final : public backend::KernelBackend {
 public:
  // host_copy.cpp
  void fill(const TensorView& out, const Scalar& value, backend::StreamHandle stream) override;
  void copy(const TensorView& out, const TensorView& in, backend::StreamHandle stream) override;

  // host_elementwise.cpp
  void divide(const TensorView& out, const TensorView& in, double divisor,
              backend::StreamHandle stream) override;
  void divide_wide_sum(const TensorView& out, const TensorView& wrapped, const TensorView& rough,
                       double divisor, backend::StreamHandle stream) override;
  void unary(backend::UnaryOp op, const TensorView& out, const TensorView& in,
             backend::StreamHandle stream) override;
  void binary(backend::BinaryOp op, const TensorView& out, const TensorView& a, const TensorView& b,
              backend::StreamHandle stream) override;
  void add_row(const TensorView& out, const TensorView& a, const TensorView& b,
               backend::StreamHandle stream) override;

  // host_scatter.cpp
  void scatter_rows(backend::ScatterOp op, const TensorView& out, const TensorView& in,
                    const backend::RowGroups& groups, backend::StreamHandle stream) override;

  // reduce/reduce_axis.cpp, host_argmax.cpp
  void reduce_axis(ReduceOp op, const TensorView& out, const TensorView& in,
                   const backend::AxisExtents& extents, double divisor,
                   backend::StreamHandle stream) override;
  void argmax(const TensorView& out, const TensorView& in, const backend::AxisExtents& extents,
              backend::StreamHandle stream) override;

  // host_matmul.cpp, host_loss.cpp
  void matmul(const TensorView& out, const TensorView& a, bool transpose_a, const TensorView& b,
              bool transpose_b, backend::StreamHandle stream) override;
  void softmax_cross_entropy(const TensorView& loss, const TensorView& gradient, const TensorView& logits,
                             const TensorView& labels, backend::StreamHandle stream) override;

  // host_top_k.cpp
  void in_top_k(const TensorView& out, const TensorView& logits, const TensorView& labels, std::int64_t k,
                backend::StreamHandle stream) override;

  // host_optimizer.cpp
  void sgd_update(const TensorView& variable, const TensorView& velocity, const TensorView& gradient,
                  const backend::UpdateParameters& parameters, backend::StreamHandle stream) override;
  void adam_update(const TensorView& variable, const TensorView& first_moment,
                   const TensorView& second_moment, const TensorView& gradient,
                   const backend::UpdateParameters& parameters, backend::StreamHandle stream) override;
};

}  // namespace lockstep::host
