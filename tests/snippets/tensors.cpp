// Examples of the documentation: tensors and their memory.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

TEST_CASE("the examples of tensors are right", "[docs]") {
  //! [Tensor]
  ls::Tensor x = ls::Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  ls::Tensor y = x * 2 + 1;             // enqueued; returns without waiting
  ls::Tensor first = y.slice(0, 1);     // a view of row 0, which shares y's memory
  first.add_(10);                       // so y has changed, too
  auto numbers = y.to_vector<float>();  // waits, and copies to the host: 13, 15, 17, 9, 11, 13
  //! [Tensor]
  CHECK(numbers == std::vector<float>{13, 15, 17, 9, 11, 13});

  std::vector<float> memory(6);
  //! [TensorView]
  ls::TensorView lent(memory.data(), {2, 3}, ls::DType::f32);  // what an engine passes to a Communicator
  ls::Tensor same =
      ls::Tensor::view(lent.data, {2, 3}, lent.dtype, "CPU:0");  // what tensors' operations take
  same.fill_(1.0f);                                              // writes the engine's memory
  //! [TensorView]
  CHECK(memory == std::vector<float>(6, 1));
}

TEST_CASE("the examples of shapes and scalars are right", "[docs]") {
  //! [Shape]
  ls::Shape shape{32, 28, 28};
  std::int64_t pixels = shape.size();      // 25088
  std::int64_t columns = shape[-1];        // negative axes count from the end
  ls::Shape one_image = shape.without(0);  // [28, 28]
  ls::Shape twice_as_many = shape.with(0, 64);
  //! [Shape]
  CHECK(pixels == 25088);
  CHECK(columns == 28);
  CHECK(one_image == ls::Shape{28, 28});
  CHECK(twice_as_many == ls::Shape{64, 28, 28});

  //! [Axes]
  ls::Tensor ones = ls::Tensor::ones({4, 3});
  ls::Tensor by_column = ls::sum(ones, 0);  // one axis: [3]
  ls::Tensor all = ls::sum(ones, {0, 1});   // a list: []
  //! [Axes]
  CHECK(by_column.to_vector<float>() == std::vector<float>{4, 4, 4});
  CHECK(all.item<float>() == 12);

  //! [Scalar]
  ls::Tensor counts = ls::Tensor::zeros({2}, ls::DType::i64);
  counts.add_(1);                                    // the number takes the tensor's dtype
  bool fits = ls::Scalar(0.5).fits(counts.dtype());  // false: counts.add_(0.5) throws InvalidArgument
  //! [Scalar]
  CHECK(counts.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1});
  CHECK_FALSE(fits);

  //! [IndexedSlices]
  ls::IndexedSlices rows{ls::Tensor::from<float>({1, 2, 10, 20}, {2, 2}),  // two rows of values
                         ls::Tensor::from<std::int64_t>({3, 0}, {2}),
                         {4, 2}};      // of a [4, 2] tensor: 3 and 0
  ls::Tensor dense = rows.to_dense();  // the other rows are zeros
  //! [IndexedSlices]
  CHECK(dense.to_vector<float>() == std::vector<float>{10, 20, 0, 0, 0, 0, 1, 2});
}

TEST_CASE("the examples of memory are right", "[docs]") {
  //! [Buffer, MemoryStats]
  ls::Buffer scratch(1 << 20, ls::current_stream("CPU:0"));      // bytes, in the stream's order
  std::int64_t in_use = ls::memory_stats("CPU:0").in_use_bytes;  // at least a MiB
  scratch = ls::Buffer();                                        // back to the device's pool
  ls::trim_memory("CPU:0");                                      // and from there to the system
  //! [Buffer, MemoryStats]
  CHECK(in_use >= 1 << 20);
  CHECK_FALSE(scratch.defined());

  //! [PinnedBuffer]
  ls::PinnedBuffer staging(3 * sizeof(float), "CPU:0");  // with "GPU:0": page-locked for that GPU
  auto* values = reinterpret_cast<float*>(staging.bytes().data());
  values[0] = values[1] = values[2] = 7;
  ls::Tensor copy =
      ls::Tensor::from(std::span<const float>(values, 3), {3});  // a GPU reads it in stream order
  //! [PinnedBuffer]
  CHECK(copy.to_vector<float>() == std::vector<float>{7, 7, 7});
}
