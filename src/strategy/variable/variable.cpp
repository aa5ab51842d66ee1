#include <ostream>

#include <lockstep/error.hpp>
#include <lockstep/values/variable.hpp>

#include "detail/expects.hpp"
#include "strategy/variable/variable_access.hpp"
#include "strategy/variable/variable_creation.hpp"
#include "strategy/variable/variable_read.hpp"
#include "strategy/variable/variable_state.hpp"
#include "strategy/variable/variable_write.hpp"

namespace lockstep {

std::string_view name(VariableSynchronization synchronization) {
  switch (synchronization) {
    case VariableSynchronization::automatic: return "automatic";
    case VariableSynchronization::none: return "none";
    case VariableSynchronization::on_write: return "on_write";
    case VariableSynchronization::on_read: break;
  }
  return "on_read";
}

std::string_view name(VariableAggregation aggregation) {
  switch (aggregation) {
    case VariableAggregation::none: return "none";
    case VariableAggregation::sum: return "sum";
    case VariableAggregation::mean: return "mean";
    case VariableAggregation::only_first_replica: break;
  }
  return "only_first_replica";
}

std::ostream& operator<<(std::ostream& out, VariableSynchronization synchronization) {
  return out << name(synchronization);
}
std::ostream& operator<<(std::ostream& out, VariableAggregation aggregation) {
  return out << name(aggregation);
}

Variable::Variable(const Tensor& initial_value, VariableOptions options)
    : state_(detail::create_variable([&] { return initial_value; }, std::move(options), &initial_value)) {}

std::shared_ptr<detail::VariableState> Variable::create(detail::FunctionRef<Tensor()> initial_value,
                                                        VariableOptions options) {
  return detail::create_variable(initial_value, std::move(options), nullptr);
}

std::string Variable::name() const { return detail::VariableAccess::state(*this)->name(); }
bool Variable::trainable() const { return detail::VariableAccess::state(*this)->trainable(); }
VariableSynchronization Variable::synchronization() const {
  return detail::VariableAccess::state(*this)->synchronization();
}
VariableAggregation Variable::aggregation() const {
  return detail::VariableAccess::state(*this)->aggregation();
}
DType Variable::dtype() const { return detail::VariableAccess::state(*this)->dtype(); }
Shape Variable::shape() const { return detail::VariableAccess::state(*this)->shape(); }
Strategy& Variable::strategy() const { return detail::VariableAccess::state(*this)->strategy(); }

Tensor Variable::value() const { return detail::read_variable(*this).read_only(); }

using detail::Write;

Variable& Variable::assign(const Tensor& value) {
  return detail::write_variable(*this, Write::assign, value), *this;
}
Variable& Variable::assign(const PerReplica<Tensor>& value) {
  return detail::write_variable(*this, Write::assign, value), *this;
}
Variable& Variable::assign(const Mirrored<Tensor>& value) {
  return detail::write_variable(*this, Write::assign, value), *this;
}
Variable& Variable::assign(const Scalar& value) {
  return detail::write_variable(*this, Write::assign, value), *this;
}
Variable& Variable::assign_add(const Tensor& value) {
  return detail::write_variable(*this, Write::assign_add, value), *this;
}
Variable& Variable::assign_add(const PerReplica<Tensor>& value) {
  return detail::write_variable(*this, Write::assign_add, value), *this;
}
Variable& Variable::assign_add(const Mirrored<Tensor>& value) {
  return detail::write_variable(*this, Write::assign_add, value), *this;
}
Variable& Variable::assign_add(const Scalar& value) {
  return detail::write_variable(*this, Write::assign_add, value), *this;
}
Variable& Variable::assign_sub(const Tensor& value) {
  return detail::write_variable(*this, Write::assign_sub, value), *this;
}
Variable& Variable::assign_sub(const PerReplica<Tensor>& value) {
  return detail::write_variable(*this, Write::assign_sub, value), *this;
}
Variable& Variable::assign_sub(const Mirrored<Tensor>& value) {
  return detail::write_variable(*this, Write::assign_sub, value), *this;
}
Variable& Variable::assign_sub(const Scalar& value) {
  return detail::write_variable(*this, Write::assign_sub, value), *this;
}

Variable& Variable::scatter_add(const IndexedSlices& rows) {
  return detail::write_variable(*this, Write::scatter_add, rows), *this;
}
Variable& Variable::scatter_sub(const IndexedSlices& rows) {
  return detail::write_variable(*this, Write::scatter_sub, rows), *this;
}
Variable& Variable::scatter_mul(const IndexedSlices& rows) {
  return detail::write_variable(*this, Write::scatter_mul, rows), *this;
}
Variable& Variable::scatter_div(const IndexedSlices& rows) {
  return detail::write_variable(*this, Write::scatter_div, rows), *this;
}
Variable& Variable::scatter_min(const IndexedSlices& rows) {
  return detail::write_variable(*this, Write::scatter_min, rows), *this;
}
Variable& Variable::scatter_max(const IndexedSlices& rows) {
  return detail::write_variable(*this, Write::scatter_max, rows), *this;
}
Variable& Variable::scatter_update(const IndexedSlices& rows) {
  return detail::write_variable(*this, Write::scatter_update, rows), *this;
}

namespace detail {

void VariableAccess::raise_moved_from() {
  raise<ContextError>(
      {__FILE__, __LINE__, __func__},
      "Variable: used after it was moved from. Copy the handle instead: it is the same variable.");
}

const std::vector<Device>& VariableAccess::devices(const Variable& variable) {
  return state(variable)->devices();
}
bool VariableAccess::is_sync_on_read(const Variable& variable) { return state(variable)->is_sync_on_read(); }
bool VariableAccess::is_mirrored(const Variable& variable) { return state(variable)->is_mirrored(); }
RecycledVector<Tensor> VariableAccess::snapshot(const Variable& variable) {
  return state(variable)->snapshot();
}

bool is_one_per_replica(const Variable& variable) {
  return VariableAccess::state(variable)->is_one_per_replica();
}
Tensor read_component(const Variable& variable, std::size_t i) {
  return VariableAccess::state(variable)->read(i);
}
const std::vector<Device>& devices_of(const Variable& variable) noexcept {
  return VariableAccess::state(variable)->devices();
}

std::optional<std::uint64_t> num_writes(const Variable& variable, std::size_t i) {
  return VariableAccess::state(variable)->num_writes(i);
}

}  // namespace detail

}  // namespace lockstep
