#include <any>
#include <mutex>
#include <utility>

#include <lockstep/input/bad_record.hpp>
#include <lockstep/input/detail/inferred_type.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

void raise_unsaved(std::string_view what, std::string_view reason) {
  raise<Unsupported>({__FILE__, __LINE__, __func__},
                     concat("save_state: ", what, ": ", reason, ". Give it a type of another kind."));
}

namespace {

/// Of a file's elements only this one is wrong, so that the pass goes on behind it.
void check_same(const std::string& text, const std::string& first, std::string_view what) {
  LOCKSTEP_EXPECTS(text == first, readers::BadRecord, what, ": an element has the structure ", text,
                   ", the first one had ", first, ". Make all elements with the same keys and lengths.");
}

}  // namespace

void LearnedStructure::learn(std::string text, FunctionRef<std::any()> structure, std::string_view what) {
  const std::scoped_lock lock(mutex_);
  if (is_shown_) return check_same(text, text_, what);
  if (!structure_.has_value() || text != text_) {
    structure_ = structure();
    text_ = std::move(text);
  }
  is_shown_ = true;
}

/// A state that has the structure, from its reading to its end.
class LearnedStructure::Reading {
 public:
  explicit Reading(std::shared_ptr<LearnedStructure> learned) : learned_(std::move(learned)) {}
  ~Reading() {
    if (!has_begun_ || !learned_->mutex_.lock_unless_lost()) return;
    const std::scoped_lock lock(std::adopt_lock, learned_->mutex_);
    if (--learned_->num_readings_ > 0 || learned_->is_shown_) return;
    learned_->structure_.reset();
    learned_->text_.clear();
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  void begin(std::string&& text, std::any&& structure, std::string_view what) {
    const std::scoped_lock lock(learned_->mutex_);
    if (learned_->structure_.has_value()) {
      check_same(text, learned_->text_, what);
    } else {
      learned_->structure_ = std::move(structure);
      learned_->text_ = std::move(text);
    }
    ++learned_->num_readings_;
    has_begun_ = true;
  }
  void keep() noexcept {
    if (!learned_->mutex_.lock_unless_lost()) return;
    const std::scoped_lock lock(std::adopt_lock, learned_->mutex_);
    learned_->is_shown_ = true;
  }

 private:
  std::shared_ptr<LearnedStructure> learned_;  // owners: as InferredType's
  bool has_begun_ = false;
};

void LearnedStructure::learn(const std::shared_ptr<LearnedStructure>& learned, std::string text,
                             std::any structure, std::string_view what, PassState& state) {
  const auto reading = std::make_shared<Reading>(learned);  // owners: this call and the action
  state.when_restored([reading] { reading->keep(); });
  reading->begin(std::move(text), std::move(structure), what);
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
