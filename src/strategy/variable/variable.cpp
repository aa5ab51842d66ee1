#include <ostream>

#include <lockstep/values/variable.hpp>

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

std::string Variable::name() const { return detail::VariableState::of(*this)->name; }
bool Variable::trainable() const { return detail::VariableState::of(*this)->trainable; }
VariableSynchronization Variable::synchronization() const {
  return detail::VariableState::of(*this)->synchronization;
}
VariableAggregation Variable::aggregation() const { return detail::VariableState::of(*this)->aggregation; }
DType Variable::dtype() const { return detail::VariableState::of(*this)->dtype; }
Shape Variable::shape() const { return detail::VariableState::of(*this)->shape; }
Strategy& Variable::strategy() const { return detail::VariableState::of(*this)->strategy(); }

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

}  // namespace lockstep
