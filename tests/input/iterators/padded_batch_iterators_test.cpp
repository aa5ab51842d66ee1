#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::all_elements;
using test::says;
using test::Values;

namespace padded_batch_iterators_test {

/// For x: x, x, … x times; 2 throws.
TypedDataset<Tensor> repeated_values(std::int64_t begin, std::int64_t end) {
  return Dataset::range(begin, end).map([](const Tensor& x) {
    const auto n = x.item<std::int64_t>();
    if (n == 2) throw Error("two");
    return Tensor::full(Shape(n), n, DType::i64, Device());
  });
}
std::int64_t length(const Tensor& x) {
  if (x.size() == 4) throw Error("four");
  return x.size();
}

}  // namespace padded_batch_iterators_test

using padded_batch_iterators_test::length;
using padded_batch_iterators_test::repeated_values;

TEST_CASE("a padded batch goes on after an element that throws", "[input][host]") {
  auto pass = repeated_values(1, 5).padded_batch(2).pipeline()->open();
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::map: element 1: two"));
  CHECK(pass->next()->at(0).to_vector<std::int64_t>() == Values{1, 0, 0, 3, 3, 3});
  CHECK(pass->next()->at(0).to_vector<std::int64_t>() == Values{4, 4, 4, 4});
  CHECK_FALSE(pass->next());
  CHECK_FALSE(pass->next());
}

TEST_CASE("a bucket goes on after an element that throws, or whose length does", "[input][host]") {
  auto pass = repeated_values(1, 7)
                  .bucket_by_sequence_length(length, {.boundaries = {4}, .batch_sizes = {2, 2}})
                  .pipeline()
                  ->open();
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::map: element 1: two"));
  CHECK(pass->next()->at(0).to_vector<std::int64_t>() == Values{1, 0, 0, 3, 3, 3});
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::bucket_by_sequence_length: element 3: four"));
  CHECK(pass->next()->at(0).shape() == Shape(2, 6));
  CHECK_FALSE(pass->next());
}

TEST_CASE("an element beyond the last boundary has none to be padded to", "[input][host]") {
  auto pass =
      repeated_values(3, 6)
          .bucket_by_sequence_length([](const Tensor& x) { return x.size(); },
                                     {.boundaries = {4}, .batch_sizes = {1, 1}, .pad_to_boundary = true})
          .pipeline()
          ->open();
  CHECK(pass->next()->at(0).shape() == Shape(1, 3));
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("as long as the last boundary, 4", "leave out pad_to_boundary"));
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("as long as the last boundary"));
  CHECK_FALSE(pass->next());
}
