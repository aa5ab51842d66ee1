#include <lockstep/optim/gradient.hpp>

namespace lockstep::optim {

std::optional<ReduceValue> Gradient::value() const&& { return value_; }

}  // namespace lockstep::optim
