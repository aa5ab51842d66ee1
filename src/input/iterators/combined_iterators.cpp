#include "input/iterators/combined_iterators.hpp"

#include <exception>
#include <iterator>
#include <string>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/pipeline/stopping.hpp"

namespace lockstep::detail {

void check_structures(const std::string& first, const std::string& second) {
  LOCKSTEP_EXPECTS(first == second, InvalidArgument,
                   "Dataset::concatenate: the elements of the first dataset have the structure ", first,
                   ", those of the second ", second, ". Give all elements the same keys and lengths.");
}

std::optional<FlatElement> ConcatenateIterator::next() {
  std::optional<FlatElement> element = input_->next();
  if (!element && !in_second_) {
    input_ = second_->open(key_.from(first_->counts.size()));
    in_second_ = true;
    element = input_->next();
  }
  if (element && in_second_ && !is_checked_) {
    const std::string first = first_->type.text();
    if (!first.empty()) check_structures(first, second_->type.text());
    is_checked_ = !first.empty();
  }
  return element;
}

std::optional<FlatElement> ZipIterator::next() {
  FlatElement whole;
  std::exception_ptr error;
  for (std::size_t i = 0; i < inputs_.size() && !ended_; ++i) {
    try {
      std::optional<FlatElement> part = inputs_[i]->next();
      ended_ = !part;
      if (ended_) break;
      whole.insert(whole.end(), std::make_move_iterator(part->begin()), std::make_move_iterator(part->end()));
    } catch (const Stopped&) {
      throw;
    } catch (...) {
      if (!error) error = std::current_exception();  // the others advance too, to stay in step
    }
  }
  if (error) std::rethrow_exception(error);
  return ended_ ? std::nullopt : std::optional(std::move(whole));
}

}  // namespace lockstep::detail
