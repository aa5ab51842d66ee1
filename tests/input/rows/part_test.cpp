#include "input/rows/part.hpp"

#include <cstring>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/parts.hpp"

using namespace lockstep;
using detail::gather;
using detail::Part;
using test::batch_of;
using test::on_host;
using test::says;
using test::sequence;
using test::Values;
using test::vector_of;

TEST_CASE("a part's rows come one after the other", "[input][host]") {
  const Part part{{batch_of({Tensor::from(sequence(0, 6), {3, 2})}), {{1, 3}}},
                  {batch_of({Tensor::from(sequence(6, 8), {1, 2})}), {{0, 1}}},
                  {batch_of({Tensor::from(sequence(8, 12), {2, 2})}), {{1, 1}}}};
  CHECK(num_leaves(part) == 1);
  CHECK(leaf_of(part, 0).shape == Shape(3, 2));
  CHECK(leaf_of(part, 0).dtype == DType::i64);
  CHECK(on_host(part)[0].to_vector<std::int64_t>() == sequence(2, 8));
  CHECK(gather(part, "CPU:3")[0].device() == Device("CPU:3"));
}

TEST_CASE("slices that differ are not put one after the other", "[input][host]") {
  const auto of = [](const Tensor& a, const Tensor& b) {
    return Part{{batch_of({a}), {{0, 1}}}, {batch_of({b}), {{0, 1}}}};
  };
  CHECK_THROWS_MATCHES(leaf_of(of(Tensor::zeros({1, 2}), Tensor::zeros({1, 3})), 0), InvalidArgument,
                       says("distribute_dataset: rows of [1, 3] float32", "[1, 2] float32"));
  CHECK_THROWS_MATCHES(on_host(of(Tensor::zeros({1}), Tensor::zeros({1}, DType::i8))), InvalidArgument,
                       says("[1] int8"));
}

TEST_CASE("an empty part keeps the other extents and the dtypes", "[input][host]") {
  const auto batch = batch_of({Tensor::zeros({4, 3}, DType::f16), Tensor::zeros({2}, DType::u8)});
  const auto empty = on_host(detail::empty_part(leaves_of(*batch)));
  CHECK(empty[0].shape() == Shape(0, 3));
  CHECK(empty[0].dtype() == DType::f16);
  CHECK(empty[1].shape() == Shape(0));
  CHECK_THROWS_MATCHES(detail::empty_part({{Shape(1), DType::i64}, {Shape(), DType::f32}}), InvalidArgument,
                       says("ends within a step", "component 1 is a scalar, [] float32"));
}

TEST_CASE("rows that nobody else uses are not copied, whichever CPU they are for", "[input][host]") {
  detail::FlatElement rows;
  rows.push_back(vector_of(sequence(0, 4)));
  const void* const data = rows[0].view().data;
  const auto batch = batch_of(std::move(rows));
  for (const Device device : {"CPU:0", "CPU:1"}) {
    const Tensor part = gather({{batch, {{2, 4}}}}, device)[0];
    CHECK(part.device() == device);
    CHECK(part.view().data == static_cast<const std::byte*>(data) + 2 * sizeof(std::int64_t));
    CHECK(part.to_vector<std::int64_t>() == Values{2, 3});
  }
}

TEST_CASE("a view of a batch's rows keeps them", "[input][host]") {
  Tensor part;
  {
    detail::FlatElement rows;
    rows.push_back(vector_of(sequence(0, 1000)));
    const auto batch = batch_of(std::move(rows));
    part = gather({{batch, {{990, 1000}}}}, "CPU:1")[0];
  }
  Tensor others = vector_of(Values(1000, -1));  // would get the memory, were it free
  CHECK(part.to_vector<std::int64_t>() == sequence(990, 1000));
  part.set_stream(current_stream("CPU:1"));
  part.fill_(7);
  CHECK(part.clone().to_vector<std::int64_t>() == Values(10, 7));
}

TEST_CASE("rows that somebody else sees are copied", "[input][host]") {
  const auto is_copied = [](const Tensor& tensor, const void* data) {
    const Tensor part = gather(whole(batch_of({tensor})), "CPU:0")[0];
    return part.view().data != data && !part.is_read_only();
  };
  const Tensor kept = vector_of({1, 2});
  CHECK(is_copied(kept, kept.view().data));

  Values values{1, 2};
  CHECK(is_copied(Tensor::view(values.data(), {2}, DType::i64, "CPU:0"), values.data()));
  const Values constants{1, 2};
  CHECK(is_copied(Tensor::view(constants.data(), {2}, DType::i64, "CPU:0"), constants.data()));
  CHECK(is_copied(Tensor::from<std::int64_t>({1}, {1}).read_only(), nullptr));

  Tensor twice = vector_of({3});
  const auto parts = gather(whole(batch_of({twice, std::move(twice)})), "CPU:0");
  CHECK(parts[0].view().data != parts[1].view().data);
}

TEST_CASE("scalars are whole", "[input][host]") {
  const auto batch = batch_of({Tensor::scalar<std::int64_t>(4)});
  CHECK(gather(whole(batch), "CPU:0")[0].item<std::int64_t>() == 4);
  CHECK(gather(whole(batch), "CPU:1")[0].shape() == Shape());
}
