#pragma once

#include <memory>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/values/variable.hpp>

namespace lockstep::detail {

/// Makes the state of a variable in the current context; in a replica function together with the other
/// replicas, which get the same one.
/// @param initial  called once. @param known  the value it returns, if that is known before; null: it is not.
std::shared_ptr<VariableState> create_variable(FunctionRef<Tensor()> initial, VariableOptions options,
                                               const Tensor* known);

}  // namespace lockstep::detail
