#pragma once

#include <cstdint>

#include <lockstep/backend/handles.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/scalar.hpp>
#include <lockstep/tensor_view.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

enum class UnaryOp : std::uint8_t { negate, exp, log, sqrt, relu };
enum class BinaryOp : std::uint8_t { add, subtract, multiply, divide, equal, relu_gradient };

/// `assign` keeps the last row.
enum class ScatterOp : std::uint8_t { add, subtract, multiply, divide, min, max, assign };

/// "negate", "add", …: for messages.
const char* name(UnaryOp op);
const char* name(BinaryOp op);
const char* name(ScatterOp op);

/// [outer, axis, inner] extents of a contiguous tensor seen from one axis.
struct AxisExtents {
  std::int64_t outer = 1;
  std::int64_t axis = 1;
  std::int64_t inner = 1;
};

/// Which rows go where, as int64 vectors on the device: rows[begins[k]], …, up to begins[k + 1], into row
/// targets[k]. No target occurs twice.
struct RowGroups {
  TensorView targets;  ///< [k]
  TensorView begins;   ///< [k + 1]
  TensorView rows;
};

/// Hyper-parameters of one fused optimizer update. SGD uses the first four, Adam all.
struct UpdateParameters {
  double learning_rate = 0;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0, beta2 = 0, epsilon = 0;
  std::int64_t step = 1;  ///< Counted from 1; bias correction.
};

/// Element-wise work on one device.
///
/// For a backend author: every call is enqueued on `stream` and returns without waiting. The core has checked
/// shapes, dtypes, devices and read-only flags, never passes zero elements, and keeps the memory alive in
/// stream order. Calls come from any thread, several at a time on different streams. Unless said otherwise
/// views are contiguous, outputs may be exactly the inputs (same start), and numbers are combined by the
/// arithmetic that CommunicatorBackend states; an integer over 0 is 0. Arithmetic rounds to nearest and keeps
/// subnormals, whatever floating-point state the calling thread has, which is left as it is. An operation
/// that the backend lacks for a dtype throws Unsupported before anything is enqueued.
class KernelBackend {
 public:
  virtual ~KernelBackend() = default;

  /// Every element := value. `out` may be strided.
  virtual void fill(const TensorView& out, const Scalar& value, StreamHandle stream) = 0;
  /// out := in, converting between dtypes as a C++ cast does (floating to integer saturates, NaN gives 0;
  /// anything to boolean is "not zero"). Either side may be strided; shapes are equal.
  virtual void copy(const TensorView& out, const TensorView& in, StreamHandle stream) = 0;
  /// out := in / divisor, in float (double for f64, and for integers, which are truncated). Same dtype.
  virtual void divide(const TensorView& out, const TensorView& in, double divisor, StreamHandle stream) = 0;
  virtual void unary(UnaryOp op, const TensorView& out, const TensorView& in, StreamHandle stream) = 0;
  /// Either operand may hold a single element, which then meets every element of the other. `equal` writes
  /// booleans; relu_gradient is a where b > 0, else 0.
  virtual void binary(BinaryOp op, const TensorView& out, const TensorView& a, const TensorView& b,
                      StreamHandle stream) = 0;
  /// out[r, c] := a[r, c] + b[c] for matrices a [rows, columns], b [columns].
  virtual void add_row(const TensorView& out, const TensorView& a, const TensorView& b,
                       StreamHandle stream) = 0;

  /// out[target] := out[target] op in[row] op … for each group's rows, in their order. Matrices of one dtype
  /// and width; `in` does not overlap `out`. Booleans: assign only.
  virtual void scatter_rows(ScatterOp op, const TensorView& out, const TensorView& in,
                            const RowGroups& groups, StreamHandle stream) = 0;

  /// Reduces the middle axis. `in` has outer·axis·inner elements, `out` outer·inner; extents.axis may be 0
  /// (out gets the identity of sum and product; the core refuses min and max). Adds in
  /// accumulator_dtype(in.dtype), in an order that depends on the extents only, so that results repeat bit
  /// for bit. `op` is never mean: the sum is divided by `divisor` (1: not at all) in float or double before
  /// the one rounding to out.dtype, which is in's dtype, its accumulator_dtype, or its reduced_dtype(mean).
  /// Floats may also be added to f64: a sum that is not finite in float is then added again in double, and
  /// the division is one of doubles.
  virtual void reduce_axis(ReduceOp op, const TensorView& out, const TensorView& in,
                           const AxisExtents& extents, double divisor, StreamHandle stream) = 0;
  /// out (i64) := index of the largest element along the middle axis, the first of equals; NaN counts as
  /// largest.
  virtual void argmax(const TensorView& out, const TensorView& in, const AxisExtents& extents,
                      StreamHandle stream) = 0;

  /// out [m, n] := op(a) op(b), op transposing where asked: a is [m, k] or, transposed, [k, m]. f32 and f64
  /// at least.
  virtual void matmul(const TensorView& out, const TensorView& a, bool transpose_a, const TensorView& b,
                      bool transpose_b, StreamHandle stream) = 0;

  /// loss[r] := log(sum(exp(logits[r, :]))) - logits[r, labels[r]]; gradient[r, c] := softmax(logits)[r, c] -
  /// (c == labels[r]), skipped when gradient.data is null. labels: i64 in [0, columns), which the core has
  /// checked where the host can read them; elsewhere a row with another label gives NaN, and reads nothing
  /// for it.
  virtual void softmax_cross_entropy(const TensorView& loss, const TensorView& gradient,
                                     const TensorView& logits, const TensorView& labels,
                                     StreamHandle stream) = 0;

  /// out[r] := fewer than k of logits[r, :] are greater than logits[r, labels[r]], NaN being greater than any
  /// number; false for a label outside [0, columns), and where its logit is NaN. out: boolean [rows]; labels:
  /// i64.
  virtual void in_top_k(const TensorView& out, const TensorView& logits, const TensorView& labels,
                        std::int64_t k, StreamHandle stream) = 0;

  /// One fused pass: velocity := momentum·velocity + g, variable -= learning_rate·(velocity or, Nesterov, g +
  /// momentum·velocity); g = gradient + weight_decay·variable. velocity.data is null without momentum.
  virtual void sgd_update(const TensorView& variable, const TensorView& velocity, const TensorView& gradient,
                          const UpdateParameters& parameters, StreamHandle stream) = 0;
  /// One fused pass of Adam (Kingma & Ba 2015, algorithm 1); weight_decay is decoupled (Loshchilov & Hutter
  /// 2019). The powers of the betas that correct the bias are taken in the type that the update is computed
  /// in.
  virtual void adam_update(const TensorView& variable, const TensorView& first_moment,
                           const TensorView& second_moment, const TensorView& gradient,
                           const UpdateParameters& parameters, StreamHandle stream) = 0;
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
