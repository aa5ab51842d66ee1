#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <iterator>
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
  /// the order differs from run to run.
  /// @throws InvalidArgument  buffer_size < 1; on `next`, there is no seed although this process keeps a
  /// share of elements that other processes share too (auto_shard): each process would draw another order.
  Self shuffle(std::int64_t buffer_size, std::optional<std::uint64_t> seed = {}) const {
    return Self(shuffled(this->pipeline(), buffer_size, seed));
  }
  /// Stacks `batch_size` elements at a time along a new first axis. The last batch may have fewer rows; with
  /// drop_remainder such a batch is dropped. If an element throws, the next call returns the elements before
  /// it as a batch.
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

  /// Results of `cardinality`: the dataset has no end, or its elements have not been counted.
  static constexpr std::int64_t infinite_cardinality = detail::kInfiniteCardinality;
  static constexpr std::int64_t unknown_cardinality = detail::kUnknownCardinality;
  /// The number of elements of a pass, as far as it is known without reading any. It is unknown for files,
  /// generators, filter and interleave, and for datasets derived from them; but take(0) and repeat(0) are
  /// known to be empty.
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
  /// are shared out (auto_shard), each share has its own file "PATH.INDEX-of-NUM_SHARDS".
  ///
  /// @throws InvalidArgument  the path is empty. From `next`: @throws NotFound  the folder does not exist.
  /// @throws InvalidArgument  the file is damaged, or is not a cache of such elements: path, position and
  /// reason; the pass has ended.
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

  /// Starts a pass without a strategy, whose elements are nests on the host. Its random orders are fixed here
  /// (shuffle).
  [[nodiscard]] DatasetIterator<E> iterator() const { return DatasetIterator<E>(this->pipeline()); }
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

template <detail::TensorNest E>
TypedDataset<E> Dataset::as() const {
  detail::check_element_type(*pipeline(), typeid(E));
  return TypedDataset<E>(pipeline());
}

}  // namespace lockstep

#pragma GCC visibility pop
