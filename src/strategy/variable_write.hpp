#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/variable.hpp>

/// Writes of variables in the context at hand: semantics 6.2 and 6.4.
namespace lockstep::detail {

enum class Write : std::uint8_t { assign, assign_add, assign_sub };
std::string_view name(Write write);

void write_variable(Variable& variable, Write write, const Tensor& value);
void write_variable(Variable& variable, Write write, const PerReplica<Tensor>& value);
void write_variable(Variable& variable, Write write, const Mirrored<Tensor>& value);
void write_variable(Variable& variable, Write write, const Scalar& value);

}  // namespace lockstep::detail
