// States of iterators: bad bytes must give an exception when they are restored or when elements are taken
// after that; everything else ends the program.
#include <cstddef>
#include <cstdint>
#include <utility>

#include <lockstep/input/dataset.hpp>

namespace {

using namespace lockstep;

std::int64_t value_of(const Tensor& tensor) { return tensor.item<std::int64_t>(); }

/// Stages that hold numbers, rows, elements and batches.
const TypedDataset<Tensor>& dataset() {
  static const auto made = [] {
    const auto part = [](const Tensor& x) { return Dataset::range(value_of(x) % 4); };
    const auto numbers =
        Dataset::range(40)
            .shuffle(7, 1)
            .batch(3)
            .shuffle(3, 2)
            .unbatch()
            .interleave(part, 3, 2)
            .scan(std::int64_t{0},
                  [](std::int64_t state, const Tensor& x) { return std::pair(state + value_of(x), x); })
            .prefetch(2)
            .shuffle(5, 3)
            .repeat(2)
            .cache();
    return Dataset::sample_from_datasets<Tensor>({numbers, Dataset::range(9).window(2, 1).unbatch()}, {}, 4)
        .map([](const Tensor& x) { return x + 1; }, {.num_parallel_calls = 2})
        .batch(3);
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  auto iterator = dataset().iterator();
  try {
    iterator.restore_state({bytes, bytes + size});
  } catch (const Error&) {
    return 0;
  }
  constexpr int kMostElements = 300;
  for (int i = 0; i < kMostElements; ++i) try {
      if (!iterator.next_optional()) break;
    } catch (const Error&) {
    }
  return 0;
}
