#include <any>
#include <mutex>
#include <utility>

#include <lockstep/input/detail/inferred_type.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

void raise_unsaved(std::string_view what, std::string_view reason) {
  raise<Unsupported>({__FILE__, __LINE__, __func__},
                     concat("save_state: ", what, ": ", reason, ". Give it a type of another kind."));
}

void LearnedStructure::learn(std::string text, FunctionRef<std::any()> structure, std::string_view what) {
  const std::scoped_lock lock(mutex_);
  if (!structure_.has_value()) {
    structure_ = structure();
    text_ = std::move(text);
    return;
  }
  LOCKSTEP_EXPECTS(text == text_, InvalidArgument, what, ": an element has the structure ", text,
                   ", the first one had ", text_, ". Make all elements with the same keys and lengths.");
}

std::any LearnedStructure::get() const {
  const std::scoped_lock lock(mutex_);
  return structure_;
}

std::string LearnedStructure::text() const {
  const std::scoped_lock lock(mutex_);
  return text_;
}

}  // namespace lockstep::detail
