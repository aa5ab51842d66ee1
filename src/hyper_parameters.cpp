#include "hyper_parameters.hpp"

#include <cmath>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

void require_at_least_0(std::string_view who, std::string_view what, double value) {
  LOCKSTEP_EXPECTS(std::isfinite(value) && value >= 0, InvalidArgument, who, ": ", what, " is ", value,
                   ". It must be a number of at least 0.");
}

void require_above_0(std::string_view who, std::string_view what, double value) {
  LOCKSTEP_EXPECTS(std::isfinite(value) && value > 0, InvalidArgument, who, ": ", what, " is ", value,
                   ". It must be a number above 0.");
}

void require_fraction(std::string_view who, std::string_view what, double value) {
  LOCKSTEP_EXPECTS(value >= 0 && value < 1, InvalidArgument, who, ": ", what, " is ", value,
                   ". It must be in [0, 1).");
}

}  // namespace lockstep::detail
