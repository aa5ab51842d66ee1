#include <algorithm>
#include <ostream>

#include <lockstep/input/tensor_spec.hpp>

#include "detail/concat.hpp"

namespace lockstep {

bool TensorSpec::is_static() const noexcept {
  return is_known &&
         std::all_of(extents.begin(), extents.end(), [](const auto& extent) { return extent.has_value(); });
}

bool TensorSpec::is_compatible_with(const Shape& shape, DType type) const noexcept {
  if (!is_known) return true;
  return dtype == type &&
         std::equal(extents.begin(), extents.end(), shape.begin(), shape.end(),
                    [](const auto& known, std::int64_t extent) { return !known || *known == extent; });
}

std::string to_string(const TensorSpec& spec) {
  if (!spec.is_known) return "unknown";
  std::string text = "[";
  for (const auto& extent : spec.extents) {
    if (text.size() > 1) text += ", ";
    text += extent ? std::to_string(*extent) : "?";
  }
  return detail::concat(text, "] ", spec.dtype);
}

std::ostream& operator<<(std::ostream& out, const TensorSpec& spec) { return out << to_string(spec); }

}  // namespace lockstep
