#pragma once

#include <cstdint>
#include <span>

#include <lockstep/backend/handles.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/scalar.hpp>
#include <lockstep/tensor_view.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

enum class UnaryOp : std::uint8_t { negate, exp, log, sqrt, relu };
enum class BinaryOp : std::uint8_t { add, subtract, multiply, divide, equal, relu_gradient };

/// If several rows go to one target, `assign` keeps the last.
enum class ScatterOp : std::uint8_t { add, subtract, multiply, divide, min, max, assign };

/// The names for messages: "negate", "add", …
const char* name(UnaryOp op);
const char* name(BinaryOp op);
const char* name(ScatterOp op);

/// The extents of a contiguous tensor before an axis (outer), along it, and after it (inner).
struct AxisExtents {
  std::int64_t outer = 1;
  std::int64_t axis = 1;
  std::int64_t inner = 1;
};

/// The rows that go to each target row, as int64 vectors on the device: rows[begins[k]] up to, but not
/// including, rows[begins[k + 1]] go to row targets[k]. No target occurs twice.
struct RowGroups {
  TensorView targets;  ///< [k]
  TensorView begins;   ///< [k + 1]
  TensorView rows;
};

/// The numbers of an update that change from step to step, as a graph's kernels read them from device memory.
/// The bias corrections are those of float updates, then those of double ones.
struct StepNumbers {
  std::int64_t step = 1;
  double learning_rate = 0;
  float correction1_f32 = 1, correction2_f32 = 1;
  double correction1_f64 = 1, correction2_f64 = 1;
};

/// Hyper-parameters of one fused optimizer update. SGD uses the first four, Adam all.
struct UpdateParameters {
  double learning_rate = 0;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0, beta2 = 0, epsilon = 0;
  std::int64_t step = 1;  ///< Counted from 1; bias correction depends on it.
  /// In device memory, to be read when the update runs, instead of learning_rate and step; null: not there.
  /// Only backends with graphs() get it.
  const StepNumbers* numbers = nullptr;

  bool operator==(const UpdateParameters&) const = default;
};

/// What an update of one variable works on.
struct UpdateTensors {
  TensorView variable, gradient;
  TensorView first_slot;   ///< SGD's velocity, whose data may be null, or Adam's first moment.
  TensorView second_slot;  ///< Adam's second moment.
};

/// Element-wise work on one device.
///
/// For a backend author: every call is enqueued on `stream` and returns without waiting. The core has checked
/// shapes, dtypes, devices and read-only flags, never passes zero elements, and keeps the memory alive in
/// stream order. Calls come from any thread, several at a time on different streams. Unless said otherwise,
/// views are contiguous, outputs may be exactly the inputs (same start), and numbers are combined by the
/// arithmetic that CommunicatorBackend states; an integer divided by 0 gives 0. Arithmetic rounds to nearest
/// and keeps subnormals, whatever floating-point state the calling thread has; that state is left unchanged.
/// If the backend lacks an operation for a dtype, the call throws Unsupported before anything is enqueued.
class KernelBackend {
 public:
  virtual ~KernelBackend() = default;

  /// Sets every element to `value`. `out` may be strided.
  virtual void fill(const TensorView& out, const Scalar& value, StreamHandle stream) = 0;
  /// out := in, converted between dtypes as a C++ cast does, except that floating to integer saturates and
  /// takes NaN to 0, and anything to boolean is "not zero". Either side may be strided; shapes are equal.
  virtual void copy(const TensorView& out, const TensorView& in, StreamHandle stream) = 0;
  /// out := in / divisor, computed in float (in double for f64 and for integers, whose quotients are
  /// truncated). Both sides have one dtype.
  virtual void divide(const TensorView& out, const TensorView& in, double divisor, StreamHandle stream) = 0;
  /// out (f64) := sums of 64-bit integers / divisor, rounded once. `wrapped` (i64 or u64) holds the sums
  /// modulo 2^64, `rough` (f64) holds them with an error below 2^63.
  virtual void divide_wide_sum(const TensorView& out, const TensorView& wrapped, const TensorView& rough,
                               double divisor, StreamHandle stream) = 0;
  virtual void unary(UnaryOp op, const TensorView& out, const TensorView& in, StreamHandle stream) = 0;
  /// Either operand may hold a single element, which is then combined with every element of the other.
  /// `equal` writes booleans; `relu_gradient` gives a if b > 0, else 0.
  virtual void binary(BinaryOp op, const TensorView& out, const TensorView& a, const TensorView& b,
                      StreamHandle stream) = 0;
  /// out[r, c] := a[r, c] + b[c] for matrices a [rows, columns], b [columns].
  virtual void add_row(const TensorView& out, const TensorView& a, const TensorView& b,
                       StreamHandle stream) = 0;

  /// out[target] := out[target] op in[row] op … for the rows of each group, in their order. Both are matrices
  /// of one dtype and width; `in` does not overlap `out`. Booleans support only `assign`.
  virtual void scatter_rows(ScatterOp op, const TensorView& out, const TensorView& in,
                            const RowGroups& groups, StreamHandle stream) = 0;

  /// Reduces the middle axis. `in` has outer·axis·inner elements and `out` outer·inner; extents.axis may be 0
  /// (`out` then gets the identity of sum or product; the core refuses min and max). The kernel adds in
  /// accumulator_dtype(in.dtype), in an order that depends only on the extents, so that results repeat bit
  /// for bit. `op` is never mean: the sum is divided by `divisor` (1: not divided) in float or double before
  /// the one rounding to out.dtype, which is in's dtype, its accumulator_dtype, or its reduced_dtype(mean).
  /// For floats `out` may also be f64: a sum that is not finite in float is then computed again in double,
  /// and the division is done in double.
  virtual void reduce_axis(ReduceOp op, const TensorView& out, const TensorView& in,
                           const AxisExtents& extents, double divisor, StreamHandle stream) = 0;
  /// out (i64) := index of the largest element along the middle axis; the first of several equal ones. NaN
  /// counts as the largest.
  virtual void argmax(const TensorView& out, const TensorView& in, const AxisExtents& extents,
                      StreamHandle stream) = 0;

  /// out [m, n] := a b, each transposed first if asked: a is [m, k] or, transposed, [k, m]. A backend
  /// supports at least f32 and f64.
  virtual void matmul(const TensorView& out, const TensorView& a, bool transpose_a, const TensorView& b,
                      bool transpose_b, StreamHandle stream) = 0;

  /// loss[r] := log(sum(exp(logits[r, :]))) - logits[r, labels[r]]; gradient[r, c] := softmax(logits)[r, c] -
  /// (c == labels[r]), skipped when gradient.data is null. labels: i64 in [0, columns). The core has checked
  /// them if the host can read them; otherwise a row whose label is out of range gives NaN, and the kernel
  /// reads no logit for that label.
  virtual void softmax_cross_entropy(const TensorView& loss, const TensorView& gradient,
                                     const TensorView& logits, const TensorView& labels,
                                     StreamHandle stream) = 0;

  /// out[r] := whether fewer than k of logits[r, :] are greater than logits[r, labels[r]]; NaN is greater
  /// than any number. False if the label is outside [0, columns) or its logit is NaN. out: boolean [rows];
  /// labels: i64.
  virtual void in_top_k(const TensorView& out, const TensorView& logits, const TensorView& labels,
                        std::int64_t k, StreamHandle stream) = 0;

  /// One fused pass: g = gradient + weight_decay·variable; velocity := momentum·velocity + g; variable -=
  /// learning_rate·(velocity or, with Nesterov, g + momentum·velocity). velocity.data is null without
  /// momentum.
  virtual void sgd_update(const TensorView& variable, const TensorView& velocity, const TensorView& gradient,
                          const UpdateParameters& parameters, StreamHandle stream) = 0;
  /// One fused pass of Adam (Kingma & Ba 2015, algorithm 1); weight_decay is decoupled (Loshchilov & Hutter
  /// 2019). The powers of the betas in the bias correction are computed in the update's own type.
  virtual void adam_update(const TensorView& variable, const TensorView& first_moment,
                           const TensorView& second_moment, const TensorView& gradient,
                           const UpdateParameters& parameters, StreamHandle stream) = 0;
  /// sgd_update, and adam_update, of several variables, with the same bits. All are of one dtype, all or none
  /// have a velocity, and none shares memory with another. These call them one by one.
  virtual void sgd_updates(std::span<const UpdateTensors> updates, const UpdateParameters& parameters,
                           StreamHandle stream);
  virtual void adam_updates(std::span<const UpdateTensors> updates, const UpdateParameters& parameters,
                            StreamHandle stream);

  /// norm (f64, one element) := the square root of the sum of the squares of all elements of all floating
  /// tensors. A square is rounded to its accumulator_dtype; the order of addition depends on the sizes alone,
  /// so that the result repeats bit for bit. @pre has_norms().
  virtual void global_norm(const TensorView& /*norm*/, std::span<const TensorView> /*in*/,
                           StreamHandle /*stream*/) {}
  /// out[k] := in[k] · clip_norm / max(norm, clip_norm), NaN where the norm is not finite. The factor is
  /// computed in double, and multiplied in the accumulator_dtype. norm (f64) has one element.
  /// @pre has_norms().
  virtual void clip(std::span<const TensorView> /*out*/, std::span<const TensorView> /*in*/,
                    const TensorView& /*norm*/, double /*clip_norm*/, StreamHandle /*stream*/) {}
  /// Whether there are the two kernels above. If not, the core composes them of others.
  virtual bool has_norms() const noexcept { return false; }
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
