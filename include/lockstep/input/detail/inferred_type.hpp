#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/input/detail/pass_state.hpp>
#include <lockstep/input/detail/saved_structure.hpp>
#include <lockstep/input/detail/tensor_nest.hpp>

#pragma GCC visibility push(default)

/// The structure of elements that functions make, which the first of them shows.
namespace lockstep::detail {

/// The most lengths and leaves of an element whose structure is read from a state.
inline constexpr std::uint64_t kMostSavedParts = 1 << 20;

/// @throws Unsupported  always: a pass cannot be saved, for this reason.
[[noreturn]] void raise_unsaved(std::string_view what, std::string_view reason);

/// The structure of elements whose lengths or keys are known from the first element on. Thread-safe.
class LearnedStructure {
 public:
  /// @param text  an element's structure. @param structure  makes the element without its data; called for
  /// the first element only.
  /// @throws InvalidArgument  the structure differs from that of earlier elements; names `what`.
  void learn(std::string text, FunctionRef<std::any()> structure, std::string_view what);
  /// Learns what a state has. It is forgotten if the state is not restored, unless an element has shown it;
  /// one that shows another meanwhile is right. @throws InvalidArgument  as the other.
  static void learn(const std::shared_ptr<LearnedStructure>& learned, std::string text, std::any structure,
                    std::string_view what, PassState& state);
  std::any get() const;
  std::string text() const;

 private:
  class Reading;

  mutable Mutex mutex_{"the structure of a dataset's elements"};  // guards all members below
  std::any structure_;
  std::string text_;
  bool is_shown_ = false;          // by an element or a restored state
  std::int64_t num_readings_ = 0;  // of states that have it
};

/// The inferred type of elements that a function makes. Copies share what they infer.
template <TensorNest E>
class InferredType {
 public:
  explicit InferredType(std::string_view what) : what_(what) {
    if constexpr (!kIsFixed<E>) learned_ = std::make_shared<LearnedStructure>();
  }

  /// The tensors of an element.
  FlatElement flatten(const E& element) const {
    learn(element);
    return detail::flatten(element);
  }
  FlatElement flatten(E&& element) const {
    learn(element);
    if constexpr (std::is_same_v<E, FlatElement>) {
      return std::move(element);
    } else if constexpr (std::is_same_v<E, Tensor>) {
      FlatElement leaves(1);
      leaves[0] = std::move(element);
      return leaves;
    } else {
      return detail::flatten(element);
    }
  }
  ElementType type() const {
    if constexpr (kIsFixed<E>)
      return known_type(E{});
    else
      return {&typeid(E), 0, [learned = learned_] { return learned->get(); },
              [learned = learned_] { return learned->text(); },
              [made = *this](PassState& state) { made.transfer(state); }};
  }

 private:
  void learn(const E& element) const {
    if constexpr (!kIsFixed<E>)
      learned_->learn(
          describe_structure(element), [&] { return std::any(structure_of(element)); }, what_);
  }
  /// Writes the structure as far as it is known, or learns it.
  void transfer(PassState& state) const {
    const std::any known = learned_->get();
    if (!state.flag(known.has_value())) return;
    if constexpr (is_loadable<E>()) {
      std::vector<std::string> saved;
      if (known.has_value()) saved = save_structure(std::any_cast<const E&>(known));
      state(saved);
      if (state.is_saving()) return;
      const std::optional<E> structure = load_structure<E>(saved, kMostSavedParts);
      if (!structure) state.fail("an element's lengths and keys are not those of its type");
      LearnedStructure::learn(learned_, describe_structure(*structure), structure_of(*structure), what_,
                              state);
    } else {
      raise_unsaved(what_, "the elements have a struct without a default constructor");
    }
  }

  std::string_view what_;                      // a literal
  std::shared_ptr<LearnedStructure> learned_;  // owners: the functions and the types; null: the type is fixed
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
