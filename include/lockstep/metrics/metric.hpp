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

/// What metrics have in common: sums (f64, aggregation sum) that replicas add to.
///
/// Made in a strategy's scope, or outside for one replica. In a replica function `update` of the kinds below
/// adds to the replica's own sums, without communication and without waiting for a device; operands on
/// another device are first copied to the replica's. In cross-replica context it counts once. result() in
/// cross-replica context combines all replicas' sums, then divides, so that replicas with more rows count for
/// more; in a replica function it is the replica's own, or under a sync_on_read guard everybody's, which
/// every replica must ask for. Copies are the same metric.
///
/// update, result() and reset() take nothing from the heap in steady state, but for ConfusionMatrix's update.
///
/// Thread safety: that of variables. update and reset change all sums in one moment, all or, where they fail,
/// none; result() and a checkpoint see them of one moment, so that beside runs of another thread each
/// replica's updates count whole.
///
/// With CentralStorageStrategy there is one set of sums: every replica must make each update, which is an
/// aggregated write, and result() and reset() are everybody's in a replica function too.
class Metric {
 public:
  virtual ~Metric() = default;

  [[nodiscard]] const std::string& name() const& noexcept { return name_; }
  [[nodiscard]] std::string name() const&& { return name_; }
  /// The value so far: f64, rank 0 unless the kind has another shape; 0 where nothing was counted.
  /// @throws ContextError  inside another strategy's scope.
  [[nodiscard]] virtual Tensor result() const = 0;
  /// Back to nothing: all replicas' sums, or in a replica function the replica's own. Elsewhere it waits, as
  /// a write does, for other threads' runs: what a run waits for must not call it.
  void reset();
  /// The sums by name, for checkpoints.
  [[nodiscard]] std::vector<std::pair<std::string, Variable>> variables() const;

 protected:
  /// @param sums  their names; the variables are NAME/SUM. @param shape  of each.
  Metric(std::string name, const std::vector<std::string>& sums, const Shape& shape = {});
  Metric(const Metric&) = default;
  Metric& operator=(const Metric&) = default;

  /// What `values`, or values times weights, add up to: f64, rank 0, where the sums are (in a replica
  /// function its own device, whichever was given).
  static Tensor amount(const Tensor& values, const Tensor* weights = nullptr);
  static Tensor amount(double value);
  /// Adds amounts[k] to sum k, for all sums in one moment.
  void add(std::initializer_list<Tensor> amounts);
  /// Adds rows to sum k.
  void add(std::size_t k, const IndexedSlices& rows);
  /// All sums, of one moment.
  detail::RecycledVector<Tensor> totals() const;

 private:
  std::string name_;
  std::vector<std::string> sum_names_;
  std::vector<Variable> sums_;
};

}  // namespace lockstep::metrics

#pragma GCC visibility pop
