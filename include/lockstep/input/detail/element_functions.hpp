#pragma once

#include <any>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/input/detail/inferred_type.hpp>
#include <lockstep/input/detail/positioned.hpp>
#include <lockstep/input/detail/saved_structure.hpp>
#include <lockstep/input/detail/tensor_nest.hpp>

#pragma GCC visibility push(default)

/// Turns the user's functions into functions of lists of tensors.
namespace lockstep {

template <class E>
class TypedDataset;

namespace detail {

template <class F, class E>
inline constexpr bool kTakesMembers = false;
template <class F, class... T>
inline constexpr bool kTakesMembers<F, std::tuple<T...>> = std::invocable<const F&, T...>;
template <class F, class A, class B>
inline constexpr bool kTakesMembers<F, std::pair<A, B>> = std::invocable<const F&, A, B>;

template <class F, class E>
concept ElementCallable = kTakesMembers<F, E> || std::invocable<const F&, E>;

template <class F, class E>
consteval void check_element_callable() {
  static_assert(ElementCallable<F, E>,
                "the function must be callable, as const, with one element: of a tuple or pair also with its "
                "members; a vector, as a csv record is one, is one argument: [](const "
                "std::vector<Tensor>& record)");
}

/// Calls fn(members...) for a tuple or pair if that is well-formed, else fn(element).
template <class F, class E>
requires ElementCallable<F, E>
decltype(auto) call_with_element(const F& fn, E&& element) {
  if constexpr (kTakesMembers<F, E>)
    return std::apply(fn, std::move(element));
  else
    return fn(std::move(element));
}
template <class F, class E>
using element_result_t =
    std::remove_cvref_t<decltype(call_with_element(std::declval<const F&>(), std::declval<E>()))>;

template <class T>
struct dataset_element {};
template <class E>
struct dataset_element<TypedDataset<E>> {
  using type = E;
};

/// The element type that a generator's callable returns.
template <class F>
using generated_t = typename std::remove_cvref_t<std::invoke_result_t<F&>>::value_type;

template <class F>
concept ElementGenerator = std::invocable<F&> &&
    OptionalNest<std::remove_cvref_t<std::invoke_result_t<F&>>> && TensorNest<generated_t<F>>;

/// Iterates over the elements that a generator's callable returns.
template <ElementGenerator F>
class GeneratorIterator final : public Iterator<FlatElement> {
 public:
  GeneratorIterator(F generate, InferredType<generated_t<F>> made)
      : generate_(std::move(generate)), made_(std::move(made)) {}

  std::optional<FlatElement> next() override {
    auto element = generate_();
    return element ? std::optional(made_.flatten(std::move(*element))) : std::nullopt;
  }
  std::optional<RowBlock> next_rows(std::int64_t most) override {
    using E = generated_t<F>;
    std::optional<RowBlock> rows;
    if constexpr (kIsFixed<E> || std::same_as<E, std::vector<Tensor>>) rows = generate_.next_rows(most);
    if constexpr (std::same_as<E, std::vector<Tensor>>)
      if (rows && rows->num_rows > 0) made_.flatten(E(rows->leaves.size()));
    return rows;
  }
  bool owns_memory() const override { return generate_.owns_memory(); }
  void transfer(PassState& state) override {
    readers::Position position;
    if (state.is_saving()) position = generate_.position();
    state(position);
    if (!state.is_saving()) generate_.seek(position);
  }

 private:
  Positioned<F> generate_;
  InferredType<generated_t<F>> made_;
};

/// Iterates over a dataset's elements and infers their structure from them.
template <TensorNest E>
class InferringIterator final : public Iterator<FlatElement> {
 public:
  InferringIterator(PipelineHandle pipeline, const IterationKey& key, InferredType<E> made)
      : pipeline_(std::move(pipeline)), input_(open_pipeline(pipeline_, key)), made_(std::move(made)) {}

  std::optional<FlatElement> next() override {
    std::optional<FlatElement> leaves = input_->next();
    if (!leaves) return std::nullopt;
    return made_.flatten(unflatten_element<E>(type_of(pipeline_), std::move(*leaves)));
  }
  void transfer(PassState& state) override { state(*input_); }

 private:
  PipelineHandle pipeline_;
  std::unique_ptr<Iterator<FlatElement>> input_;
  InferredType<E> made_;
};

/// A pass over a pipeline that is a part of another dataset.
template <TensorNest E>
std::unique_ptr<Iterator<FlatElement>> open_part(const PipelineHandle& pipeline, const IterationKey& key,
                                                 const InferredType<E>& made) {
  if constexpr (kIsFixed<E>)
    return open_pipeline(pipeline, key);
  else
    return std::make_unique<InferringIterator<E>>(pipeline, key, made);
}

template <class E, class F>
PipelineHandle map_pipeline(const PipelineHandle& input, const F& fn, const ParallelOptions& options) {
  using R = element_result_t<F, E>;
  static_assert(
      TensorNest<R>,
      "map: the function must return a Tensor or a nest of Tensors; make Tensor::scalar(...) of numbers");
  const InferredType<R> made("Dataset::map");
  return mapped(
      input,
      [fn, made, type = type_of(input)](FlatElement&& leaves) {
        return made.flatten(call_with_element(fn, unflatten_element<E>(type, std::move(leaves))));
      },
      made.type(), options, "Dataset::map");
}

template <class E, class F>
PipelineHandle seeded_map_pipeline(const PipelineHandle& input, const F& fn, std::uint64_t seed,
                                   const ParallelOptions& options) {
  using R = std::remove_cvref_t<std::invoke_result_t<const F&, std::uint64_t, E>>;
  static_assert(TensorNest<R>, "map_with_seed: the function must return a Tensor or a nest of Tensors");
  const InferredType<R> made("Dataset::map_with_seed");
  return mapped(
      seeded(input, seed),
      [fn, made, type = type_of(input)](FlatElement&& leaves) {
        const auto element_seed = leaves.back().template item<std::uint64_t>();
        leaves.pop_back();
        return made.flatten(fn(element_seed, unflatten_element<E>(type, std::move(leaves))));
      },
      made.type(), options, "Dataset::map_with_seed");
}

template <class T>
inline constexpr bool kIsPair = false;
template <class A, class B>
inline constexpr bool kIsPair<std::pair<A, B>> = true;

template <class F, class State, class E>
concept ScanFunction = std::invocable<const F&, const State&, E> &&
    kIsPair<std::remove_cvref_t<std::invoke_result_t<const F&, const State&, E>>> && std::convertible_to<
        typename std::remove_cvref_t<std::invoke_result_t<const F&, const State&, E>>::first_type, State> &&
    TensorNest<typename std::remove_cvref_t<std::invoke_result_t<const F&, const State&, E>>::second_type>;
template <class F, class State, class E>
using scan_result_t =
    typename std::remove_cvref_t<std::invoke_result_t<const F&, const State&, E>>::second_type;

/// Writes or reads the state of a scan. @throws Unsupported  its type has no form as bytes.
template <class State>
void transfer_scan_state(PassState& state, State& value) {
  if constexpr (TensorNest<State>) {
    if constexpr (is_loadable<State>()) {
      std::vector<std::string> structure = save_structure(value);
      FlatElement leaves = flatten(value);
      state(structure, leaves);
      if (state.is_saving()) return;
      std::optional<State> read = load_structure<State>(structure, leaves.size() + structure.size());
      if (!read || flatten(*read).size() != leaves.size()) state.fail("a scan's state is of another type");
      value = unflatten(*read, std::move(leaves));
      return;
    }
  } else if constexpr (std::same_as<State, std::string>) {
    return state(value);
  } else if constexpr (std::is_trivially_copyable_v<State> && !std::is_pointer_v<State>) {
    std::string bytes(reinterpret_cast<const char*>(&value), sizeof(State));
    state(bytes);
    if (bytes.size() != sizeof(State)) state.fail("a scan's state is of another type");
    std::memcpy(&value, bytes.data(), sizeof(State));
    return;
  }
  raise_unsaved("Dataset::scan",
                "the state is neither a nest of Tensors, nor text, nor of a type that may be copied "
                "as bytes");
}

/// A scan's function with the state of one pass.
template <class E, class State, class F>
class ScanFunctionOf final : public StatefulFunction {
 public:
  ScanFunctionOf(const State& initial_state, const F& fn, InferredType<scan_result_t<F, State, E>> made,
                 ElementType type)
      : state_(initial_state), fn_(fn), made_(std::move(made)), type_(std::move(type)) {}

  FlatElement call(FlatElement&& leaves) override {
    auto [next, result] = fn_(std::as_const(state_), unflatten_element<E>(type_, std::move(leaves)));
    FlatElement flat = made_.flatten(result);
    state_ = std::move(next);
    return flat;
  }
  void transfer(PassState& state) override { transfer_scan_state(state, state_); }

 private:
  State state_;
  const F fn_;
  InferredType<scan_result_t<F, State, E>> made_;
  ElementType type_;
};

template <class E, class State, class F>
PipelineHandle scan_pipeline(const PipelineHandle& input, const State& initial_state, const F& fn) {
  const InferredType<scan_result_t<F, State, E>> made("Dataset::scan");
  return scanned(
      input,
      [initial_state, fn, made, type = type_of(input)] {
        return std::make_unique<ScanFunctionOf<E, State, F>>(initial_state, fn, made, type);
      },
      made.type());
}

template <class E, class F>
PipelineHandle bucket_pipeline(const PipelineHandle& input, const F& length, const BucketOptions& options) {
  static_assert(std::is_convertible_v<element_result_t<F, E>, std::int64_t>,
                "bucket_by_sequence_length: the function must return the element's length as an integer");
  return bucketed(
      input,
      [length, type = type_of(input)](const FlatElement& leaves) {
        return static_cast<std::int64_t>(
            call_with_element(length, unflatten_element<E>(type, FlatElement(leaves))));
      },
      options);
}

template <class E, class F>
ElementPredicate predicate_of(const PipelineHandle& input, const F& predicate) {
  return [predicate, type = type_of(input)](const FlatElement& leaves) {
    return call_with_element(predicate, unflatten_element<E>(type, FlatElement(leaves)));
  };
}

template <class E, class F>
PipelineHandle take_while_pipeline(const PipelineHandle& input, const F& predicate) {
  static_assert(std::is_same_v<element_result_t<F, E>, bool>, "take_while: the function must return bool");
  return taken_while(input, predicate_of<E>(input, predicate));
}

template <class E, class F>
PipelineHandle filter_pipeline(const PipelineHandle& input, const F& predicate) {
  static_assert(std::is_same_v<element_result_t<F, E>, bool>, "filter: the function must return bool");
  return filtered(input, predicate_of<E>(input, predicate));
}

template <class E, class F>
PipelineHandle interleave_pipeline(const PipelineHandle& input, const F& fn, std::int64_t cycle_length,
                                   std::int64_t block_length, const ParallelOptions& options,
                                   std::string_view what = "Dataset::interleave") {
  using Made = element_result_t<F, E>;
  static_assert(
      requires { typename dataset_element<Made>::type; },
      "interleave and flat_map: the function must return a TypedDataset; of a Dataset, return "
      "dataset.as<E>()");
  using R = typename dataset_element<Made>::type;
  const InferredType<R> made(what);
  return interleaved(
      input,
      [fn, type = type_of(input)](FlatElement&& leaves) {
        return call_with_element(fn, unflatten_element<E>(type, std::move(leaves))).pipeline();
      },
      [made](const PipelineHandle& part, const IterationKey& key) { return open_part<R>(part, key, made); },
      made.type(), cycle_length, block_length, options, what);
}

template <TensorNest E>
PipelineHandle file_cache_pipeline(const PipelineHandle& input, const std::filesystem::path& path) {
  const InferredType<E> made("Dataset::cache");
  const ElementType type = type_of(input).structure().has_value() ? type_of(input) : made.type();
  StructureStore store{
      [type] { return save_structure(std::any_cast<const E&>(type.structure())); },
      [type, made](const std::vector<std::string>& saved,
                   std::uint64_t max_leaves) -> std::optional<std::size_t> {
        const std::optional<E> structure = load_structure<E>(saved, max_leaves);
        if (!structure) return std::nullopt;
        const std::size_t num_leaves = flatten(*structure).size();
        if (const std::any known = type.structure(); !known.has_value())
          made.flatten(*structure);
        else if (describe_structure(std::any_cast<const E&>(known)) != describe_structure(*structure))
          return std::nullopt;
        return num_leaves;
      }};
  return cached_in_file(
      input, path,
      [made](const PipelineHandle& part, const IterationKey& key) { return open_part<E>(part, key, made); },
      type, std::move(store));
}

template <class E>
std::vector<PipelineHandle> pipelines_of(const std::vector<TypedDataset<E>>& datasets) {
  std::vector<PipelineHandle> pipelines;
  for (const TypedDataset<E>& dataset : datasets) pipelines.push_back(dataset.pipeline());
  return pipelines;
}

template <class Make>
PipelineHandle generate_pipeline(const Make& make) {
  using F = std::remove_cvref_t<std::invoke_result_t<const Make&>>;
  const InferredType<generated_t<F>> made("Dataset::from_generator");
  return generator_pipeline([make, made] { return std::make_unique<GeneratorIterator<F>>(make(), made); },
                            made.type());
}

template <class Reader>
using file_generator_t =
    std::remove_cvref_t<std::invoke_result_t<const Reader&, const std::filesystem::path&>>;

template <class Reader>
PipelineHandle read_pipeline(std::vector<std::filesystem::path> paths, const Reader& reader) {
  using F = file_generator_t<Reader>;
  const InferredType<generated_t<F>> made("Dataset::from_files");
  return files_pipeline(
      std::move(paths),
      [reader, made](const std::filesystem::path& path) {
        return std::make_unique<GeneratorIterator<F>>(reader(path), made);
      },
      made.type());
}

}  // namespace detail
}  // namespace lockstep

#pragma GCC visibility pop
