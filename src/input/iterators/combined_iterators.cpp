#include "input/iterators/combined_iterators.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/pipeline/stopping.hpp"
#include "input/state/pipeline_state.hpp"

namespace lockstep::detail {

void check_structures(std::string_view what, const std::string& first, const std::string& second) {
  LOCKSTEP_EXPECTS(first == second, InvalidArgument, what,
                   ": the elements of one dataset have the structure ", first, ", those of another ", second,
                   ". Give all elements the same keys and lengths.");
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
    if (!first.empty()) check_structures("Dataset::concatenate", first, second_->type.text());
    is_checked_ = !first.empty();
  }
  return element;
}

void ConcatenateIterator::transfer(PassState& state) {
  state(in_second_);
  if (in_second_ && !state.is_saving()) input_ = second_->open(key_.from(first_->counts.size()));
  state(*input_);
}

std::optional<FlatElement> ChooseIterator::next() {
  while (num_open_ > 0) {
    check_stop();
    const std::optional<std::int64_t> choice = choices_->next();
    if (!choice) break;
    LOCKSTEP_EXPECTS(0 <= *choice && *choice < static_cast<std::int64_t>(passes_.size()), InvalidArgument,
                     what_, ": the choice ", *choice, " is no index of one of ", passes_.size(),
                     " datasets. Choose one from 0 to ", passes_.size() - 1, ".");
    const auto index = static_cast<std::size_t>(*choice);
    if (!passes_[index]) continue;
    if (std::optional<FlatElement> element = passes_[index]->next()) {
      check_structure(index);
      return element;
    }
    passes_[index].reset();
    num_open_ = stop_on_empty_ ? 0 : num_open_ - 1;
  }
  end();
  return std::nullopt;
}

void ChooseIterator::end() noexcept {
  num_open_ = 0;
  for (auto& pass : passes_) pass.reset();
}

void ChooseIterator::transfer(PassState& state) {
  if (!state.flag(num_open_ > 0)) return end();
  state(*choices_);
  num_open_ = 0;
  for (auto& pass : passes_) {
    state(pass);
    if (pass) ++num_open_;
  }
}

void ChooseIterator::check_structure(std::size_t choice) {
  if (is_checked_[choice]) return;
  const std::string own = pipelines_[choice]->type.text();
  for (const PipelineHandle& other : pipelines_)
    if (const std::string text = other->type.text(); !text.empty()) check_structures(what_, text, own);
  is_checked_[choice] = true;
}

// Not a standard distribution, so that the choices are the same with every standard library.
std::optional<std::int64_t> RandomChoiceIterator::next() {
  const double u = static_cast<double>(random_() >> 11) * 0x1p-53;  // in [0, 1)
  const auto at = std::ranges::upper_bound(*weights_, u * weights_->back());
  return std::min(at, weights_->end() - 1) - weights_->begin();
}

void RandomChoiceIterator::transfer(PassState& state) { state(random_); }

std::optional<std::int64_t> IndexIterator::next() {
  const std::optional<FlatElement> element = input_->next();
  if (!element) return std::nullopt;
  const Tensor value = element->size() == 1 ? element->front() : Tensor();
  LOCKSTEP_EXPECTS(value.size() == 1 && is_integer(value.dtype()), InvalidArgument,
                   "Dataset::choose_from_datasets: a choice is a tensor ", value.shape(), ' ', value.dtype(),
                   ". Pass choices that are integer scalars, such as Dataset::range(n).repeat().");
  return value.cast(DType::i64).item<std::int64_t>();
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
