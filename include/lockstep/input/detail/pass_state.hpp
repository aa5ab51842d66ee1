#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/detail/shared_function.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep::detail {

class RowTable;  // input/pipeline/pipeline.hpp

/// What remains to be done once a pass goes on where a saved one was. None of them throws.
using RestoreActions = std::vector<SharedFunction<void()>>;

/// Writes the position of a pass, or reads it: the parts of a pass name their members once, for both.
///
///     void transfer(PassState& state) override { state(*input_, num_left_); }
///
/// Reading does not trust what it reads: it throws what `fail` throws, and takes memory of a few times the
/// bytes' number, whatever they say. A part that has failed to read may only be destroyed.
class PassState {
 public:
  /// For writing.
  PassState();
  /// For reading. @param bytes  outlive this.
  explicit PassState(std::string_view bytes);
  /// For reading a part of what `whole` reads. @param whole  outlives this.
  PassState(std::string_view bytes, PassState& whole);
  ~PassState();
  PassState(const PassState&) = delete;
  PassState& operator=(const PassState&) = delete;

  [[nodiscard]] bool is_saving() const noexcept;
  /// Writes the values, or sets them: numbers, texts, elements, lists of values, objects that have
  /// `transfer`, and types for which there is a function transfer(state, value).
  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  /// Writes whether something is there, or reads whether it was.
  bool flag(bool value);
  /// Writes a number of values, or reads it. Each of them has at least one byte.
  std::size_t length(std::size_t size);
  /// Reports that the bytes are wrong. @throws FileFault
  [[noreturn]] void fail(std::string reason) const;

  /// What is taken from the state beside the pass: a seed, a cache. Until the whole state has been read, and
  /// the pass goes on there, others must not see it. @param action  does not throw; destroyed without a call
  /// if the state is not restored.
  void when_restored(SharedFunction<void()> action);
  /// The actions of this and its parts.
  [[nodiscard]] RestoreActions take_actions() noexcept;

  /// What was written.
  [[nodiscard]] std::string take();
  /// Everything has been read. @throws FileFault  bytes are left.
  void expect_end() const;

  /// The tables of sources, in the order of their `add`: batches name them by their numbers.
  void add(std::shared_ptr<const RowTable> table);
  [[nodiscard]] const std::vector<std::shared_ptr<const RowTable>>& tables() const noexcept;

 private:
  std::uint64_t number(std::uint64_t value);
  void text(std::string& value);
  void element(std::vector<Tensor>& value);

  template <class T>
  void one(T& value) {
    if constexpr (requires { value.transfer(*this); })
      value.transfer(*this);
    else if constexpr (std::same_as<T, bool>)
      value = flag(value);
    else if constexpr (std::integral<T>)
      value = static_cast<T>(number(static_cast<std::uint64_t>(value)));
    else if constexpr (std::same_as<T, std::string>)
      text(value);
    else if constexpr (std::same_as<T, std::vector<Tensor>>)
      element(value);
    else
      transfer(*this, value);
  }

  struct Bytes;
  std::unique_ptr<Bytes> bytes_;
};

template <class List>
void transfer_list(PassState& state, List& list) {
  const std::size_t size = state.length(list.size());
  if (!state.is_saving()) list.clear();
  for (std::size_t i = 0; i < size; ++i) {
    if (!state.is_saving()) list.emplace_back();
    state(list[i]);
  }
}
template <class T>
void transfer(PassState& state, std::vector<T>& list) {
  transfer_list(state, list);
}
template <class T>
void transfer(PassState& state, std::deque<T>& list) {
  transfer_list(state, list);
}
template <class T>
void transfer(PassState& state, std::optional<T>& value) {
  if (!state.flag(value.has_value())) {
    value.reset();
    return;
  }
  if (!value) value.emplace();
  state(*value);
}

/// An input that may have ended, and is null then.
template <class Pass>
void transfer(PassState& state, std::unique_ptr<Pass>& pass) {
  if (!state.flag(pass != nullptr))
    pass.reset();
  else if (pass == nullptr)
    state.fail("an input that has not been opened has a position");
  else
    state(*pass);
}

/// An input that is opened late. @param open  opens it, if the state has one and this pass none yet.
template <class Pass, class Open>
void transfer_opened(PassState& state, std::unique_ptr<Pass>& pass, const Open& open) {
  if (!state.flag(pass != nullptr)) {
    pass.reset();
    return;
  }
  if (pass == nullptr) pass = open();
  state(*pass);
}

}  // namespace lockstep::detail

#pragma GCC visibility pop
