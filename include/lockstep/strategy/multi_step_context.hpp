#pragma once

#include <any>
#include <concepts>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/reduce_op.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/reduce_value.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

class Strategy;

/// Outputs of a step by name: one component for each local replica, or the only one of a reduced output.
using StepOutputs = std::map<std::string, PerReplica<Tensor>>;

/// The outputs of the last step: run_steps_on_iterator hands them to its function, and returns them. The
/// setters may be called in cross-replica context, or in a replica function by every replica alike; a name
/// that is used again takes the later value.
class MultiStepContext {
 public:
  explicit MultiStepContext(Strategy& strategy);
  MultiStepContext(const MultiStepContext& other);
  MultiStepContext(MultiStepContext&& other) noexcept;
  MultiStepContext& operator=(const MultiStepContext& other);
  MultiStepContext& operator=(MultiStepContext&& other) noexcept;
  ~MultiStepContext();

  /// Does nothing, as a step calls its operations itself. For code that is written as TensorFlow's graphs
  /// were.
  void run_op() const noexcept {}

  /// Keeps the value reduced over replicas: as Strategy::reduce in cross-replica context; in a replica
  /// function the value is the replica's own.
  /// @throws as reduce.
  void set_last_step_output(const std::string& name, const ReduceValue& value, ReduceOp op);
  /// Keeps the value as it is, one component for each replica, or one of a plain value.
  /// @throws InvalidArgument  in a replica function: give an op.
  void set_last_step_output(const std::string& name, const PerReplica<Tensor>& value);
  void set_last_step_output(const std::string& name, const Tensor& value);

  /// Keeps a value of any type: in cross-replica context as it is, in a replica function those of all
  /// replicas in their order, or one if they are equal.
  template <class T>
  void set_non_tensor_output(const std::string& name, const T& value) {
    using Kept = std::decay_t<const T&>;
    using Value = std::conditional_t<std::is_same_v<Kept, const char*> || std::is_same_v<Kept, char*>,
                                     std::string, Kept>;
    set_non_tensor(name, Value(value), [](const std::any& a, const std::any& b) {
      if constexpr (std::equality_comparable<Value>)
        return a.type() == b.type() && std::any_cast<const Value&>(a) == std::any_cast<const Value&>(b);
      else
        return false;
    });
  }

  [[nodiscard]] const StepOutputs& last_step_outputs() const& noexcept { return outputs_; }
  [[nodiscard]] StepOutputs last_step_outputs() const&&;
  [[nodiscard]] const std::map<std::string, std::vector<std::any>>& non_tensor_outputs() const& noexcept {
    return non_tensor_outputs_;
  }
  [[nodiscard]] std::map<std::string, std::vector<std::any>> non_tensor_outputs() const&&;

  /// For the library: a step begins.
  void begin_step(const StepOutputs& initial);

 private:
  void set_non_tensor(const std::string& name, std::any value,
                      bool (*equal)(const std::any& a, const std::any& b));

  Strategy* strategy_;
  StepOutputs outputs_;
  std::map<std::string, std::vector<std::any>> non_tensor_outputs_;
};

namespace detail {
/// @throws InvalidArgument  iterations < 1.
void check_iterations(int iterations);
}  // namespace detail

}  // namespace lockstep

#pragma GCC visibility pop
