#include "input/iterators/ignore_errors_iterator.hpp"

#include "detail/concat.hpp"
#include "detail/warn.hpp"
#include "input/pipeline/element_error.hpp"

namespace lockstep::detail {

void IgnoredErrors::add(const Error& error) {
  const bool is_of_element = dynamic_cast<const ContextError*>(&error) == nullptr &&
                             dynamic_cast<const OutOfMemory*>(&error) == nullptr &&
                             dynamic_cast<const CallError*>(&error) == nullptr;
  if (!is_of_element) throw;
  if (count_ == max_) throw;
  ++count_;
  if (report_) return report_(error, count_);
  if (count_ == 1) warn(concat("Dataset::ignore_errors: an element is left out: ", error.what()));
}

void IgnoredErrors::end() {
  if (std::exchange(has_ended_, true) || report_ || count_ < 2) return;
  warn(concat("Dataset::ignore_errors: ", count_, " elements were left out"));
}

}  // namespace lockstep::detail
