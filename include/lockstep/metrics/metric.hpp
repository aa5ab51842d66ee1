#pragma once

#include <string>
#include <utility>
#include <vector>

#include <lockstep/tensor.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/variable.hpp>

#pragma GCC visibility push(default)

/// Metrics over a run or an epoch, on sync-on-read variables.
namespace lockstep::metrics {

/// The base of all metrics: f64 sums with aggregation sum, to which replicas add.
///
/// A metric is made in a strategy's scope, or outside every scope for one replica. In a replica function
/// `update` adds to the replica's own sums, without communication and without waiting for a device; operands
/// on another device are first copied to the replica's. In cross-replica context `update` counts once.
/// result() in cross-replica context combines all replicas' sums and then divides, so that replicas with more
/// rows have more weight. In a replica function it gives the replica's own result; under a sync_on_read guard
/// it gives the result of all replicas, and every replica must make the call. Copies are handles of the same
/// metric.
///
/// In steady state update, result() and reset() allocate nothing on the heap, except ConfusionMatrix's
/// update.
///
/// Thread safety: that of variables. update and reset change all sums at one moment; if they fail, they
/// change none. result() and a checkpoint see all sums as of one moment, so that each replica's update counts
/// as a whole even while another thread runs.
///
/// With CentralStorageStrategy there is one set of sums. Every replica must then make each update, which is
/// an aggregated write, and result() and reset() concern all replicas even in a replica function.
class Metric {
 public:
  virtual ~Metric() = default;

  [[nodiscard]] const std::string& name() const& noexcept { return name_; }
  [[nodiscard]] std::string name() const&& { return name_; }
  /// The value so far: f64, rank 0 unless the metric has another shape; 0 if nothing was counted.
  /// @throws ContextError  inside another strategy's scope.
  [[nodiscard]] virtual Tensor result() const = 0;
  /// Sets the sums to zero: those of all replicas, or in a replica function the replica's own. Outside
  /// replica functions it waits, as a write does, for other threads' runs; so it must not be called by
  /// anything that a run waits for.
  void reset();
  /// The sums by name, for checkpoints.
  [[nodiscard]] std::vector<std::pair<std::string, Variable>> variables() const;

 protected:
  /// @param sums  names of the sums; the variables are called NAME/SUM. @param shape  the shape of each sum.
  Metric(std::string name, const std::vector<std::string>& sums, const Shape& shape = {});
  Metric(const Metric&) = default;
  Metric& operator=(const Metric&) = default;

  /// The sum of `values`, or of values times weights: f64, rank 0, on the device of the sums (in a replica
  /// function the replica's device, whichever metric was given).
  static Tensor amount(const Tensor& values, const Tensor* weights = nullptr);
  static Tensor amount(double value);
  /// Adds amounts[k] to sum k, for all sums at one moment.
  void add(std::initializer_list<Tensor> amounts);
  /// Adds rows to sum k.
  void add(std::size_t k, const IndexedSlices& rows);
  /// All sums as of one moment.
  detail::RecycledVector<Tensor> totals() const;

 private:
  std::string name_;
  std::vector<std::string> sum_names_;
  std::vector<Variable> sums_;
};

}  // namespace lockstep::metrics

#pragma GCC visibility pop
