#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "dlpack/abi.hpp"
#include "support/dtypes.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

/// Tensors that lockstep lends.
namespace lockstep::test {
namespace {

StreamRef stream() { return current_stream(TestBackend::device()); }

std::vector<std::int64_t> list(const std::int64_t* values, std::int32_t n) { return {values, values + n}; }

constexpr std::uint64_t kReadOnly = 1;

std::uint64_t flags_of(const Tensor& tensor) { return dlpack::to(tensor, stream())->flags; }

/// What a consumer reads of the memory, on its stream.
Tensor view_of(const DLTensor& lent, DType dtype, const Device& device) {
  const Shape shape{std::span<const std::int64_t>(lent.shape, static_cast<std::size_t>(lent.ndim))};
  return Tensor::view(lent.data, shape, dtype, device, list(lent.strides, lent.ndim));
}

std::int64_t in_use_bytes() { return memory_stats(TestBackend::device()).in_use_bytes; }

}  // namespace

TEMPLATE_LIST_TEST_CASE("a lent tensor is the tensor's memory, of every dtype", "[dlpack]", AllTypes) {
  using T = TestType;
  const Tensor tensor = Tensor::arange(6).cast(dtype_of<T>).to(TestBackend::device()).reshape({2, 3});
  const dlpack::Managed managed = dlpack::to(tensor, stream());
  CHECK(managed->version.major == 1);
  CHECK(managed->version.minor == 1);
  CHECK(managed->flags == 0);
  const DLTensor& lent = managed->dl_tensor;
  CHECK(lent.data == tensor.view().data);
  CHECK(lent.byte_offset == 0);
  CHECK(lent.dtype.bits == 8 * sizeof(T));
  CHECK(lent.dtype.lanes == 1);
  CHECK(list(lent.shape, lent.ndim) == std::vector<std::int64_t>{2, 3});
  CHECK(list(lent.strides, lent.ndim) == std::vector<std::int64_t>{3, 1});
  const dlpack::UnversionedManaged unversioned = dlpack::to_unversioned(tensor, stream());
  CHECK(unversioned->dl_tensor.data == tensor.view().data);
  CHECK(unversioned->dl_tensor.dtype.code == lent.dtype.code);
  CHECK(list(unversioned->dl_tensor.strides, 2) == std::vector<std::int64_t>{3, 1});
}

TEST_CASE("a lent tensor names its device by the native library's number", "[dlpack]") {
  for (int i = 0; i < std::min(TestBackend::num_devices(), 4); ++i) {
    const Device device = TestBackend::device(i);
    const Tensor tensor = Tensor::zeros({3}, DType::f32, device);
    const DLDevice place = dlpack::to(tensor, current_stream(device))->dl_tensor.device;
    if (TestBackend::kind() == DeviceKind::cpu) {
      CHECK(place.device_type == 1);
      CHECK(place.device_id == 0);
    } else {
      CHECK(place.device_type == 2);
      CHECK(place.device_id == TestBackend::open(i).ordinal());
    }
  }
}

TEST_CASE("P28 views are lent with their strides, scalars and empty tensors too", "[dlpack]") {
  const Tensor tensor = Tensor::zeros({4, 6}, DType::f32, TestBackend::device());
  const Tensor columns = tensor.narrow(1, 2, 5);
  const dlpack::Managed managed = dlpack::to(columns, stream());
  CHECK(managed->dl_tensor.data == columns.view().data);
  CHECK(list(managed->dl_tensor.shape, 2) == std::vector<std::int64_t>{4, 3});
  CHECK(list(managed->dl_tensor.strides, 2) == std::vector<std::int64_t>{6, 1});

  const dlpack::Managed scalar = dlpack::to(Tensor::scalar(1.0f, TestBackend::device()), stream());
  CHECK(scalar->dl_tensor.ndim == 0);
  CHECK(scalar->dl_tensor.data != nullptr);

  const dlpack::Managed none = dlpack::to(tensor.slice(1, 1), stream());
  CHECK(none->dl_tensor.data == nullptr);
  CHECK(list(none->dl_tensor.shape, 2) == std::vector<std::int64_t>{0, 6});
  CHECK(none->dl_tensor.strides != nullptr);
}

TEST_CASE("what must not be written is lent with the flag read-only", "[dlpack]") {
  const Tensor tensor = Tensor::zeros({4}, DType::f32, TestBackend::device());
  CHECK(flags_of(tensor) == 0);
  CHECK(flags_of(tensor.slice(1, 3)) == 0);
  CHECK(flags_of(tensor.read_only()) == kReadOnly);
  const void* const constant = tensor.view().data;
  CHECK(flags_of(Tensor::view(constant, {4}, DType::f32, TestBackend::device())) == kReadOnly);
  const Tensor repeated = Tensor::view(tensor.view().data, {3, 4}, DType::f32, TestBackend::device(), {0, 1});
  CHECK(flags_of(repeated) == kReadOnly);

  OneDeviceStrategy strategy(TestBackend::device());
  const auto scope = strategy.scope();
  Variable variable(tensor);
  const Tensor snapshot = variable.value();
  CHECK(flags_of(snapshot) == kReadOnly);
  for (const Tensor& refused : {tensor.read_only(), repeated, snapshot})
    CHECK_THROWS_MATCHES(dlpack::to_unversioned(refused, stream()), InvalidArgument,
                         says("dlpack::to_unversioned", describe(refused), "must not be written", "clone()"));
}

TEST_CASE("a lent snapshot of a variable stays as it was", "[dlpack]") {
  OneDeviceStrategy strategy(TestBackend::device());
  const auto scope = strategy.scope();
  Variable variable(Tensor::full({3}, 1.0f));
  const dlpack::Managed managed = dlpack::to(variable.value(), stream());
  variable.assign(Tensor::full({3}, 2.0f));
  CHECK(view_of(managed->dl_tensor, DType::f32, TestBackend::device()).to_vector<float>() ==
        std::vector<float>{1, 1, 1});
  CHECK(variable.value().to_vector<float>() == std::vector<float>{2, 2, 2});
}

TEST_CASE("page-locked memory is lent as CUDA's to a GPU's stream alone", "[dlpack]") {
  const PinnedBuffer pinned(400, TestBackend::device());
  std::vector<float> ordinary(100);
  const Tensor locked = Tensor::view(pinned.bytes().data(), {100}, DType::f32, "CPU:0");
  const Tensor unlocked = Tensor::view(ordinary.data(), {100}, DType::f32, "CPU:0");
  const bool is_gpu = TestBackend::kind() == DeviceKind::gpu;
  CHECK(dlpack::to(locked, stream())->dl_tensor.device.device_type == (is_gpu ? 3 : 1));
  CHECK(dlpack::to(locked, stream())->dl_tensor.device.device_id == 0);
  CHECK(dlpack::to(locked.slice(50, 100), stream())->dl_tensor.device.device_type == (is_gpu ? 3 : 1));
  CHECK(dlpack::to(locked, current_stream("CPU:0"))->dl_tensor.device.device_type == 1);
  CHECK(dlpack::to(unlocked, stream())->dl_tensor.device.device_type == 1);
}

TEST_CASE("P39 the consumer's stream comes after the tensor's work", "[dlpack]") {
  const Device device = TestBackend::device();
  const Stream producer(device), consumer(device);
  for (int round = 1; round <= 10; ++round) {
    dlpack::Managed managed;
    {
      const StreamScope scope(producer);
      managed = dlpack::to(Tensor::full({10'000}, round, DType::i32, device), consumer);
    }
    const StreamScope scope(consumer);
    CHECK(view_of(managed->dl_tensor, DType::i32, device).to_vector<std::int32_t>() ==
          std::vector<std::int32_t>(10'000, round));
  }
}

TEST_CASE("P39 the memory is freed after the consumer's work", "[dlpack]") {
  const Device device = TestBackend::device();
  const Stream producer(device), consumer(device);
  for (int round = 1; round <= 10; ++round) {
    Tensor seen;
    {
      dlpack::Managed managed;
      {
        const StreamScope scope(producer);
        managed = dlpack::to(Tensor::full({10'000}, round, DType::i32, device), consumer);
      }
      const StreamScope scope(consumer);
      seen = view_of(managed->dl_tensor, DType::i32, device).clone();
    }  // the deleter is called, and the consumer's copy may not have begun
    {
      const StreamScope scope(producer);
      const Tensor next = Tensor::full({10'000}, -1, DType::i32, device);  // takes the memory, if it is free
      producer.synchronize();
    }
    const StreamScope scope(consumer);
    CHECK(seen.to_vector<std::int32_t>() == std::vector<std::int32_t>(10'000, round));
  }
}

TEST_CASE("P39 writes after the deleter, on the tensor's stream, come after the consumer's reads",
          "[dlpack]") {
  const Device device = TestBackend::device();
  const Stream producer(device), consumer(device);
  const StreamScope scope(producer);
  Tensor tensor = Tensor::full({10'000}, 1, DType::i32, device);
  Tensor seen;
  {
    const dlpack::Managed managed = dlpack::to(tensor, consumer);
    const StreamScope reading(consumer);
    seen = view_of(managed->dl_tensor, DType::i32, device).clone();
  }
  tensor.fill_(2);
  const StreamScope reading(consumer);
  CHECK(seen.to_vector<std::int32_t>() == std::vector<std::int32_t>(10'000, 1));
}

TEST_CASE("a lent tensor keeps its memory until the deleter is called, on any thread", "[dlpack]") {
  stream().synchronize();
  const std::int64_t before = in_use_bytes();
  std::optional<Tensor> tensor = Tensor::zeros({1 << 20}, DType::f32, TestBackend::device());
  DLManagedTensorVersioned* const raw = dlpack::to(*tensor, stream()).release();
  DLManagedTensor* const unversioned = dlpack::to_unversioned(*tensor, stream()).release();
  CHECK(tensor->is_shared());
  tensor.reset();
  CHECK(in_use_bytes() >= before + (std::int64_t{4} << 20));
  std::thread([&] { raw->deleter(raw); }).join();
  CHECK(in_use_bytes() >= before + (std::int64_t{4} << 20));
  std::thread([&] { unversioned->deleter(unversioned); }).join();
  CHECK(in_use_bytes() == before);
}

TEST_CASE("threads lend one tensor at the same time", "[dlpack]") {
  const Tensor tensor = Tensor::zeros({100}, DType::f32, TestBackend::device());
  const StreamRef consumer = stream();
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) static_cast<void>(dlpack::to(tensor, consumer));
      });
  }
  CHECK_FALSE(tensor.is_shared());
}

TEST_CASE("an empty tensor and a moved-from stream cannot be lent, and nothing is kept", "[dlpack]") {
  CHECK_THROWS_MATCHES(dlpack::to(Tensor(), stream()), ContextError, says("Tensor", "empty"));
  CHECK_THROWS_MATCHES(dlpack::to_unversioned(Tensor(), stream()), ContextError, says("Tensor", "empty"));
  const Tensor tensor = Tensor::zeros({3}, DType::f32, TestBackend::device());
  Stream gone(TestBackend::device());
  const Stream here = std::move(gone);
  CHECK_THROWS_MATCHES(dlpack::to(tensor, gone), ContextError, says("moved from"));
  CHECK_FALSE(tensor.is_shared());
}

}  // namespace lockstep::test
