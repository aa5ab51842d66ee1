#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "support/dtypes.hpp"
#include "support/expected.hpp"
#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::LazyDevice;
using lockstep::test::says;

using Ints = std::vector<std::int32_t>;

TEMPLATE_LIST_TEST_CASE("tensors move between devices unchanged", "[tensor_copy]", test::NumericTypes) {
  using T = TestType;
  const std::vector<T> values = test::pattern_values<T>(35);
  const Tensor here = Tensor::from(values, {5, 7});
  const Tensor there = here.to("CPU:1");
  CHECK(there.device() == Device("CPU:1"));
  CHECK(there.shape() == Shape(5, 7));
  CHECK(there.to_vector<T>() == values);
  CHECK(here.to("CPU:0").is_same_object(here));
  CHECK(here.narrow(1, 0, 1).to("CPU:1").to_vector<T>() == here.narrow(1, 0, 1).to_vector<T>());
  CHECK(Tensor::empty({0, 3}).to("CPU:1").shape() == Shape(0, 3));
  CHECK_THROWS_MATCHES(here.to("GPU:4000"), NotFound, says("GPU:4000"));
}

TEST_CASE("P39 a copy to another device is ordered after the source's work, and before its next",
          "[tensor_copy]") {
  LazyDevice device, peer(1);
  const Stream stream(device), peer_stream(peer);
  const StreamScope scope(stream), peer_scope(peer_stream);
  Tensor there;
  {
    Tensor here = Tensor::full({4}, 1.0f, DType::f32, "GPU:0");
    here.add_(1);
    there = here.to("GPU:1");
    here.fill_(50);
  }
  stream.synchronize();  // the source is overwritten and freed before anybody waits for the copy
  CHECK(peer.num_peer_copies == 1);
  CHECK(there.to_vector<float>() == std::vector<float>(4, 2));
  CHECK(device.in_use_bytes == 0);
  CHECK(device.num_events + peer.num_events == 0);
}

TEST_CASE("P39 the host and a device exchange tensors in stream order", "[tensor_copy]") {
  LazyDevice device;
  const Stream stream(device);
  const StreamScope scope(stream);
  Tensor host = Tensor::arange(6, DType::f32).reshape({2, 3});
  Tensor there = host.to("GPU:0");
  host.fill_(-1);  // ordinary memory was read already
  CHECK_FALSE(stream.is_complete());
  there.mul_(2);
  CHECK(there.to("CPU:0").to_vector<float>() == std::vector<float>{0, 2, 4, 6, 8, 10});
  there.narrow(1, 0, 1).copy_(Tensor::full({2, 1}, 7.0f));
  CHECK_FALSE(stream.is_complete());
  host.narrow(1, 1, 3).copy_(there.narrow(1, 0, 2));
  CHECK(host.to_vector<float>() == std::vector<float>{-1, 7, 2, -1, 7, 8});
  CHECK(there.slice(0, 1).narrow(1, 2, 3).item<float>() == 4);
}

TEST_CASE("asynchronous calls return before their work is done", "[tensor_copy]") {
  LazyDevice device;
  const Stream stream(device);
  const StreamScope scope(stream);
  Tensor sum;
  {
    const Tensor a = Tensor::from<float>({1, 2}, {2}, "GPU:0");
    const Tensor b = a.clone() + a.cast(DType::f64).cast(DType::f32);
    sum = (b * 2 - a / 2).reshape({2, 1});
  }
  CHECK_FALSE(stream.is_complete());
  CHECK(sum.to_vector<float>() == std::vector<float>{3.5f, 7});
  CHECK(stream.is_complete());
}

TEST_CASE("P31 empty tensors launch nothing", "[tensor_copy]") {
  LazyDevice device, peer(1);
  const StreamScope scope(default_stream(device)), peer_scope(default_stream(peer));
  const Tensor empty = Tensor::zeros({3, 0}, DType::f32, "GPU:0");
  Tensor other = empty.clone();
  other.copy_(empty).add_(empty).mul_(Tensor::empty({}, DType::f32, "GPU:0")).fill_(3);
  CHECK((-empty + other).shape() == Shape(3, 0));
  CHECK(empty.cast(DType::i32).dtype() == DType::i32);
  CHECK(empty.to("GPU:1").shape() == Shape(3, 0));
  CHECK(empty.to("CPU:0").to_vector<float>().empty());
  CHECK(empty.reshape({0, 5}).contiguous().to_vector<float>().empty());
  CHECK(Tensor::from<float>({}, {0, 2}, "GPU:0").shape() == Shape(0, 2));
  CHECK(peer.num_launches == 0);
  CHECK(device.num_launches == 1);  // the release of the scalar
}

TEST_CASE("clone and contiguous gather strided elements", "[tensor_copy]") {
  const Tensor t = Tensor::arange(24).reshape({2, 3, 4});
  const Tensor part = t.narrow(1, 1, 3).narrow(2, 0, 2);
  CHECK(part.to_vector<std::int32_t>() == Ints{4, 5, 8, 9, 16, 17, 20, 21});
  CHECK(part.clone().is_contiguous());
  CHECK(part.contiguous().to_vector<std::int32_t>() == part.to_vector<std::int32_t>());
  CHECK(t.contiguous().is_same_object(t));
  CHECK_FALSE(t.clone().is_same_object(t));
}

TEST_CASE("copy_ writes through views, from any device, and spreads scalars", "[tensor_copy]") {
  const Tensor t = Tensor::zeros({2, 2}, DType::i32);
  Tensor column = t.narrow(1, 0, 1);
  column.copy_(Tensor::from<std::int32_t>({1, 2}, {2, 1}, "CPU:1"));
  CHECK(t.to_vector<std::int32_t>() == Ints{1, 0, 2, 0});
  t.narrow(1, 1, 2).copy_(Tensor::scalar(std::int32_t{5}));
  CHECK(t.to_vector<std::int32_t>() == Ints{1, 5, 2, 5});
  t.slice(1, 2).copy_(Tensor::scalar(std::int32_t{6}, "CPU:1"));
  CHECK(t.to_vector<std::int32_t>() == Ints{1, 5, 6, 6});
  t.slice(0, 1).copy_(t.slice(1, 2));
  CHECK(t.to_vector<std::int32_t>() == Ints{6, 6, 6, 6});
}

TEST_CASE("copy_ reads an overlapping source as it was", "[tensor_copy]") {
  const Tensor t = Tensor::arange(6);
  SECTION("upwards") {
    t.slice(1, 6).copy_(t.slice(0, 5));
    CHECK(t.to_vector<std::int32_t>() == Ints{0, 0, 1, 2, 3, 4});
  }
  SECTION("downwards") {
    t.slice(0, 5).copy_(t.slice(1, 6));
    CHECK(t.to_vector<std::int32_t>() == Ints{1, 2, 3, 4, 5, 5});
  }
  SECTION("transposed") {
    auto* const data = static_cast<std::int32_t*>(t.data());
    Tensor::view(data, {2, 2}, DType::i32, "CPU:0")
        .copy_(Tensor::view(data, {2, 2}, DType::i32, "CPU:0", {1, 2}));
    CHECK(t.to_vector<std::int32_t>() == Ints{0, 2, 1, 3, 4, 5});
  }
  SECTION("through the name of another host device") {
    auto* const data = static_cast<std::int32_t*>(t.data());
    Tensor::view(data + 1, {5}, DType::i32, "CPU:1").copy_(t.slice(0, 5));
    CHECK(t.to_vector<std::int32_t>() == Ints{0, 0, 1, 2, 3, 4});
  }
  SECTION("exactly") {
    Tensor same = t;
    same.copy_(t);
    CHECK(t.to_vector<std::int32_t>() == Ints{0, 1, 2, 3, 4, 5});
  }
  SECTION("one element over all") {
    Tensor all = t;
    all.copy_(t.slice(3, 4).reshape({}));
    CHECK(t.to_vector<std::int32_t>() == Ints(6, 3));
  }
}

TEST_CASE("copy_ refuses other shapes and dtypes, and writes nothing", "[tensor_copy]") {
  Tensor t = Tensor::zeros({2, 2});
  CHECK_THROWS_MATCHES(t.copy_(Tensor::ones({4})), InvalidArgument,
                       says("copy_", "[2, 2] float32", "[4] float32"));
  CHECK_THROWS_MATCHES(t.copy_(Tensor::ones({1})), InvalidArgument, says("copy_", "[1] float32"));
  CHECK_THROWS_MATCHES(t.copy_(Tensor::ones({2, 2}, DType::f64)), InvalidArgument,
                       says("copy_", "[2, 2] float32", "[2, 2] float64", "dtypes"));
  CHECK(t.to_vector<float>() == std::vector<float>(4, 0));
}

TEMPLATE_LIST_TEST_CASE("cast converts between dtypes", "[tensor_copy]", test::NumericTypes) {
  using T = TestType;
  const DType dtype = dtype_of<T>;
  const Tensor t = Tensor::from<double>({0, 1, 2, 3}, {2, 2});
  CHECK(t.cast(dtype).to_vector<T>() == std::vector<T>{T(0), T(1), T(2), T(3)});
  CHECK(t.cast(dtype).cast(DType::f64).to_vector<double>() == std::vector<double>{0, 1, 2, 3});
  CHECK(t.narrow(1, 1, 2).cast(dtype).to_vector<T>() == std::vector<T>{T(1), T(3)});
  CHECK(t.cast(dtype).cast(DType::boolean).to_vector<bool>() == std::vector<bool>{false, true, true, true});
}

TEST_CASE("cast follows C++, but saturates", "[tensor_copy]") {
  const Tensor t = Tensor::from<float>({-1.9f, 2.9f, 1e30f, std::nanf("")}, {4});
  CHECK(t.cast(DType::i32).to_vector<std::int32_t>() ==
        Ints{-1, 2, std::numeric_limits<std::int32_t>::max(), 0});
  CHECK(t.cast(DType::f32).is_same_object(t));
}

TEST_CASE("reading as another host type is refused, naming both", "[tensor_copy]") {
  const Tensor t = Tensor::ones({2});
  CHECK_THROWS_MATCHES(t.to_vector<double>(), InvalidArgument, says("[2] float32", "float64"));
  CHECK_THROWS_MATCHES(t.to_vector<bool>(), InvalidArgument, says("[2] float32", "bool"));
  CHECK_THROWS_MATCHES(Tensor::scalar(1).item<std::uint32_t>(), InvalidArgument, says("int32", "uint32"));
  CHECK_THROWS_MATCHES(t.item<float>(), InvalidArgument, says("item", "[2] float32", "2 elements"));
  CHECK_THROWS_MATCHES(Tensor::empty({0}).item<float>(), InvalidArgument, says("item", "0 elements"));
  CHECK(Tensor::ones({1, 1}).item<float>() == 1);
  CHECK(Tensor::scalar(1LL).item<std::int64_t>() == 1);  // long and long long share a dtype
}
