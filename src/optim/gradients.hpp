#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/optim/gradient.hpp>
#include <lockstep/strategy/strategy.hpp>

namespace lockstep::detail {

/// One replica's part of a gradient, or one component's: a tensor, sparse rows, or neither, which is nothing.
using GradientPart = Contribution;

bool is_nothing(const GradientPart& part);

/// The source of a part, for messages.
struct PartSource {
  std::string_view what;  ///< The call that messages name.
  const Variable& variable;
  int replica = -1;  ///< Whose list it is from; -1: the caller's only list.
};

/// One replica's part of a gradient: of a mirrored one, the component there.
/// @throws InvalidArgument  a per-replica one of several components; one that does not fit the variable.
GradientPart part_in_replica(const optim::Gradient& gradient, int replica, const PartSource& source);

/// @throws InvalidArgument  a variable twice, or one that is not of a floating-point dtype.
void check_variables(std::span<const Variable> variables, std::string_view what);

/// The gradients of one step. Its factories throw all errors.
class GradientBatch {
 public:
  /// The gradients of a replica function's call: lists[i] is local replica i's, of which replica
  /// first_replica is the first.
  /// @param are_reduced  whether they are equal on all replicas already, and must not be added.
  /// @throws CollectiveMismatch  they do not agree.
  static GradientBatch of_replicas(std::span<const std::vector<optim::GradientAndVariable>* const> lists,
                                   int first_replica, bool are_reduced, std::string_view what);
  /// The gradients of a call in cross-replica context.
  static GradientBatch of_caller(const std::vector<optim::GradientAndVariable>& list, std::string_view what);

  /// All that were listed, in order.
  std::span<const Variable> listed() const noexcept { return listed_; }
  /// Those with a gradient, in order; those without.
  std::span<const Variable> variables() const noexcept { return variables_; }
  std::span<const Variable> without_gradient() const noexcept { return without_gradient_; }

  /// Enqueues the sums over the replicas. @return [k][i]: of variables()[k], on the device of its component
  /// i.
  RecycledVector<RecycledVector<Tensor>> reduce(Strategy& strategy,
                                                const CommunicationOptions& options) const;

 private:
  RecycledVector<Variable> listed_;
  RecycledVector<Variable> variables_;
  RecycledVector<Variable> without_gradient_;
  RecycledVector<ReduceValue> values_;  // of variables_
  bool are_summed_ = false;
};

}  // namespace lockstep::detail
