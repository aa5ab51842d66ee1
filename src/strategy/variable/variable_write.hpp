#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/variable.hpp>

/// Writes of variables in the current context.
namespace lockstep::detail {

enum class Write : std::uint8_t {
  assign,
  assign_add,
  assign_sub,
  scatter_add,
  scatter_sub,
  scatter_mul,
  scatter_div,
  scatter_min,
  scatter_max,
  scatter_update
};
/// "assign_add": for messages.
const char* name(Write write);

void write_variable(Variable& variable, Write write, const Tensor& value);
void write_variable(Variable& variable, Write write, const PerReplica<Tensor>& value);
void write_variable(Variable& variable, Write write, const Mirrored<Tensor>& value);
void write_variable(Variable& variable, Write write, const Scalar& value);
/// The effect of a change outside the replicas on a variable whose components are added up when it is read:
/// it is refused, or the sum changes by the value once.
enum class SumWrite : std::uint8_t { refused, once };
/// A scatter.
void write_variable(Variable& variable, Write write, const IndexedSlices& value,
                    SumWrite sum_write = SumWrite::refused);

/// @throws CollectiveMismatch  the replicas name different variables.
void check_same_variable(const PerReplica<const VariableState*>& variables, Write write);
/// Whether a write in a replica function concerns that replica alone.
bool is_local(const VariableState& state);
/// The component of such a write.
std::size_t own_component(const VariableState& state, const ReplicaContext& context);
/// @throws InvalidArgument  `value` cannot be a component of the variable: names it, both shapes and both
/// dtypes.
void check_fits(const VariableState& state, const Tensor& value, std::string_view what);
/// Calls fn in a context for writes outside replicas: the variable's strategy's cross-replica context, and
/// for a variable that was made outside every scope also another strategy's. @throws ContextError  elsewhere:
/// names `what`.
void in_writing_context(const VariableState& state, std::string_view what, FunctionRef<void()> fn);
/// @throws InvalidArgument  the variable's aggregation is none, so that replicas cannot write it.
void check_writable_in_replica(const VariableState& state, Write write, const ReplicaContext& context);

}  // namespace lockstep::detail
