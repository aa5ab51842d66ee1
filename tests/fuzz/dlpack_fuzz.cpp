#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <lockstep/dlpack.hpp>
#include <lockstep/error.hpp>

#include "dlpack/abi.hpp"
#include "fuzz/expect.hpp"

namespace {

using namespace lockstep;
using test::expect;

/// Numbers from the fuzzer's bytes: a byte below 240 is a number from 0 to 15, another one announces 8 bytes.
/// At the end all are 0.
class Numbers {
 public:
  Numbers(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::uint64_t next() {
    if (size_ == 0) return 0;
    const std::uint8_t first = *data_;
    take(1);
    if (first < 240) return first % 16;
    std::uint64_t number = 0;
    const std::size_t length = std::min<std::size_t>(size_, sizeof number);
    std::memcpy(&number, data_, length);
    take(length);
    return number;
  }
  template <class T>
  T next_as() {
    return static_cast<T>(next());
  }

 private:
  void take(std::size_t length) {
    data_ += length;
    size_ -= length;
  }

  const std::uint8_t* data_;
  std::size_t size_;
};

alignas(256) std::array<std::byte, 4096> memory;
constexpr std::size_t kNumAxes = 9;  // one more than a Tensor can have

struct Input {
  std::array<std::int64_t, kNumAxes> shape{}, strides{};
  int num_ends = 0;
};

template <class Struct>
void fill(Struct& managed, Input& input, Numbers& numbers) {
  managed.manager_ctx = &input;
  managed.deleter = [](Struct* self) { ++static_cast<Input*>(self->manager_ctx)->num_ends; };
  DLTensor& tensor = managed.dl_tensor;
  const auto present = numbers.next();  // bits: which pointers are null
  tensor.data = present & 1 ? nullptr : memory.data();
  tensor.shape = present & 2 ? nullptr : input.shape.data();
  tensor.strides = present & 4 ? nullptr : input.strides.data();
  tensor.device = {DLDeviceType{numbers.next_as<std::int32_t>()}, numbers.next_as<std::int32_t>()};
  tensor.dtype = {numbers.next_as<std::uint8_t>(), static_cast<std::uint8_t>(8 * numbers.next()),
                  numbers.next_as<std::uint16_t>()};
  tensor.ndim = numbers.next_as<std::int32_t>();
  tensor.byte_offset = numbers.next();
  for (std::int64_t& extent : input.shape) extent = numbers.next_as<std::int64_t>();
  for (std::int64_t& stride : input.strides) stride = numbers.next_as<std::int64_t>();
}

/// Whether all elements lie in the memory that there is: its owner may claim more.
bool is_in_memory(const TensorView& view) {
  if (view.size() == 0) return true;
  std::uint64_t last = 0;  // `from` has checked that this fits
  for (int axis = 0; axis < view.shape.rank(); ++axis)
    last += static_cast<std::uint64_t>(view.shape[axis] - 1) *
            static_cast<std::uint64_t>(view.strides[static_cast<std::size_t>(axis)]);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto first = reinterpret_cast<std::uintptr_t>(view.data);
  return begin <= first && first + (last + 1) * size_of(view.dtype) <= begin + memory.size();
}

/// A tensor that was accepted can be read, lent again and, unless it is read-only, written.
void use(const Tensor& tensor, const StreamRef& stream) {
  const TensorView& view = tensor.view();
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(tensor.rank()); ++axis)
    expect(view.strides[axis] >= 0, "a stride is negative");
  expect(view.size() == 0 || reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) == 0,
         "the first element is not aligned");
  const dlpack::Managed lent = dlpack::to(tensor, stream);
  expect(lent->dl_tensor.ndim == tensor.rank(), "the rank changes");
  expect(view.size() == 0 || lent->dl_tensor.data == view.data, "the address changes");
  if (!is_in_memory(view) || view.size() > static_cast<std::int64_t>(memory.size())) return;
  const Tensor copy = tensor.clone();
  expect(copy.size() == tensor.size(), "the size changes");
  if (lent->flags == 0) Tensor(tensor).fill_(1);
}

template <class Struct>
void take(Struct& managed, Input& input) {
  const StreamRef stream = current_stream(Device());
  try {
    use(dlpack::from(std::unique_ptr<Struct, dlpack::Deleter>(&managed), stream), stream);
  } catch (const Error& error) {
    const bool is_known = dynamic_cast<const InvalidArgument*>(&error) != nullptr ||
                          dynamic_cast<const Unsupported*>(&error) != nullptr;
    const std::string_view message = error.what();
    expect(is_known && (message.starts_with("dlpack::from: ") || message.starts_with("Shape: ")),
           error.what());
  }
  expect(input.num_ends == 1, "the deleter was not called once");
}

}  // namespace

/// A managed tensor, versioned or not, with any fields, of real memory: it is refused, or it can be used.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Numbers numbers(data, size);
  Input input;
  memory.fill(std::byte{0});
  if (numbers.next() % 2 == 0) {
    DLManagedTensorVersioned managed{};
    managed.version = {numbers.next_as<std::uint32_t>(), 1};
    managed.flags = numbers.next();
    fill(managed, input, numbers);
    take(managed, input);
  } else {
    DLManagedTensor managed{};
    fill(managed, input, numbers);
    take(managed, input);
  }
  return 0;
}
