#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/version.h>

#include <lockstep/integrations/libtorch.hpp>
#include <lockstep/lockstep.hpp>

#undef CHECK  // torch's logging has one, too

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include "support/matchers.hpp"

namespace lockstep::test {

namespace {

std::vector<std::pair<at::ScalarType, DType>> dtypes() {
  return {
#if TORCH_VERSION_MAJOR >= 2  // before, torch lends no booleans
    {at::kBool, DType::boolean},
#endif
        {at::kFloat, DType::f32}, {at::kDouble, DType::f64}, {at::kHalf, DType::f16},
        {at::kBFloat16, DType::bf16}, {at::kByte, DType::u8}, {at::kChar, DType::i8},
        {at::kShort, DType::i16}, {at::kInt, DType::i32}, {
      at::kLong, DType::i64
    }
  };
}

}  // namespace

TEST_CASE("from: a tensor of torch's is seen without a copy", "[integrations][host]") {
  const auto [scalar_type, dtype] = GENERATE(from_range(dtypes()));
  at::Tensor theirs = at::ones({2, 3}, scalar_type);
  const Tensor ours = libtorch::from(theirs);
  REQUIRE(ours.dtype() == dtype);
  REQUIRE(ours.shape() == Shape({2, 3}));
  REQUIRE(ours.device() == Device("CPU:0"));
  REQUIRE(ours.view().data == theirs.data_ptr());
  REQUIRE(ours.is_borrowed());
  const at::Tensor back = libtorch::to(ours);
  REQUIRE(back.scalar_type() == scalar_type);
  REQUIRE(back.data_ptr() == theirs.data_ptr());
  back.zero_();
  REQUIRE(theirs.sum().item<int>() == 0);
}

TEST_CASE("from: strides, writes and parameters", "[integrations][host]") {
  const at::Tensor theirs = at::arange(6, at::kFloat).reshape({2, 3}).requires_grad_();
  const Tensor turned = libtorch::from(theirs.t());
  REQUIRE(turned.shape() == Shape({3, 2}));
  REQUIRE(turned.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  libtorch::from(theirs).add_(1.0f);
  REQUIRE(theirs.sum().item<float>() == 21);
  REQUIRE(libtorch::from(at::ones({0, 4})).shape() == Shape({0, 4}));
  REQUIRE(libtorch::from(at::scalar_tensor(3.0, at::kDouble)).item<double>() == 3.0);
}

TEST_CASE("from: torch's memory lives until the last handle", "[integrations][host]") {
  std::vector<float> memory{1, 2, 3};
  bool is_free = false;
  std::optional<at::Tensor> theirs = at::from_blob(memory.data(), {3}, [&](void*) { is_free = true; });
  std::optional<Tensor> ours = libtorch::from(*theirs);
  theirs.reset();
  const std::optional<Tensor> part = ours->slice(1, 3);
  ours.reset();
  REQUIRE_FALSE(is_free);
  REQUIRE(part->to_vector<float>() == std::vector<float>{2, 3});
  const_cast<std::optional<Tensor>&>(part).reset();
  REQUIRE(is_free);
}

TEST_CASE("from: the tensor is on the stream's device", "[integrations][host]") {
  const at::Tensor theirs = at::ones({2});
  REQUIRE(libtorch::from(theirs, current_stream("CPU:3")).device() == Device("CPU:3"));
  const DeviceScope here("CPU:2");
  REQUIRE(libtorch::from(theirs).device() == Device("CPU:2"));
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto each = strategy.run([&] { return libtorch::from(theirs); });
  REQUIRE(each[1].device() == Device("CPU:1"));
}

TEST_CASE("to: lockstep's memory lives until torch's last handle", "[integrations][host]") {
  const Tensor ours = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  std::optional<at::Tensor> theirs = libtorch::to(ours.narrow(1, 1, 2));
  REQUIRE(theirs->sizes() == at::IntArrayRef({2, 1}));
  REQUIRE_FALSE(theirs->requires_grad());
  theirs->mul_(10);
  REQUIRE(ours.to_vector<float>() == std::vector<float>{1, 20, 3, 40});
  std::optional<at::Tensor> part = theirs->select(0, 1);
  theirs.reset();
  REQUIRE(ours.is_shared());
  part.reset();
  REQUIRE_FALSE(ours.is_shared());
}

TEST_CASE("what cannot be shared is refused", "[integrations][host]") {
  REQUIRE_THROWS_MATCHES(libtorch::from(at::Tensor()), InvalidArgument,
                         says("libtorch::from", "undefined", "Pass one"));
  REQUIRE_THROWS_MATCHES(libtorch::from(at::eye(2).to_sparse()), Unsupported,
                         says("libtorch::from", "is sparse", "to_dense"));
  const at::Tensor complex = at::ones({2}, at::kComplexFloat);
  REQUIRE_THROWS_MATCHES(libtorch::from(complex.conj()), Unsupported,
                         says("CPUComplexFloat", "conjugated", "resolve_conj"));
  REQUIRE_THROWS_AS(libtorch::from(complex), Unsupported);
  const at::Tensor quantised = at::quantize_per_tensor(at::ones({2}), 1, 0, at::kQInt8);
  REQUIRE_THROWS_MATCHES(libtorch::from(quantised), Unsupported, says("cannot be lent by DLPack"));
  REQUIRE_THROWS_AS(libtorch::from(at::empty({2}, at::kMeta)), Unsupported);

  REQUIRE_THROWS_MATCHES(libtorch::to(Tensor::ones({2}).read_only()), InvalidArgument,
                         says("must not be written"));
  REQUIRE_THROWS_AS(libtorch::to(Tensor()), ContextError);
#if TORCH_VERSION_MAJOR < 2  // it has no such dtype
  const Tensor words = Tensor::ones({2}, DType::u32);
  REQUIRE_THROWS_MATCHES(libtorch::to(words), Unsupported,
                         says("libtorch::to: [2] uint32 on CPU:0", "taken by torch"));
  REQUIRE_FALSE(words.is_shared());
#endif
#if !__has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
  REQUIRE_THROWS_MATCHES(libtorch::current_stream("GPU:0"), Unsupported, says("built without CUDA", "GPU:0"));
#endif
}

}  // namespace lockstep::test
