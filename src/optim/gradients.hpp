#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/optim/gradient.hpp>
#include <lockstep/strategy/strategy.hpp>

namespace lockstep::detail {

/// One replica's part of a gradient, or one component's: a tensor or sparse rows; neither is nothing.
using GradientPart = Contribution;

bool is_nothing(const GradientPart& part);

/// Which of a caller's lists a part comes from, for messages.
struct PartOf {
  std::string_view what;  ///< The call.
  const Variable& variable;
  int replica = -1;  ///< -1: the caller's only list.
};

/// What a gradient is to one replica: a mirrored one is its component there.
/// @throws InvalidArgument  a per-replica one of several components; one that does not fit the variable.
GradientPart part_in_replica(const optim::Gradient& gradient, int replica, const PartOf& part_of);

/// @throws InvalidArgument  a variable twice, or one that is not of a floating-point dtype.
void check_variables(std::span<const Variable> variables, std::string_view what);

/// The gradients of one step. Everything that can be refused is refused when it is made.
class GradientBatch {
 public:
  /// What the replicas gave: lists[r] is replica r's. @param are_reduced  they are equal, and not to be
  /// added.
  /// @throws CollectiveMismatch  they do not agree.
  static GradientBatch of_replicas(std::span<const std::vector<optim::GradientAndVariable>* const> lists,
                                   bool are_reduced, std::string_view what);
  /// What was given in cross-replica context.
  static GradientBatch given(const std::vector<optim::GradientAndVariable>& list, std::string_view what);

  /// All that were listed, in order.
  std::span<const Variable> listed() const noexcept { return listed_; }
  /// Those that have a gradient, in order; the others.
  std::span<const Variable> variables() const noexcept { return variables_; }
  std::span<const Variable> without_gradient() const noexcept { return without_gradient_; }

  /// Enqueues the sums, where the replicas gave parts of them. @return [k][i]: of variables()[k], on the
  /// device of its component i.
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
