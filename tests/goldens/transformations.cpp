// Transformations of datasets: elements and cardinality.
#include <algorithm>

#include "goldens/datasets.hpp"

namespace lockstep::test {

namespace {

Json first_elements(const TypedDataset<Tensor>& dataset) { return rows(elements(dataset.take(60))); }
Json cardinality(const Dataset& dataset) { return encode(dataset.cardinality()); }

std::string number(std::int64_t value) { return std::to_string(value); }
std::string boolean(bool value) { return value ? "True" : "False"; }

TypedDataset<Tensor> up_to(const Tensor& x) { return Dataset::range(x.item<std::int64_t>()); }
TypedDataset<Tensor> two_of(const Tensor& x) {
  return Dataset::range(1).map([x](const Tensor&) { return x; }).repeat(2);
}
auto below(std::int64_t stop) {
  return [stop](const Tensor& x) { return x.item<std::int64_t>() < stop; };
}
bool always(const Tensor&) { return true; }
std::pair<Tensor, Tensor> running(const Tensor& sum, const Tensor& x) { return {sum + x, sum + x}; }
Tensor index_of(const Tensor& i, const Tensor&) { return i; }
Tensor element_of(const Tensor&, const Tensor& x) { return x; }

/// Ranges of given lengths: 0, 1, …; 100, 101, …; …
std::vector<TypedDataset<Tensor>> ranges(const std::vector<std::int64_t>& lengths) {
  std::vector<TypedDataset<Tensor>> all;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto begin = static_cast<std::int64_t>(100 * i);
    all.push_back(Dataset::range(begin, begin + lengths[i]));
  }
  return all;
}
std::string tuple_text(const std::vector<std::int64_t>& values) {
  std::string text = "(";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + number(values[i]);
  return text + ")";
}

struct WindowOptions {
  std::int64_t n, size, shift, stride;
  bool drop;
  std::string text() const {
    return "n=" + number(n) + " size=" + number(size) + " shift=" + number(shift) +
           " stride=" + number(stride) + " drop=" + boolean(drop);
  }
  TypedDataset<Tensor> dataset() const { return Dataset::range(n).window(size, shift, stride, drop); }
};
std::vector<WindowOptions> all_windows(const std::vector<std::int64_t>& lengths,
                                       const std::vector<std::int64_t>& shifts) {
  std::vector<WindowOptions> all;
  for (const std::int64_t n : lengths)
    for (const std::int64_t size : {1, 3})
      for (const std::int64_t shift : shifts)
        for (const std::int64_t stride : {1, 2})
          for (const bool drop : {false, true}) all.push_back({n, size, shift, stride, drop});
  return all;
}

}  // namespace

GOLDEN("transform-window") {
  for (const WindowOptions& options : all_windows({0, 7}, {1, 2, 4}))
    r(options.text(), [&] { return first_elements(options.dataset()); });
  r("the default shift", [] { return first_elements(Dataset::range(7).window(3)); });
  r("rows", [] { return first_elements(Dataset::range(12).batch(2).window(2, 1, 1, true)); });
  r("size 0", [] { return first_elements(Dataset::range(7).window(0)); });
  r("shift 0", [] { return first_elements(Dataset::range(7).window(2, 0)); });
  r("stride 0", [] { return first_elements(Dataset::range(7).window(2, 1, 0)); });
}

GOLDEN("transform-window-cardinality") {
  for (const WindowOptions& options : all_windows({0, 1, 6, 7}, {1, 4}))
    r(options.text(), [&] { return cardinality(options.dataset()); });
  r("infinite", [] { return cardinality(Dataset::range(3).repeat().window(2)); });
  r("unknown", [] { return cardinality(Dataset::range(3).filter(always).window(2)); });
}

GOLDEN("transform-unbatch") {
  for (const std::int64_t n : {0, 1, 5, 6}) {
    for (const std::int64_t batch : {1, 2, 3}) {
      const std::string name = "n=" + number(n) + " batch=" + number(batch);
      r(name, [&] { return first_elements(range_batches(n, batch).unbatch()); });
      r(name + " cardinality", [&] { return cardinality(range_batches(n, batch).unbatch()); });
      r(name + " drop cardinality", [&] { return cardinality(range_batches(n, batch, true).unbatch()); });
    }
  }
  const auto matrices = Dataset::from_tensor_slices(
      Tensor::from(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 8}, Shape(2, 2, 2)));
  r("of rank 2", [&] { return first_elements(matrices.unbatch()); });
  r("twice", [&] { return first_elements(matrices.unbatch().unbatch()); });
  r("batched anew", [] { return first_elements(range_batches(7, 3).unbatch().batch(2)); });
  r("repeated", [] { return first_elements(range_batches(5, 2).unbatch().repeat(2)); });
  r("infinite", [] { return cardinality(range_batches(5, 2).repeat().unbatch()); });
  r("scalars", [] { return first_elements(Dataset::range(5).unbatch()); });
}

GOLDEN("transform-take-while") {
  for (const std::int64_t n : {0, 1, 6})
    for (const std::int64_t stop : {0, 1, 3, 9})
      r("n=" + number(n) + " stop=" + number(stop),
        [&] { return first_elements(Dataset::range(n).take_while(below(stop))); });
  r("only the first stretch", [] {
    return first_elements(
        Dataset::range(9).take_while([](const Tensor& x) { return x.item<std::int64_t>() % 4 != 3; }));
  });
  r("repeated", [] { return first_elements(Dataset::range(9).take_while(below(2)).repeat(3)); });
  r("cardinality", [] { return cardinality(Dataset::range(9).take_while(below(2))); });
  r("cardinality of an infinite one",
    [] { return cardinality(Dataset::range(9).repeat().take_while(below(2))); });
}

GOLDEN("transform-enumerate") {
  for (const std::int64_t n : {0, 3}) {
    for (const std::int64_t start : {0, 5, -2}) {
      const std::string name = "n=" + number(n) + " start=" + number(start);
      const auto numbered = Dataset::range(n).enumerate(start);
      r(name + " numbers", [&] { return first_elements(numbered.map(index_of)); });
      r(name + " elements", [&] { return first_elements(numbered.map(element_of)); });
      r(name + " cardinality", [&] { return cardinality(numbered); });
    }
  }
  r("repeated, then numbered",
    [] { return first_elements(Dataset::range(2).repeat(2).enumerate().map(index_of)); });
  r("numbered, then repeated",
    [] { return first_elements(Dataset::range(2).enumerate().repeat(2).map(index_of)); });
  r("batches", [] { return first_elements(range_batches(5, 2).enumerate().map(element_of)); });
}

GOLDEN("transform-flat-map") {
  for (const std::int64_t n : {0, 1, 4}) {
    r("range of the element, n=" + number(n),
      [&] { return first_elements(Dataset::range(n).flat_map(up_to)); });
    r("two of each, n=" + number(n), [&] { return first_elements(Dataset::range(n).flat_map(two_of)); });
    r("cardinality, n=" + number(n), [&] { return cardinality(Dataset::range(n).flat_map(up_to)); });
  }
  r("nested", [] {
    return first_elements(
        Dataset::range(4).flat_map([](const Tensor& x) { return up_to(x).flat_map(up_to); }));
  });
  r("batches", [] {
    return first_elements(Dataset::range(4).flat_map([](const Tensor& x) { return up_to(x).batch(2); }));
  });
  r("repeated", [] { return first_elements(Dataset::range(3).flat_map(up_to).repeat(2)); });
}

GOLDEN("transform-scan") {
  for (const std::int64_t n : {0, 1, 5}) {
    for (const std::int64_t first : {0, 10}) {
      const std::string name = "n=" + number(n) + " first=" + number(first);
      const auto sums = Dataset::range(n).scan(Tensor::scalar(first, Device()), running);
      r(name, [&] { return first_elements(sums); });
      r(name + " cardinality", [&] { return cardinality(sums); });
    }
  }
  const Tensor zero = Tensor::scalar(std::int64_t{0}, Device());
  r("differences", [&] {
    return first_elements(
        Dataset::range(9)
            .map([](const Tensor& x) { return x * x; })
            .scan(zero, [](const Tensor& last, const Tensor& x) { return std::pair(x, x - last); }));
  });
  r("each pass anew", [&] { return first_elements(Dataset::range(3).scan(zero, running).repeat(2)); });
  r("over repetitions", [&] { return first_elements(Dataset::range(3).repeat(2).scan(zero, running)); });
}

GOLDEN("transform-choose") {
  const auto choose = [](const std::vector<TypedDataset<Tensor>>& datasets,
                         const TypedDataset<Tensor>& choices,
                         bool stop) { return Dataset::choose_from_datasets(datasets, choices, stop); };
  const std::vector<std::vector<std::int64_t>> all_lengths{{3, 3}, {1, 4}, {0, 2}, {4, 1, 2}};
  for (const bool stop : {false, true}) {
    const std::string end = ", stop=" + boolean(stop);
    for (const std::vector<std::int64_t>& lengths : all_lengths) {
      const auto indices = Dataset::range(static_cast<std::int64_t>(lengths.size()));
      r(tuple_text(lengths) + " in turn" + end,
        [&] { return first_elements(choose(ranges(lengths), indices.repeat(4), stop)); });
      r(tuple_text(lengths) + " in pairs" + end,
        [&] { return first_elements(choose(ranges(lengths), indices.flat_map(two_of).repeat(2), stop)); });
    }
    r("without end" + end, [&] {
      return first_elements(choose(ranges({2, 2}), Dataset::range(2).repeat(), stop));
    });
    r("an index too large" + end, [&] {
      return first_elements(choose(ranges({2, 2}), Dataset::range(3), stop));
    });
    r("cardinality" + end, [&] { return cardinality(choose(ranges({2, 2}), Dataset::range(2), stop)); });
  }
  r("one dataset", [&] { return first_elements(choose(ranges({3}), Dataset::range(1).repeat(), true)); });
  r("no datasets", [&] { return first_elements(choose({}, Dataset::range(1), true)); });
  r("other dtypes", [&] {
    const auto narrow = Dataset::from_tensor_slices(Tensor::from({0, 1}, Shape(2)));
    return first_elements(choose({Dataset::range(2), narrow}, Dataset::range(2), true));
  });
}

GOLDEN("transform-sample") {
  using Weights = std::vector<double>;
  const auto sample = [](const std::vector<std::int64_t>& lengths, const Weights& weights, bool stop) {
    return Dataset::sample_from_datasets(ranges(lengths), weights, 1, stop);
  };
  for (const bool stop : {false, true}) {
    const std::string end = ", stop=" + boolean(stop);
    r("all weight on one" + end, [&] { return first_elements(sample({3, 3}, {0.0, 1.0}, stop)); });
    r("one dataset" + end, [&] { return first_elements(sample({4}, {}, stop)); });
    r("empty datasets" + end, [&] { return first_elements(sample({0, 0}, {}, stop)); });
  }
  r("all of all", [&] {
    Json all = elements(sample({3, 5, 2}, {}, false));
    std::sort(all.begin(), all.end());
    return rows(all);
  });
  r("two weights for three", [&] { return first_elements(sample({1, 1, 1}, {0.5, 0.5}, false)); });
}

GOLDEN("transform-ignore-errors") {
  const auto bad = [](const Tensor& x) {
    const auto rest = x.item<std::int64_t>() % 3;
    if (rest == 0) throw InvalidArgument("bad");
    return Tensor::scalar(1.0f / static_cast<float>(rest), Device());
  };
  const auto left = [&](std::int64_t n) {
    return Dataset::range(n).map(bad).ignore_errors(Dataset::forever, [](auto&&...) {});
  };
  for (const std::int64_t n : {0, 1, 7}) {
    r("n=" + number(n), [&] { return first_elements(left(n)); });
    r("n=" + number(n) + " cardinality", [&] { return cardinality(left(n)); });
  }
  r("batched", [&] { return first_elements(left(7).batch(2)); });
}

namespace {

using Lengths = std::vector<std::int64_t>;

/// Rows 1, 2, … of given lengths.
TypedDataset<Tensor> ragged(const Lengths& lengths) {
  return Dataset::from_generator([lengths] {
    return [lengths, i = std::size_t{0}]() mutable -> std::optional<Tensor> {
      if (i == lengths.size()) return std::nullopt;
      const auto first = static_cast<std::int64_t>(10 * i) + 1;
      return Tensor::arange(first, first + lengths[i++], std::int64_t{1}, DType::i64, Device());
    };
  });
}
/// As Python writes a tuple.
std::string python_text(const Lengths& lengths) {
  return lengths.size() == 1 ? "(" + number(lengths[0]) + ",)" : tuple_text(lengths);
}

TypedDataset<Tensor> squares() {
  return Dataset::range(4).map([](const Tensor& x) {
    const auto n = x.item<std::int64_t>();
    return Tensor::arange(n * (n + 1), DType::i64, Device()).reshape(Shape(n, n + 1));
  });
}

std::int64_t size_of_element(const Tensor& x) { return x.size(); }

}  // namespace

GOLDEN("transform-padded-batch") {
  for (const Lengths& lengths : {Lengths{}, {2}, {1, 3, 2}, {0, 2, 0, 1}, {3, 1, 4, 1, 5}})
    for (const std::int64_t batch : {1, 2, 3})
      for (const bool drop : {false, true})
        r(python_text(lengths) + " batch=" + number(batch) + " drop=" + boolean(drop),
          [&] { return first_elements(ragged(lengths).padded_batch(batch, {.drop_remainder = drop})); });
  r("a value", [] { return first_elements(ragged({1, 2}).padded_batch(2, {.padding_values = {-1}})); });
  r("a shape", [] { return first_elements(ragged({1, 2}).padded_batch(2, {.padded_shapes = {{4}}})); });
  r("too short a shape", [] {
    return first_elements(ragged({1, 2}).padded_batch(2, {.padded_shapes = {{1}}}));
  });
  r("another rank", [] {
    return first_elements(ragged({1, 2}).padded_batch(2, {.padded_shapes = {{2, 2}}}));
  });
  r("scalars", [] { return first_elements(Dataset::range(5).padded_batch(2)); });
  r("of rank 2", [] { return first_elements(squares().padded_batch(2)); });
  r("of rank 2 to a width", [] {
    return first_elements(squares().padded_batch(4, {.padded_shapes = {{std::nullopt, 5}}}));
  });
  r("cardinality", [] { return cardinality(Dataset::range(5).padded_batch(2)); });
  r("cardinality, drop",
    [] { return cardinality(Dataset::range(5).padded_batch(2, {.drop_remainder = true})); });
  r("size 0", [] { return first_elements(ragged({1}).padded_batch(0)); });
}

GOLDEN("transform-bucket") {
  const auto bucket = [](const Lengths& lengths, const BucketOptions& options) {
    return first_elements(ragged(lengths).bucket_by_sequence_length(size_of_element, options));
  };
  for (const Lengths& lengths :
       {Lengths{}, {1}, {1, 2, 3, 4}, {4, 3, 2, 1}, {3, 1, 4, 1, 5, 2, 6, 5}, {0, 0, 7}}) {
    const std::string name = python_text(lengths);
    for (const bool drop : {false, true})
      r(name + " in three, drop=" + boolean(drop), [&] {
        return bucket(
            lengths,
            {.boundaries = {2, 4}, .batch_sizes = {2, 2, 2}, .padded_batch = {.drop_remainder = drop}});
      });
    r(name + " in two", [&] { return bucket(lengths, {.boundaries = {3}, .batch_sizes = {3, 1}}); });
    r(name + " to the boundary", [&] {
      return bucket(lengths, {.boundaries = {3, 9}, .batch_sizes = {2, 2, 1}, .pad_to_boundary = true});
    });
  }
  r("a value", [&] {
    return bucket({1, 2, 1},
                  {.boundaries = {5}, .batch_sizes = {3, 1}, .padded_batch = {.padding_values = {-1}}});
  });
  r("longer than the boundaries", [&] {
    return bucket({1, 5}, {.boundaries = {3}, .batch_sizes = {1, 1}, .pad_to_boundary = true});
  });
  r("one batch size short", [&] { return bucket({1}, {.boundaries = {2, 4}, .batch_sizes = {2, 2}}); });
}

}  // namespace lockstep::test
