#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include <lockstep/input/dataset_iterator.hpp>
#include <lockstep/input/detail/element_functions.hpp>
#include <lockstep/input/detail/pipeline.hpp>
#include <lockstep/input/detail/tensor_nest.hpp>
#include <lockstep/input/parallel_options.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace detail {

class DatasetHandle {
 public:
  explicit DatasetHandle(PipelineHandle pipeline) : pipeline_(std::move(pipeline)) {}
  DatasetHandle(const DatasetHandle&) = default;  // no move: a handle is never empty
  DatasetHandle& operator=(const DatasetHandle&) = default;

  /// For the library.
  const PipelineHandle& pipeline() const& noexcept { return pipeline_; }
  PipelineHandle pipeline() const&& { return pipeline_; }

 private:
  PipelineHandle pipeline_;
};

/// Transformations that keep the type of a dataset's elements. `Self` is the dataset's type; `Base` is the
/// class to which the transformations are added. A typed dataset's transformations hide those of the untyped
/// one.
template <class Self, class Base>
class Transformations : public Base {
 public:
  using Base::Base;

  /// Argument of `repeat`: without end.
  static constexpr std::int64_t forever = kForever;
  /// Both arguments of `shard`: a placeholder that AutoShardPolicy::hint fills in.
  static constexpr std::int64_t shard_hint = kShardHint;

  /// The elements in random order: each is drawn from a buffer of the next `buffer_size` elements, so that
  /// with a buffer as large as the dataset all orders are equally likely. Each pass has another order.
  ///
  /// The order depends on `seed`, on the iterator's number, and on the place within its pass: which
  /// repetition, which element of `interleave`, and how many shuffles and repetitions come before this one.
  /// It does not depend on threads, nor on how far other iterators were read. Iterators are numbered when
  /// they are made, jointly for all datasets derived from this one, but separately for each shard, so that
  /// shards remain parts of one order. Datasets shuffled with one seed stay aligned in `zip`. Without a seed
  /// the order differs from run to run. Without reshuffle_each_iteration all passes, repetitions and datasets
  /// of `interleave` have the order of the first pass.
  /// @throws InvalidArgument  buffer_size < 1; on `next`, there is no seed although this process keeps a
  /// share of elements that other processes share too (auto_shard): each process would draw another order.
  Self shuffle(std::int64_t buffer_size, std::optional<std::uint64_t> seed = {},
               bool reshuffle_each_iteration = true) const {
    return Self(shuffled(this->pipeline(), buffer_size, seed, reshuffle_each_iteration));
  }
  /// Stacks `batch_size` elements at a time along a new first axis. The last batch may have fewer rows; with
  /// drop_remainder such a batch is dropped. If an element throws, the next call goes on: its batch begins
  /// with the elements before it.
  /// @throws InvalidArgument  batch_size < 1; on `next`, elements have different shapes or dtypes: the call
  /// after that returns the next batch.
  Self batch(std::int64_t batch_size, bool drop_remainder = false) const {
    return Self(batched(this->pipeline(), batch_size, drop_remainder));
  }
  /// `count` passes, one after the other. A dataset without elements ends at once, even with `forever`.
  /// @throws InvalidArgument  count is negative and not `forever`.
  Self repeat(std::int64_t count = forever) const { return Self(repeated(this->pipeline(), count)); }
  /// The first `count` elements. @throws InvalidArgument  count < 0.
  Self take(std::int64_t count) const { return Self(taken(this->pipeline(), count)); }
  /// All but the first `count` elements. @throws InvalidArgument  count < 0.
  Self skip(std::int64_t count) const { return Self(skipped(this->pipeline(), count)); }
  /// Elements index, index + num_shards, …; an element that throws counts too, and throws in every shard. The
  /// shards of one dataset are disjoint, even if it is shuffled without a seed; this does not hold for shards
  /// of two such datasets. With `shard_hint` for both arguments the shard is the input pipeline's, once
  /// auto_shard or distribute_dataset has been called with AutoShardPolicy::hint; before that `next` throws
  /// ContextError. Hints in datasets that `interleave`'s function makes are filled in too.
  /// @throws InvalidArgument  num_shards < 1, or the index is not in [0, num_shards).
  Self shard(std::int64_t num_shards, std::int64_t index) const {
    return Self(sharded(this->pipeline(), num_shards, index));
  }
  /// Batches of elements of different lengths, such as texts: each component's rows are padded at the end of
  /// each axis to the longest of the batch, or to the options' shape. Else as `batch`.
  /// @throws InvalidArgument  batch_size < 1; the options have a negative extent, or another number of shapes
  /// or values than elements have components. On `next`: ranks or dtypes differ, a row is longer than its
  /// padded shape, or a component's dtype does not hold the padding value.
  Self padded_batch(std::int64_t batch_size, const PaddedBatchOptions& options = {}) const {
    return Self(padded_batched(this->pipeline(), batch_size, options));
  }
  /// The rows of each element, one by one: what `batch` has stacked, or any nest whose tensors have as many
  /// rows as each other. @throws InvalidArgument  a component is known to be a scalar; on `next`, at that
  /// element, also one that turns out to be a scalar, or components with different numbers of rows.
  Self unbatch() const { return Self(unbatched(this->pipeline())); }
  /// Batches of `size` elements that may overlap: window i has the elements i·shift, i·shift + stride, …,
  /// stacked along a new first axis, as tf.data's `window` followed by `flat_map` with `batch`. `shift` is
  /// `size` unless it is given. The last windows may have fewer rows; with drop_remainder such a window is
  /// dropped. Errors are as for `batch`.
  /// @throws InvalidArgument  size, shift or stride < 1, or a window spans more than 2^63 - 1 elements.
  Self window(std::int64_t size, std::optional<std::int64_t> shift = {}, std::int64_t stride = 1,
              bool drop_remainder = false) const {
    return Self(windowed(this->pipeline(), size, shift.value_or(size), stride, drop_remainder));
  }
  /// Leaves out elements that throw, up to `max` of them in a pass; every later one throws. What is not about
  /// an element but about the calls throws all the same: ContextError and OutOfMemory. `report` is called for
  /// each element that is left out, on the thread that takes the elements. Without it the log says what the
  /// first one threw, and at the end how many there were.
  /// @throws InvalidArgument  max is negative and not `forever`.
  Self ignore_errors(std::int64_t max = forever, detail::ErrorReport report = {}) const {
    return Self(errors_ignored(this->pipeline(), max, std::move(report)));
  }
  /// fn(*this): lets a function of the user's stand in a chain of transformations.
  template <class F>
  requires std::invocable<F, const Self&>
  [[nodiscard]] decltype(auto) apply(F&& fn) const {
    return std::forward<F>(fn)(static_cast<const Self&>(*this));
  }
  /// These elements, then `other`'s. @throws InvalidArgument  the elements' types differ, or their lengths or
  /// keys; the latter on `next` if they are not known before.
  Self concatenate(const Self& other) const { return Self(concatenated(this->pipeline(), other.pipeline())); }
  /// Keeps the elements of the first pass that is read to its end in memory: later passes over this dataset
  /// and its copies read nothing else. A pass that is dropped or throws keeps nothing; if a pass is dropped
  /// midway, the log says so, once for each dataset. A pass is read to its end only when a call of `next`
  /// finds no further element; a later `take` prevents this.
  Self cache() const { return Self(cached(this->pipeline())); }
  /// The same elements, made ahead on a thread of each pass, up to `buffer_size` of them. The thread starts
  /// with the first `next`. Dropping the pass waits for the function that the thread is calling, if any.
  /// @throws InvalidArgument  buffer_size < 1.
  Self prefetch(std::int64_t buffer_size) const { return Self(prefetched(this->pipeline(), buffer_size)); }
};

}  // namespace detail

/// A sequence of elements, each a nest of tensors; this handle does not know their static type.
///
/// A cheap handle to an immutable description: nothing is read before a pass starts, and each pass is
/// independent. Several threads may use copies. Elements are made on the host (CPU:0) as copies, so writing
/// to one changes nothing else.
///
/// Functions are copied and called as const. Every pass calls them on the thread that takes the elements (for
/// a distributed dataset the thread that makes steps ahead, see DistributedIterator); below `prefetch` and
/// with `num_parallel_calls` the pass calls them on its own threads. Passes on several threads call them
/// concurrently. During a call the default context, CPU:0 and CPU:0's own stream are current, whatever scopes
/// the thread is in. If a function throws, `next` throws at that element: an Error whose message
/// begins with the transformation and the element's index, of the same class if the exception is one of
/// lockstep's, with the original nested (std::rethrow_if_nested). The next call continues with the following
/// element.
class Dataset : public detail::Transformations<Dataset, detail::DatasetHandle> {
 public:
  using Transformations::Transformations;

  /// One element for each index of the first axis of one tensor, or of all tensors of a nest together.
  ///
  /// Tensors on the host are shared, not copied: do not write to them while the dataset is in use.
  /// @return elements of the nest's type. @throws InvalidArgument  a tensor is a scalar, the numbers of rows
  /// differ, or there are no tensors.
  template <detail::TensorNest E>
  [[nodiscard]] static TypedDataset<E> from_tensor_slices(const E& nest);
  /// The same for a tuple of the arguments.
  template <detail::TensorNest... E>
  requires(sizeof...(E) > 1) static TypedDataset<std::tuple<E...>> from_tensor_slices(const E&... nests) {
    return from_tensor_slices(std::tuple<E...>(nests...));
  }

  /// The i64 scalars 0, 1, … below stop.
  [[nodiscard]] static TypedDataset<Tensor> range(std::int64_t stop);
  /// The i64 scalars start, start + step, … below (above, with a negative step) stop.
  /// @throws InvalidArgument  step is 0.
  [[nodiscard]] static TypedDataset<Tensor> range(std::int64_t start, std::int64_t stop,
                                                  std::int64_t step = 1);

  /// The elements that calls of `make()` return until one returns nothing. `make` is called when a pass
  /// starts, and returns a callable that returns std::optional<E>. If `make` throws, the pass has ended.
  template <class Make>
  requires detail::ElementGenerator<std::remove_cvref_t<std::invoke_result_t<const Make&>>>
  [[nodiscard]] static auto from_generator(Make make) {
    using E = detail::generated_t<std::remove_cvref_t<std::invoke_result_t<const Make&>>>;
    return TypedDataset<E>(detail::generate_pipeline(make));
  }

  /// The elements of files, one file after the other: those that calls of `reader(path)` return until one
  /// returns nothing. `reader` is called when a pass reaches the file (lockstep/input/readers.hpp has several
  /// readers). After an exception the pass continues with the next file.
  template <class Reader>
  requires detail::ElementGenerator<detail::file_generator_t<Reader>>
  [[nodiscard]] static auto from_files(std::vector<std::filesystem::path> paths, Reader reader) {
    using E = detail::generated_t<detail::file_generator_t<Reader>>;
    return TypedDataset<E>(detail::read_pipeline(std::move(paths), reader));
  }

  /// Tuples of one element of each dataset; ends with the shortest dataset.
  template <class... E>
  requires(sizeof...(E) > 0) static TypedDataset<std::tuple<E...>> zip(const TypedDataset<E>&... datasets);

  /// Elements of several datasets, each taken from one that is drawn at random with probability
  /// weights[i] / Σ weights; without weights all are equally likely. The order depends on `seed` and the pass
  /// as that of `shuffle` does. A dataset that has ended is drawn in vain, until all have ended; with
  /// stop_on_empty the first one ends the pass. Of a dataset with weight 0 nothing is taken.
  /// @throws InvalidArgument  there are no datasets, another number of weights, a weight that is negative or
  /// not finite, or none above 0; the datasets' elements have different dtypes or structures (on `next` if
  /// they are not known before).
  template <class E>
  [[nodiscard]] static TypedDataset<E> sample_from_datasets(const std::vector<TypedDataset<E>>& datasets,
                                                            const std::vector<double>& weights = {},
                                                            std::optional<std::uint64_t> seed = {},
                                                            bool stop_on_empty = false);
  /// Elements of several datasets, each taken from the one whose index is the next element of `choices`, an
  /// integer scalar. Ends with `choices`, and with stop_on_empty as soon as an element is wanted of a dataset
  /// that has ended; else such a choice is passed over.
  /// @throws InvalidArgument  as sample_from_datasets; on `next`, a choice is no index of a dataset.
  template <class E>
  [[nodiscard]] static TypedDataset<E> choose_from_datasets(const std::vector<TypedDataset<E>>& datasets,
                                                            const TypedDataset<Tensor>& choices,
                                                            bool stop_on_empty = true);

  /// Results of `cardinality`: the dataset has no end, or its elements have not been counted.
  static constexpr std::int64_t infinite_cardinality = detail::kInfiniteCardinality;
  static constexpr std::int64_t unknown_cardinality = detail::kUnknownCardinality;
  /// The number of elements of a pass, as far as it is known without reading any. It is unknown for files,
  /// generators, filter, take_while, interleave, flat_map, ignore_errors, bucket_by_sequence_length,
  /// choose_from_datasets and most calls of unbatch and sample_from_datasets, and for datasets derived from
  /// them; but take(0) and repeat(0) are known to be empty.
  [[nodiscard]] std::int64_t cardinality() const noexcept { return detail::cardinality_of(pipeline()); }

  /// The typed form, which can be iterated. @throws InvalidArgument  the elements' type is not `E`.
  template <detail::TensorNest E>
  [[nodiscard]] TypedDataset<E> as() const;
};

/// A Dataset whose elements are `E`. Copying it to a Dataset drops the static type; `as<E>()` restores it.
///
/// Functions take an element; for a tuple or pair they may take its members as arguments.
template <class E>
class TypedDataset : public detail::Transformations<TypedDataset<E>, Dataset> {
  using Base = detail::Transformations<TypedDataset<E>, Dataset>;
  using Base::Base;

 public:
  using Base::cache;
  /// Keeps the elements of the first pass that is read to its end in a file: later passes and later programs
  /// read nothing else while the file exists, so delete it when the input changes. Shapes, dtypes, lengths
  /// and keys are kept. The file appears as a whole; a pass that is dropped or throws leaves none. If files
  /// are shared out (auto_shard), each share has its own file "PATH.INDEX-of-NUM_SHARDS". The file names the
  /// calls that made the elements, as far as they decide which there are, without what functions do.
  ///
  /// @throws InvalidArgument  the path is empty. From `next`: @throws NotFound  the folder does not exist.
  /// @throws InvalidArgument  the file is damaged, is not a cache of such elements (path, position, reason),
  /// or other calls made it: names the first that differs. The pass has ended.
  /// @throws Error  the file cannot be written.
  [[nodiscard]] TypedDataset cache(const std::filesystem::path& path) const {
    return TypedDataset(detail::file_cache_pipeline<E>(this->pipeline(), path));
  }
  /// fn(element) for each element. `fn` returns a Tensor, or a nest of Tensors that has the same lengths and
  /// keys for each element. element_spec knows neither their shapes nor their dtypes. @throws InvalidArgument
  /// num_parallel_calls is out of range.
  template <class F>
  [[nodiscard]] auto map(F fn, const ParallelOptions& options = {}) const {
    detail::check_element_callable<F, E>();
    return TypedDataset<detail::element_result_t<F, E>>(
        detail::map_pipeline<E>(this->pipeline(), fn, options));
  }
  /// The elements for which predicate(element) is true.
  template <class F>
  [[nodiscard]] TypedDataset filter(F predicate) const {
    detail::check_element_callable<F, E>();
    return TypedDataset(detail::filter_pipeline<E>(this->pipeline(), predicate));
  }
  /// The elements of the datasets that fn(element) returns: `block_length` elements of each in turn, with up
  /// to `cycle_length` datasets open at a time; when one ends, the next takes its place. `fn` is called on
  /// the thread that takes the elements. With n > 1 parallel calls the datasets in the first n places of the
  /// cycle are read ahead by one element, each on its own thread; if not deterministic, a dataset that has no
  /// element ready is skipped for the time being.
  /// @throws InvalidArgument  cycle_length or block_length < 1, or num_parallel_calls is out of range.
  template <class F>
  [[nodiscard]] auto interleave(F fn, std::int64_t cycle_length, std::int64_t block_length = 1,
                                const ParallelOptions& options = {}) const {
    detail::check_element_callable<F, E>();
    using R = typename detail::dataset_element<detail::element_result_t<F, E>>::type;
    return TypedDataset<R>(
        detail::interleave_pipeline<E>(this->pipeline(), fn, cycle_length, block_length, options));
  }

  /// The elements of the datasets that fn(element) returns, one dataset after the other: `interleave` with a
  /// cycle of one.
  template <class F>
  [[nodiscard]] auto flat_map(F fn) const {
    detail::check_element_callable<F, E>();
    using R = typename detail::dataset_element<detail::element_result_t<F, E>>::type;
    return TypedDataset<R>(
        detail::interleave_pipeline<E>(this->pipeline(), fn, 1, 1, {}, "Dataset::flat_map"));
  }
  /// The elements before the first one for which predicate(element) is false.
  template <class F>
  [[nodiscard]] TypedDataset take_while(F predicate) const {
    detail::check_element_callable<F, E>();
    return TypedDataset(detail::take_while_pipeline<E>(this->pipeline(), predicate));
  }
  /// Batches of elements of about the same length, so that little of them is padding: `length(element)`
  /// chooses the bucket, and a bucket becomes a batch when it has its batch size of elements. At the end the
  /// buckets' rests follow, the shortest lengths first, unless they are dropped.
  /// @throws InvalidArgument  the boundaries are none, or do not ascend; there is not one batch size more
  /// than boundaries, or one is below 1; else as padded_batch.
  template <class F>
  [[nodiscard]] TypedDataset bucket_by_sequence_length(F length, const BucketOptions& options) const {
    detail::check_element_callable<F, E>();
    return TypedDataset(detail::bucket_pipeline<E>(this->pipeline(), length, options));
  }
  /// Tuples of a number, an i64 scalar, and the element: numbers start, start + 1, …; an element that throws
  /// counts too. As in tf.data no dataset is numbered beyond 2^63 - 1, so that cardinality is finite.
  [[nodiscard]] TypedDataset<std::tuple<Tensor, E>> enumerate(std::int64_t start = 0) const {
    const std::int64_t last = std::numeric_limits<std::int64_t>::max() + (start < 0 ? start : 0);
    return Dataset::zip(Dataset::range(start, last), *this);
  }
  /// The results of fn(state, element), a pair of the next state and the result. Each pass begins with a copy
  /// of `initial_state`, of any type; tensors in it share memory with it, so do not write to them. If `fn`
  /// throws, the state stays. A pass can be saved if the state is a nest of Tensors, a std::string, or of a
  /// type that may be copied as bytes and has no pointers.
  template <class State, class F>
  [[nodiscard]] auto scan(State initial_state, F fn) const {
    static_assert(detail::ScanFunction<F, State, E>,
                  "scan: the function must be callable, as const, with the state and an element, and return "
                  "a std::pair of the next state and a Tensor or nest of Tensors");
    return TypedDataset<detail::scan_result_t<F, State, E>>(
        detail::scan_pipeline<E>(this->pipeline(), initial_state, fn));
  }
  /// fn(seed, element) for each element, where the std::uint64_t is another for each element and pass, and
  /// the same again in another program: it depends on `seed`, on the element's place in the pass, and on the
  /// pass as the order of `shuffle` does, and not on threads. For augmentations that can be repeated.
  /// Otherwise as `map`.
  template <class F>
  [[nodiscard]] auto map_with_seed(F fn, std::uint64_t seed, const ParallelOptions& options = {}) const {
    static_assert(
        std::invocable<const F&, std::uint64_t, E>,
        "map_with_seed: the function must be callable, as const, with a std::uint64_t and an element");
    using R = std::remove_cvref_t<std::invoke_result_t<const F&, std::uint64_t, E>>;
    return TypedDataset<R>(detail::seeded_map_pipeline<E>(this->pipeline(), fn, seed, options));
  }

  /// Starts a pass without a strategy, whose elements are nests on the host. Its random orders are fixed here
  /// (shuffle).
  [[nodiscard]] DatasetIterator<E> iterator() const { return DatasetIterator<E>(this->pipeline()); }
  /// Starts the pass of an epoch: it has the random orders that the iterator of this number, from 0, has in a
  /// program that makes no others. Later iterators come after it. @throws InvalidArgument  epoch < 0.
  [[nodiscard]] DatasetIterator<E> iterator(std::int64_t epoch) const {
    return DatasetIterator<E>(this->pipeline(), epoch);
  }
  /// Starts a pass for range-for.
  [[nodiscard]] detail::RangeIterator<DatasetIterator<E>> begin() const { return {iterator()}; }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }
};

template <detail::TensorNest E>
TypedDataset<E> Dataset::from_tensor_slices(const E& nest) {
  return TypedDataset<E>(detail::slices_pipeline(detail::flatten(nest), detail::known_type(nest),
                                                 "Dataset::from_tensor_slices"));
}

template <class... E>
requires(sizeof...(E) > 0) TypedDataset<std::tuple<E...>> Dataset::zip(const TypedDataset<E>&... datasets) {
  return TypedDataset<std::tuple<E...>>(detail::zipped(
      {datasets.pipeline()...}, detail::tuple_type<E...>({detail::type_of(datasets.pipeline())...})));
}

template <class E>
TypedDataset<E> Dataset::sample_from_datasets(const std::vector<TypedDataset<E>>& datasets,
                                              const std::vector<double>& weights,
                                              std::optional<std::uint64_t> seed, bool stop_on_empty) {
  return TypedDataset<E>(detail::sampled(detail::pipelines_of(datasets), weights, seed, stop_on_empty));
}

template <class E>
TypedDataset<E> Dataset::choose_from_datasets(const std::vector<TypedDataset<E>>& datasets,
                                              const TypedDataset<Tensor>& choices, bool stop_on_empty) {
  return TypedDataset<E>(detail::chosen(detail::pipelines_of(datasets), choices.pipeline(), stop_on_empty));
}

template <detail::TensorNest E>
TypedDataset<E> Dataset::as() const {
  detail::check_element_type(*pipeline(), typeid(E));
  return TypedDataset<E>(pipeline());
}

}  // namespace lockstep

#pragma GCC visibility pop
