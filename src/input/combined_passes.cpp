#include "input/combined_passes.hpp"

#include <exception>
#include <iterator>

#include <lockstep/error.hpp>

#include "input/element_error.hpp"
#include "input/prefetch_pass.hpp"
#include "input/stopping.hpp"

namespace lockstep::detail {

std::optional<FlatElement> ConcatenatePass::next() {
  std::optional<FlatElement> element = input_->next();
  if (!element && !in_second_) {
    input_ = second_->open();
    in_second_ = true;
    element = input_->next();
  }
  if (element && in_second_ && first_->type.structure().has_value())
    LOCKSTEP_EXPECTS(first_->type.text() == second_->type.text(), InvalidArgument,
                     "Dataset::concatenate: the elements of the first dataset have the structure ",
                     first_->type.text(), ", those of the second ", second_->type.text(),
                     ". Give all elements the same keys and lengths.");
  return element;
}

std::optional<FlatElement> ZipPass::next() {
  if (ended_) return std::nullopt;
  FlatElement whole;
  std::exception_ptr error;
  for (const auto& input : inputs_) {
    try {
      std::optional<FlatElement> part = input->next();
      ended_ = !part;
      if (ended_) return std::nullopt;
      whole.insert(whole.end(), std::make_move_iterator(part->begin()), std::make_move_iterator(part->end()));
    } catch (const Stopped&) {
      throw;
    } catch (...) {
      if (!error) error = std::current_exception();  // the others go on too, to stay in step
    }
  }
  if (error) std::rethrow_exception(error);
  return whole;
}

void InterleavePass::advance() noexcept {
  place_ = (place_ + 1) % cycle_length_;
  block_ = 0;
}

void InterleavePass::fill() {
  std::optional<FlatElement> element = input_->next();
  if (!element) {
    input_.reset();
    return;
  }
  std::unique_ptr<Pass<FlatElement>> pass =
      call_for_element("Dataset::interleave", index_++, [&] { return fn_(std::move(*element)); });
  if (place_ < num_threads_) {  // one thread for each of the first places
    auto shared = std::make_shared<std::unique_ptr<Pass<FlatElement>>>(std::move(pass));
    pass = std::make_unique<PrefetchPass>([shared] { return std::move(*shared); }, 1);
  }
  cycle_[static_cast<std::size_t>(place_)] = std::move(pass);
  ++num_open_;
}

std::optional<FlatElement> InterleavePass::next() {
  while (input_ || num_open_ > 0) {
    check_stop();
    const auto place = static_cast<std::size_t>(place_);
    if (place == cycle_.size()) {
      if (input_)
        cycle_.emplace_back();
      else
        cycle_length_ = place_;  // never reached, never filled
    }
    if (place == static_cast<std::size_t>(cycle_length_)) {
      place_ = 0;
    } else if (cycle_[place]) {
      if (std::optional<FlatElement> element = cycle_[place]->next()) {
        if (++block_ == block_length_) advance();
        return element;
      }
      cycle_[place].reset();
      --num_open_;
      advance();
    } else if (input_) {
      fill();
    } else {
      advance();
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::detail
