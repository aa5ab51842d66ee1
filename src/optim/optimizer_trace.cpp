#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include <lockstep/error.hpp>
#include <lockstep/optim/optimizer.hpp>

#include "backend/adam_factors.hpp"
#include "detail/expects.hpp"
#include "detail/tracing.hpp"
#include "strategy/variable/variable_access.hpp"

namespace lockstep::optim {

/// The optimizer's part in a trace: the numbers of its steps.
class Optimizer::TracedSteps final : public detail::HostPart {
 public:
  explicit TracedSteps(Optimizer& optimizer) : optimizer_(optimizer) {}

  void add(std::size_t place) { places_.push_back(place); }
  void prepare(std::byte* numbers) override {
    next_ = optimizer_.num_steps();
    for (const std::size_t place : places_) {
      const double rate = optimizer_.learning_rate_.at(next_);
      backend::UpdateParameters parameters;
      static_cast<void>(optimizer_.update_parameters({++next_, rate}, parameters));
      new (numbers + place) backend::StepNumbers(detail::step_numbers(parameters));
    }
  }
  void commit() noexcept override {
    optimizer_.counted_ = detail::num_writes(optimizer_.iterations(), 0);
    optimizer_.num_steps_ = next_;
  }

 private:
  Optimizer& optimizer_;
  std::vector<std::size_t> places_;
  std::int64_t next_ = 0;  // the number of steps after the launch
};

bool Optimizer::update_parameters(const Step&, backend::UpdateParameters&) const { return false; }

void Optimizer::check_can_be_traced(std::string_view what) const {
  backend::UpdateParameters parameters;
  LOCKSTEP_EXPECTS(update_parameters({1, 0}, parameters), Unsupported, what, " of ", name_,
                   " in a traced step: its update takes the learning rate from the host, and every launch "
                   "would repeat that of the trace. Return the gradients, and apply them after the call; or "
                   "override update_parameters, if the update is one of sgd_update_ or adam_update_.");
}

std::size_t Optimizer::trace_step(detail::TraceRecorder& recorder) {
  const std::size_t place = recorder.reserve_numbers(sizeof(backend::StepNumbers));
  detail::HostPart& part = recorder.part(
      this, -1, [&]() -> std::unique_ptr<detail::HostPart> { return std::make_unique<TracedSteps>(*this); });
  static_cast<TracedSteps&>(part).add(place);
  return place;
}

}  // namespace lockstep::optim
