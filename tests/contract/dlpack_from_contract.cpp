#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/lockstep.hpp>

#include "support/dtypes.hpp"
#include "support/loan.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

/// Tensors that other libraries lend to lockstep.
namespace lockstep::test {
namespace {

using Structs = std::tuple<DLManagedTensorVersioned, DLManagedTensor>;

StreamRef stream() { return current_stream(TestBackend::device()); }

Tensor floats(const Shape& shape) {
  return Tensor::arange(0.0f, static_cast<float>(shape.size())).to(TestBackend::device()).reshape(shape);
}

/// Ones, made and freed on a lender's stream.
Tensor filled_on(const StreamRef& lender) {
  const StreamScope scope(lender);
  return Tensor::full({10'000}, 1, DType::i32, lender.device());
}

std::vector<float> floats_of(const Tensor& tensor) { return tensor.to_vector<float>(); }
std::vector<std::int32_t> ints_of(const Tensor& tensor) { return tensor.to_vector<std::int32_t>(); }

}  // namespace

TEMPLATE_LIST_TEST_CASE("a tensor that is lent and taken is the same memory, of every dtype", "[dlpack]",
                        AllTypes) {
  const Tensor tensor = Tensor::arange(6).cast(dtype_of<TestType>).to(TestBackend::device()).reshape({2, 3});
  stream().synchronize();
  const MemoryStats before = memory_stats(TestBackend::device());
  for (const Tensor& taken : {dlpack::from(dlpack::to(tensor, stream()), stream()),
                              dlpack::from(dlpack::to_unversioned(tensor, stream()), stream())}) {
    CHECK(taken.view().data == tensor.view().data);
    CHECK(taken.dtype() == tensor.dtype());
    CHECK(taken.shape() == tensor.shape());
    CHECK(taken.view().strides == tensor.view().strides);
    CHECK(taken.device() == tensor.device());
    CHECK_FALSE(taken.is_read_only());
    CHECK(taken.is_borrowed());
  }
  const MemoryStats after = memory_stats(TestBackend::device());
  CHECK(after.in_use_bytes == before.in_use_bytes);
  CHECK(after.num_allocations == before.num_allocations);
}

TEMPLATE_LIST_TEST_CASE("a taken tensor is written where it lies", "[dlpack]", Structs) {
  const Tensor memory = floats({4});
  Loan<TestType> loan(memory.view());
  Tensor taken = dlpack::from(loan.give(), stream());
  taken.add_(10.0f);
  CHECK(memory.to_vector<float>() == std::vector<float>{10, 11, 12, 13});
}

TEMPLATE_LIST_TEST_CASE("strides, no strides and an offset are understood", "[dlpack]", Structs) {
  const Tensor memory = floats({3, 4});
  {
    Loan<TestType> loan(memory.narrow(1, 1, 3).view());
    CHECK(floats_of(dlpack::from(loan.give(), stream())) == std::vector<float>{1, 2, 5, 6, 9, 10});
  }
  {
    Loan<TestType> loan(memory.view());
    loan.tensor().strides = nullptr;
    CHECK(floats_of(dlpack::from(loan.give(), stream())) == memory.to_vector<float>());
  }
  {
    Loan<TestType> loan(memory.slice(0, 2).view());
    loan.tensor().byte_offset = 4 * sizeof(float);
    CHECK(floats_of(dlpack::from(loan.give(), stream())) == std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11});
  }
  {
    Loan<TestType> loan(memory.view());  // transposed
    std::swap(loan.shape[0], loan.shape[1]);
    std::swap(loan.strides[0], loan.strides[1]);
    CHECK(floats_of(dlpack::from(loan.give(), stream())) ==
          std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  }
}

TEMPLATE_LIST_TEST_CASE("strides that nobody steps along do not matter", "[dlpack]", Structs) {
  const Tensor memory = floats({1, 4});
  Loan<TestType> loan(memory.view());
  loan.strides[0] = -17;
  const Tensor taken = dlpack::from(loan.give(), stream());
  CHECK(taken.is_contiguous());
  CHECK(taken.view().strides[0] >= 0);
  CHECK(taken.to_vector<float>() == std::vector<float>{0, 1, 2, 3});

  Loan<TestType> none(memory.view());
  none.shape[1] = 0;
  none.strides[1] = std::numeric_limits<std::int64_t>::min();
  none.tensor().data = nullptr;
  none.tensor().byte_offset = 7;
  const Tensor empty = dlpack::from(none.give(), stream());
  CHECK(empty.shape() == Shape(1, 0));
  CHECK(empty.to_vector<float>().empty());

  Loan<TestType> scalar(Tensor::scalar(5.0f, TestBackend::device()).view());
  scalar.tensor().shape = scalar.tensor().strides = nullptr;
  CHECK(dlpack::from(scalar.give(), stream()).rank() == 0);
}

TEST_CASE("a taken tensor is read-only if the flags say so, whatever other flags say", "[dlpack]") {
  const Tensor memory = floats({4});
  for (const std::uint64_t flags : {0, 1, 2, 3, 4, 8, 9}) {
    Loan<DLManagedTensorVersioned> loan(memory.view());
    loan.managed.flags = flags;
    Tensor taken = dlpack::from(loan.give(), stream());
    CHECK(taken.is_read_only() == (flags % 2 == 1));
    if (taken.is_read_only()) CHECK_THROWS_MATCHES(taken.fill_(0.0f), InvalidArgument, says("read-only"));
  }
}

TEMPLATE_LIST_TEST_CASE("P39 a taken tensor's work comes after the stream's", "[dlpack]", Structs) {
  const Device device = TestBackend::device();
  const Stream producer(device);
  Tensor memory = filled_on(producer);
  for (int round = 1; round <= 10; ++round) {
    Loan<TestType> loan(memory.view());
    {
      const StreamScope scope(producer);
      memory.fill_(round);
    }
    CHECK(ints_of(dlpack::from(loan.give(), producer)) == std::vector<std::int32_t>(10'000, round));
  }
}

TEMPLATE_LIST_TEST_CASE(
    "P39 what the producer does after its deleter was called comes after the tensor's work", "[dlpack]",
    Structs) {
  const Device device = TestBackend::device();
  const Stream producer(device);
  Tensor memory = filled_on(producer);
  Loan<TestType> loan(memory.view());
  loan.at_end = [&] {
    const StreamScope scope(producer);
    memory.fill_(-1);
  };
  const Tensor seen = dlpack::from(loan.give(), producer).clone();
  CHECK(loan.num_ends == 1);
  CHECK(seen.to_vector<std::int32_t>() == std::vector<std::int32_t>(10'000, 1));
}

TEMPLATE_LIST_TEST_CASE("P39 a taken tensor goes back from the stream that it was given to", "[dlpack]",
                        Structs) {
  const Device device = TestBackend::device();
  const Stream producer(device), other(device);
  Tensor memory = filled_on(producer);
  Loan<TestType> loan(memory.view());
  loan.at_end = [&] {
    const StreamScope scope(producer);
    memory.fill_(-1);
  };
  Tensor seen;
  {
    Tensor taken = dlpack::from(loan.give(), producer);
    CHECK(taken.stream() == stream());
    other.wait(stream());
    const StreamScope scope(other);
    taken.set_stream(other);
    CHECK(taken.stream() == other);
    seen = taken.clone();
  }
  const StreamScope scope(other);
  CHECK(seen.to_vector<std::int32_t>() == std::vector<std::int32_t>(10'000, 1));
}

TEMPLATE_LIST_TEST_CASE("the last handle calls the deleter once, on its thread", "[dlpack]", Structs) {
  const Tensor memory = floats({4});
  Loan<TestType> loan(memory.view());
  std::thread::id ended_on;
  loan.at_end = [&] { ended_on = std::this_thread::get_id(); };
  std::optional<Tensor> taken = dlpack::from(loan.give(), stream());
  std::optional<Tensor> part = taken->slice(1, 3);
  taken.reset();
  CHECK(loan.num_ends == 0);
  std::thread last([&] { part.reset(); });
  const std::thread::id last_id = last.get_id();
  last.join();
  CHECK(loan.num_ends == 1);
  CHECK(ended_on == last_id);
}

TEMPLATE_LIST_TEST_CASE("a tensor without a deleter is taken", "[dlpack]", Structs) {
  const Tensor memory = floats({4});
  Loan<TestType> loan(memory.view());
  loan.managed.deleter = nullptr;
  CHECK(floats_of(dlpack::from(loan.give(), stream())) == std::vector<float>{0, 1, 2, 3});
  loan.tensor().ndim = -1;
  CHECK_THROWS_AS(dlpack::from(loan.give(), stream()), InvalidArgument);
}

TEMPLATE_LIST_TEST_CASE("what a Tensor cannot be is refused, and its deleter called once", "[dlpack]",
                        Structs) {
  using Fault = std::function<void(Loan<TestType>&)>;
  struct Refused {
    Fault fault;
    bool is_unsupported;
    std::vector<std::string> message;
  };
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const std::vector<Refused> cases = {
      {[](auto& loan) {
         loan.tensor().dtype = {5, 64, 1};
       },
       true,
       {"complex with 64 bits", "extent 2"}},
      {[](auto& loan) { loan.tensor().dtype.lanes = 2; }, true, {"2 lanes", "last axis"}},
      {[](auto& loan) {
         loan.tensor().dtype = {17, 4, 1};
       },
       true,
       {"float4_e2m1fn", "Convert"}},
      {[](auto& loan) { loan.tensor().device.device_type = DLDeviceType{10}; }, true, {"type 10", "Copy it"}},
      {[](auto& loan) { loan.strides[1] = -1; }, true, {"stride -1 of axis 1 of [2, 4] float32", "negative"}},
      {[](auto& loan) { loan.tensor().ndim = -1; }, false, {"rank -1", "[0, 8]"}},
      {[](auto& loan) { loan.tensor().ndim = 9; }, false, {"rank 9", "[0, 8]", "Join axes"}},
      {[](auto& loan) { loan.tensor().shape = nullptr; }, false, {"rank 2, and no shape"}},
      {[](auto& loan) { loan.shape[1] = -4; }, false, {"extent -4", "[2, -4]"}},
      {[=](auto& loan) { loan.shape[1] = huge; }, false, {"elements", "does not fit 64 bits"}},
      {[](auto& loan) { loan.tensor().data = nullptr; }, false, {"no data for [2, 4] float32", "8 elements"}},
      {[=](auto& loan) { loan.strides[0] = huge; }, false, {"strides of [2, 4]", "address space"}},
      {[=](auto& loan) { loan.strides[0] = huge / 2; }, false, {"strides of [2, 4]", "address space"}},
      {[](auto& loan) { loan.tensor().byte_offset = ~std::uint64_t{3}; },
       false,
       {"byte offset 18446744073709551612 of [2, 4]", "address space"}},
      {[](auto& loan) { loan.tensor().byte_offset = 2; }, false, {"2 bytes after", "no multiple of 4"}}};
  for (const Refused& each : cases) {
    INFO(each.message[0]);
    const Tensor memory = floats({2, 4});
    Loan<TestType> loan(memory.view());
    each.fault(loan);
    std::string message;
    bool is_unsupported = false;
    try {
      static_cast<void>(dlpack::from(loan.give(), stream()));
    } catch (const InvalidArgument& error) {
      message = error.what();
    } catch (const Unsupported& error) {
      message = error.what();
      is_unsupported = true;
    }
    CHECK(is_unsupported == each.is_unsupported);
    for (const std::string& part : each.message)
      CHECK_THAT(message, Catch::Matchers::ContainsSubstring(part));
    CHECK(loan.num_ends == 1);
    CHECK(memory.to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
  }
}

TEST_CASE("another major version is refused after its deleter was called, a later minor one is not",
          "[dlpack]") {
  const Tensor memory = floats({4});
  for (const std::uint32_t major : {0u, 2u, 77u}) {
    Loan<DLManagedTensorVersioned> loan(memory.view());
    loan.managed.version = {major, 3};
    loan.tensor().ndim = -5;  // not to be read
    CHECK_THROWS_MATCHES(dlpack::from(loan.give(), stream()), Unsupported,
                         says("dlpack::from", "version " + std::to_string(major) + ".3", "reads 1.x"));
    CHECK(loan.num_ends == 1);
  }
  Loan<DLManagedTensorVersioned> loan(memory.view());
  loan.managed.version = {1, 99};
  CHECK(dlpack::from(loan.give(), stream()).size() == 4);
}

TEST_CASE("null is refused", "[dlpack]") {
  CHECK_THROWS_MATCHES(dlpack::from(dlpack::Managed(), stream()), InvalidArgument,
                       says("dlpack::from", "null"));
  CHECK_THROWS_MATCHES(dlpack::from(dlpack::UnversionedManaged(), stream()), InvalidArgument,
                       says("dlpack::from", "null"));
}

TEST_CASE("a moved-from stream is refused, and the deleter called", "[dlpack]") {
  const Tensor memory = floats({4});
  Stream gone(TestBackend::device());
  const Stream here = std::move(gone);
  Loan<DLManagedTensorVersioned> loan(memory.view());
  CHECK_THROWS_MATCHES(dlpack::from(loan.give(), gone), ContextError, says("Stream", "moved from"));
  CHECK(loan.num_ends == 1);
}

TEST_CASE("memory of another GPU than the stream's is refused with both numbers", "[dlpack]") {
  std::vector<float> host(4);
  Loan<DLManagedTensorVersioned> loan(Tensor::view(host.data(), {4}, DType::f32, "CPU:0").view());
  loan.tensor().device = {kDLCUDA, 77};
  const bool is_gpu = TestBackend::kind() == DeviceKind::gpu;
  CHECK_THROWS_MATCHES(dlpack::from(loan.give(), stream()), InvalidArgument,
                       says("CUDA's GPU 77", "the stream is of " + TestBackend::device().to_string(),
                            is_gpu ? "which is CUDA's GPU 0. Pass a stream" : "Pass a stream of that GPU"));
  CHECK(loan.num_ends == 1);
}

TEMPLATE_LIST_TEST_CASE("host memory comes with the stream on which it is filled", "[dlpack]", Structs) {
  const bool is_gpu = TestBackend::kind() == DeviceKind::gpu;
  const PinnedBuffer pinned(40'000, TestBackend::device());
  const Tensor host = Tensor::view(pinned.bytes().data(), {10'000}, DType::f32, "CPU:0");
  for (const DLDeviceType type : {kDLCPU, kDLCUDAHost}) {
    const Tensor source = Tensor::full({10'000}, static_cast<float>(type), DType::f32, TestBackend::device());
    stream().device_backend().copy_to_host(pinned.bytes().data(), source.view().data, 40'000,
                                           stream().handle());
    Loan<TestType> loan(host.view());
    loan.tensor().device = {type, 0};
    const Tensor taken = dlpack::from(loan.give(), stream());
    CHECK(taken.device() == (is_gpu ? Device("CPU:0") : TestBackend::device()));
    CHECK(static_cast<const float*>(taken.view().data)[9'999] == static_cast<float>(type));
  }
  Loan<TestType> loan(host.view());
  CHECK(dlpack::from(loan.give(), current_stream("CPU:3")).device() == Device("CPU:3"));
}

TEST_CASE("collectives reduce lent memory where it lies", "[dlpack]") {
  const int n = TestBackend::replica_counts().back();
  std::vector<Tensor> memory, taken;
  std::vector<TensorView> views;
  std::vector<StreamRef> streams;
  std::vector<Device> devices;
  for (int rank = 0; rank < n; ++rank) {
    devices.push_back(TestBackend::device(rank));
    streams.push_back(current_stream(devices.back()));
    memory.push_back(Tensor::full({1000}, rank, DType::i32, devices.back()));
    taken.push_back(dlpack::from(dlpack::to(memory.back(), streams.back()), streams.back()));
    views.push_back(taken.back().view());
  }
  Communicator communicator = Communicator::create(devices);
  communicator.all_reduce(ReduceOp::sum, views, views, streams);
  for (const Tensor& each : memory)
    CHECK(each.to_vector<std::int32_t>() == std::vector<std::int32_t>(1000, n * (n - 1) / 2));
}

}  // namespace lockstep::test
