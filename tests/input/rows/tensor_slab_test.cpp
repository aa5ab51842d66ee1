#include "input/rows/tensor_slab.hpp"

#include <cstdint>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/device_manager.hpp>

using namespace lockstep;
using detail::TensorSlab;

TEST_CASE("small tensors share allocations, and none overlaps another", "[input][host]") {
  TensorSlab slab;
  std::vector<Tensor> tensors;
  for (std::int64_t i = 0; i < 1000; ++i) {
    tensors.push_back(slab.take(Shape(i % 40), DType::i64));
    tensors.back().fill_(i);
  }
  std::int64_t num_shared = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const Tensor& tensor = tensors[static_cast<std::size_t>(i)];
    CHECK(tensor.to_vector<std::int64_t>() == std::vector<std::int64_t>(static_cast<std::size_t>(i % 40), i));
    CHECK(reinterpret_cast<std::uintptr_t>(tensor.view().data) % 16 == 0);
    CHECK_FALSE(tensor.is_borrowed());
    num_shared += tensor.is_shared() ? 1 : 0;
  }
  CHECK(num_shared > 900);
}

TEST_CASE("large tensors have memory of their own, and scalars every dtype", "[input][host]") {
  TensorSlab slab;
  CHECK_FALSE(slab.take(Shape(TensorSlab::kBytes), DType::u8).is_shared());
  for (const DType dtype : {DType::boolean, DType::f16, DType::f64}) {
    const Tensor scalar = slab.take(Shape(), dtype);
    CHECK(scalar.dtype() == dtype);
    CHECK(scalar.size() == 1);
  }
}

TEST_CASE("tensors outlive the slab that made them", "[input][host]") {
  Tensor kept;
  {
    TensorSlab slab;
    kept = slab.take(Shape(2), DType::i64);
  }
  kept.fill_(7);
  CHECK_FALSE(kept.is_shared());
  CHECK(kept.to_vector<std::int64_t>() == std::vector<std::int64_t>{7, 7});
}
