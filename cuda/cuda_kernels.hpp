#pragma once

#include <mutex>

#include <cublas_v2.h>

#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/device.hpp>

#include "kernels/launch.hpp"
#include "native.hpp"

namespace lockstep::cuda {

/// Element-wise work, reductions and matmul on one GPU; each family of calls has a file in kernels/.
class CudaKernels final : public backend::KernelBackend {
 public:
  /// @param ordinal  the CUDA runtime's number of the GPU. @param memory  its pool, which must outlive this.
  CudaKernels(int ordinal, const Device& device, CudaMemory& memory)
      : ordinal_(ordinal), device_(device), memory_(memory) {}
  ~CudaKernels() override;

  // kernels/copy.cu
  void fill(const TensorView& out, const Scalar& value, backend::StreamHandle stream) override;
  void copy(const TensorView& out, const TensorView& in, backend::StreamHandle stream) override;

  // kernels/elementwise.cu
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

  // kernels/scatter.cu
  void scatter_rows(backend::ScatterOp op, const TensorView& out, const TensorView& in,
                    const backend::RowGroups& groups, backend::StreamHandle stream) override;

  // kernels/reduce/reduce.cu, kernels/argmax.cu
  void reduce_axis(ReduceOp op, const TensorView& out, const TensorView& in,
                   const backend::AxisExtents& extents, double divisor,
                   backend::StreamHandle stream) override;
  void argmax(const TensorView& out, const TensorView& in, const backend::AxisExtents& extents,
              backend::StreamHandle stream) override;

  // cuda_kernels.cpp, kernels/loss.cu
  void matmul(const TensorView& out, const TensorView& a, bool transpose_a, const TensorView& b,
              bool transpose_b, backend::StreamHandle stream) override;
  void softmax_cross_entropy(const TensorView& loss, const TensorView& gradient, const TensorView& logits,
                             const TensorView& labels, backend::StreamHandle stream) override;

  // kernels/top_k.cu
  void in_top_k(const TensorView& out, const TensorView& logits, const TensorView& labels, std::int64_t k,
                backend::StreamHandle stream) override;

  // kernels/optimizer.cu
  void sgd_update(const TensorView& variable, const TensorView& velocity, const TensorView& gradient,
                  const backend::UpdateParameters& parameters, backend::StreamHandle stream) override;
  void adam_update(const TensorView& variable, const TensorView& first_moment,
                   const TensorView& second_moment, const TensorView& gradient,
                   const backend::UpdateParameters& parameters, backend::StreamHandle stream) override;
  void sgd_updates(std::span<const backend::UpdateTensors> updates,
                   const backend::UpdateParameters& parameters, backend::StreamHandle stream) override;
  void adam_updates(std::span<const backend::UpdateTensors> updates,
                    const backend::UpdateParameters& parameters, backend::StreamHandle stream) override;

  // kernels/multi/norm.cu
  void global_norm(const TensorView& norm, std::span<const TensorView> in,
                   backend::StreamHandle stream) override;
  void clip(std::span<const TensorView> out, std::span<const TensorView> in, const TensorView& norm,
            double clip_norm, backend::StreamHandle stream) override;
  bool has_norms() const noexcept override { return true; }

  /// Releases the cuBLAS handle: at process exit.
  void close() noexcept;

  Place place_on(backend::StreamHandle stream) const { return {ordinal_, device_, native(stream), memory_}; }

 private:
  const int ordinal_;
  const Device device_;
  CudaMemory& memory_;
  std::mutex blas_mutex_;  // guards blas_, whose stream is set for each call
  cublasHandle_t blas_ = nullptr;
};

}  // namespace lockstep::cuda
