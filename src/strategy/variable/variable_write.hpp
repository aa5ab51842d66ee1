#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/variable.hpp>

/// Writes of variables in the context at hand.
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
/// assign, assign_add or assign_sub of several variables of one strategy, in one moment, all or none.
void write_variables(std::span<const Variable> variables, Write write, std::span<const Tensor> values);
/// assign_add of such variables; outside replica functions to what on_read sums read as, once.
void add_once(std::span<const Variable> variables, std::span<const Tensor> values);
/// How a change outside the replicas concerns a variable whose components are added up when it is read.
enum class OfSum : std::uint8_t { refused, once };
/// A scatter.
void write_variable(Variable& variable, Write write, const IndexedSlices& value,
                    OfSum of_sum = OfSum::refused);

/// @param variables  addresses of the replicas' VariableStates.
/// @throws CollectiveMismatch  they are not the same on all replicas.
void check_same_variable(const PerReplica<std::uint64_t>& variables, Write write);
/// Whether a write in a replica function concerns that replica alone.
bool is_local(const VariableState& state);
/// Which component that is.
std::size_t own_component(const VariableState& state, const ReplicaContext& context);
/// @throws InvalidArgument  the variable's aggregation is none, so that replicas cannot write it.
void check_writable_in_replica(const VariableState& state, Write write, const ReplicaContext& context);

}  // namespace lockstep::detail
