#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/tensor.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/variable.hpp>

#include "strategy/variable/locked_components.hpp"

/// The door to variables for the layers above strategies: optim, metrics and checkpoint include this header
/// of the folder alone.
namespace lockstep::detail {

/// The component that is read if all are equal: that on the current device, else component 0; or always
/// component 0.
enum class ReadFrom : std::uint8_t { current_device, component_0 };
/// The values of several variables of one strategy in the current context, of one moment: no write of any of
/// them lies between.
RecycledVector<Tensor> read_variables(std::span<const Variable> variables,
                                      ReadFrom from = ReadFrom::current_device);

/// Variable::assign of several variables of one strategy, in one moment, all or none.
void assign_variables(std::span<const Variable> variables, std::span<const Tensor> values);
/// assign_add of such variables; outside replica functions an on_read sum takes the value once.
void add_once(std::span<const Variable> variables, std::span<const Tensor> values);
/// scatter_add likewise, of one variable.
void scatter_add_once(Variable& variable, const IndexedSlices& rows);

/// Whether component i of the variable is on a device of replica i's, for all replicas.
bool is_one_per_replica(const Variable& variable);
/// Of its components on this process's replicas.
const std::vector<Device>& devices_of(const Variable& variable) noexcept;
/// The same as VariableState::read and num_writes.
Tensor read_component(const Variable& variable, std::size_t i);
std::optional<std::uint64_t> num_writes(const Variable& variable, std::size_t i);

}  // namespace lockstep::detail
