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
  DatasetHandle(const DatasetHandle&) = default;  // and no move: a handle is never empty
  DatasetHandle& operator=(const DatasetHandle&) = default;

  /// For the library.
  const PipelineHandle& pipeline() const& noexcept { return pipeline_; }
  PipelineHandle pipeline() const&& { return pipeline_; }

 private:
  PipelineHandle pipeline_;
};

/// What a dataset's elements can be turned into without changing their type. `Self` is the dataset's type,
/// `Base` what it adds these to: a typed dataset's hide the untyped one's.
template <class Self, class Base>
class Transformations : public Base {
 public:
  using Base::Base;

  /// As the count of `repeat`: without end.
  static constexpr std::int64_t forever = kForever;
  /// As both arguments of `shard`: a place for what AutoShardPolicy::hint says.
  static constexpr std::int64_t shard_hint = kShardHint;

  /// The elements in random order: each is drawn from a buffer of the next `buffer_size` ones, so that a
  /// buffer as large as the dataset gives every order alike. Each pass has another order.
  ///
  /// An order depends on `seed`, on the iterator's number, and on the place within its pass: which
  /// repetition, which element of `interleave`, how many shuffles and repetitions come before this one. It
  /// does not depend on threads, nor on how far other iterators were read. Iterators are numbered where they
  /// are made, over all that is made of this dataset, those of each shard apart: so shards remain parts of
  /// one order. Datasets shuffled by one seed go together in `zip`. Without a seed orders differ from run to
  /// run.
  /// @throws InvalidArgument  buffer_size < 1; on `next`, no seed where a share of the elements is kept that
  /// other processes share (auto_shard): each would draw another order.
  Self shuffle(std::int64_t buffer_size, std::optional<std::uint64_t> seed = {}) const {
    return Self(shuffled(this->pipeline(), buffer_size, seed));
  }
  /// `batch_size` elements at a time, stacked along a new first axis. The last batch may have fewer rows;
  /// with drop_remainder it is left out if so. Where an element throws, those before it are in the batch that
  /// comes next. @throws InvalidArgument  batch_size < 1; on `next`, elements of different shapes or dtypes:
  /// then the next call gives the batch after this one.
  Self batch(std::int64_t batch_size, bool drop_remainder = false) const {
    return Self(batched(this->pipeline(), batch_size, drop_remainder));
  }
  /// `count` passes, one after the other. A dataset without elements ends at once, also forever.
  /// @throws InvalidArgument  count is negative and not `forever`.
  Self repeat(std::int64_t count = forever) const { return Self(repeated(this->pipeline(), count)); }
  /// The first `count` elements. @throws InvalidArgument  count < 0.
  Self take(std::int64_t count) const { return Self(taken(this->pipeline(), count)); }
  /// All but the first `count` elements. @throws InvalidArgument  count < 0.
  Self skip(std::int64_t count) const { return Self(skipped(this->pipeline(), count)); }
  /// Elements index, index + num_shards, …; one that throws has its number too, and throws in every shard.
  /// Shards of one dataset are apart, also where it is shuffled without a seed; those of two such are not.
  /// With `shard_hint` for both: the number of input pipelines and which one it is, once auto_shard or
  /// distribute_dataset has been called with AutoShardPolicy::hint; before that `next` throws ContextError.
  /// Datasets that `interleave`'s function makes are told too.
  /// @throws InvalidArgument  no shards, or an index that is not one of them.
  Self shard(std::int64_t num_shards, std::int64_t index) const {
    return Self(sharded(this->pipeline(), num_shards, index));
  }
  /// These elements, then `other`'s. @throws InvalidArgument  elements of another type; of other lengths or
  /// keys: then on `next`, where they are not known before.
  Self concatenate(const Self& other) const { return Self(concatenated(this->pipeline(), other.pipeline())); }
  /// The elements of the first pass that comes to its end, kept in memory: later passes over this dataset and
  /// its copies read nothing else. A pass that is dropped, or that throws, keeps nothing; one that is dropped
  /// midway says so in the log, once for each dataset. A pass has come to its end when it
  /// was asked for an element and there was none, so `take` after this does not let it.
  Self cache() const { return Self(cached(this->pipeline())); }
  /// The same elements, made ahead on a thread of each pass's own, up to `buffer_size` of them. The thread
  /// starts with the first `next`. Dropping the pass waits for the function that the thread is in, if any.
  /// @throws InvalidArgument  buffer_size < 1.
  Self prefetch(std::int64_t buffer_size) const { return Self(prefetched(this->pipeline(), buffer_size)); }
};

}  // namespace detail

/// A sequence of elements, each a nest of tensors; this handle has forgotten their static type.
///
/// A cheap handle to an immutable description: nothing is read before a pass starts, and each pass is
/// independent. Copies may be used from several threads. Elements are made on the host (CPU:0); they are
/// copies, so writing to one changes nothing else.
///
/// Functions are copied, called as const, and by every pass, on the thread that takes the elements (of a
/// distributed dataset the one that makes steps ahead, see DistributedIterator) or, below `prefetch` and with
/// `num_parallel_calls`, on threads of the pass's; always in the default context with CPU:0 and its own
/// stream current, whatever scopes that thread is in. Passes on several threads call them together. What they
/// throw is thrown by `next`, where the element would have come: an Error whose message begins with the
/// transformation and the element's index, of the same class where that is one of lockstep's, with the
/// original nested (std::rethrow_if_nested). The next call goes on with the element after it.
class Dataset : public detail::Transformations<Dataset, detail::DatasetHandle> {
 public:
  using Transformations::Transformations;

  /// One element for each index of the first axis, of one tensor or of all tensors of a nest together.
  ///
  /// Tensors on the host are shared, not copied: do not write to them while the dataset is in use.
  /// @return elements of the nest's type. @throws InvalidArgument  a scalar, different numbers of rows, no
  /// tensors at all.
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

  /// What `make()()` gives, call by call, until it gives nothing. `make` is called when a pass starts, and
  /// returns a callable that returns std::optional<E>; where `make` throws, the pass has ended.
  template <class Make>
  requires detail::ElementGenerator<std::remove_cvref_t<std::invoke_result_t<const Make&>>>
  [[nodiscard]] static auto from_generator(Make make) {
    using E = detail::generated_t<std::remove_cvref_t<std::invoke_result_t<const Make&>>>;
    return TypedDataset<E>(detail::generate_pipeline(make));
  }

  /// The elements of files, one file after the other: what `reader(path)()` gives, call by call, until it
  /// gives nothing. `reader` is called when a pass comes to the file (lockstep/input/readers.hpp has some);
  /// after an exception the pass goes on with the next file.
  template <class Reader>
  requires detail::ElementGenerator<detail::file_generator_t<Reader>>
  [[nodiscard]] static auto from_files(std::vector<std::filesystem::path> paths, Reader reader) {
    using E = detail::generated_t<detail::file_generator_t<Reader>>;
    return TypedDataset<E>(detail::read_pipeline(std::move(paths), reader));
  }

  /// Tuples of one element of each dataset; ends with the shortest.
  template <class... E>
  requires(sizeof...(E) > 0) static TypedDataset<std::tuple<E...>> zip(const TypedDataset<E>&... datasets);

  /// What `cardinality` gives of a dataset without end, and of one whose elements are not counted yet.
  static constexpr std::int64_t infinite_cardinality = detail::kInfiniteCardinality;
  static constexpr std::int64_t unknown_cardinality = detail::kUnknownCardinality;
  /// How many elements a pass has, from what is known without reading any: not of files, generators, filter
  /// and interleave, nor of what is made of them. take(0) and repeat(0) are known to be empty.
  [[nodiscard]] std::int64_t cardinality() const noexcept { return detail::cardinality_of(pipeline()); }

  /// The typed form, which can be iterated. @throws InvalidArgument  the elements are not `E`.
  template <detail::TensorNest E>
  [[nodiscard]] TypedDataset<E> as() const;
};

/// A Dataset whose elements are `E`. Copying it to a Dataset forgets `E`; `as<E>()` gives it back.
///
/// Functions take an element: a tuple's or pair's members as arguments, where they can be called so.
template <class E>
class TypedDataset : public detail::Transformations<TypedDataset<E>, Dataset> {
  using Base = detail::Transformations<TypedDataset<E>, Dataset>;
  using Base::Base;

 public:
  using Base::cache;
  /// The elements of the first pass that comes to its end, kept in a file: later passes and later programs
  /// read nothing else while it is there, so delete it when the input changes. Shapes, dtypes, lengths and
  /// keys are kept. The file appears as a whole; a pass that is dropped, or that throws, leaves none. Where
  /// files are shared out (auto_shard), each share has a file of its own, "PATH.INDEX-of-NUM_SHARDS".
  ///
  /// @throws InvalidArgument  an empty path. From `next`: @throws NotFound  there is no such folder. @throws
  /// InvalidArgument  a file that is damaged, or not such a cache of such elements: path, position and
  /// reason; the pass has ended. @throws Error  it cannot be written.
  [[nodiscard]] TypedDataset cache(const std::filesystem::path& path) const {
    return TypedDataset(detail::file_cache_pipeline<E>(this->pipeline(), path));
  }
  /// fn(element) for each element: a Tensor, or a nest of Tensors of the same lengths and keys for each.
  /// element_spec knows neither their shapes nor their dtypes. @throws InvalidArgument  num_parallel_calls
  /// out of range.
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
  /// The elements of the datasets that fn(element) gives: `block_length` of each in turn, of up to
  /// `cycle_length` at a time; where one ends, the next takes its place. `fn` is called on the thread that
  /// takes the elements. With n parallel calls, n > 1, the datasets in the first n places of the cycle are
  /// read ahead by one element, each on a thread of its own; if not deterministic, one that has none ready is
  /// passed over.
  /// @throws InvalidArgument  cycle_length or block_length < 1, num_parallel_calls out of range.
  template <class F>
  [[nodiscard]] auto interleave(F fn, std::int64_t cycle_length, std::int64_t block_length = 1,
                                const ParallelOptions& options = {}) const {
    detail::check_element_callable<F, E>();
    using R = typename detail::dataset_element<detail::element_result_t<F, E>>::type;
    return TypedDataset<R>(
        detail::interleave_pipeline<E>(this->pipeline(), fn, cycle_length, block_length, options));
  }

  /// A pass, from its beginning, without a strategy: each element as the nest that it is, on the host. Its
  /// random orders are settled here (shuffle).
  [[nodiscard]] DatasetIterator<E> iterator() const { return DatasetIterator<E>(this->pipeline()); }
  /// A pass, for range-for.
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
