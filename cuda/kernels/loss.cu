#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda_kernels.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/staged.cuh"
#include "kernels/staged_element.cuh"

namespace lockstep::cuda {
namespace {

/// The threads of a block that does several rows, and of one that does a long row.
constexpr int kRowThreads = 128, kLongRowThreads = 512;
/// A long row's exponentials are added part by part, so that every GPU does so in the same order.
constexpr int kPartBytes = 32 << 10;

struct Largest {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return b > a ? b : a;
  }
};

struct Added {
  __device__ double operator()(double a, double b) const { return a + b; }
};

/// Combines the values of `group` threads, a power of two up to a warp or the block; all get the result.
template <int kBlock, class V, class F>
__device__ V combine_all(V value, int group, F combine) {
  constexpr int kWarp = 32;
  for (int offset = 1; offset < min(group, kWarp); offset *= 2)
    value = combine(value, __shfl_xor_sync(~0u, value, offset));
  if (group > kWarp) {
    __shared__ V of_warps[kBlock / kWarp];
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warps[0];
    for (int warp = 1; warp < kBlock / kWarp; ++warp) value = combine(value, of_warps[warp]);
    __syncthreads();
  }
  return value;
}

/// Columns begin, begin + step, ... before `end` of a row in shared memory.
template <class T>
struct StagedColumns {
  using C = compute_t<T>;
  /// Exponentials in double take most registers.
  static constexpr int kUnroll = sizeof(C) > 4 ? 1 : 4;
  uint4* staged;
  int first_byte;  ///< Column 0's.
  bool aligned;
  int begin, end, step;

  __device__ C logit(int c) const {
    return widen(load_staged_element<T>(staged, first_byte + c * static_cast<int>(sizeof(T)), aligned));
  }
  __device__ C largest() const {
    C largest = -std::numeric_limits<C>::infinity();
    for (int c = begin; c < end; c += step) largest = Largest()(largest, logit(c));
    return largest;
  }
  /// Of exp(logit - offset), which cannot overflow where no logit is above the offset.
  __device__ double sum(C offset) const {
    double sum = 0;
#pragma unroll kUnroll
    for (int c = begin; c < end; c += step) sum += static_cast<double>(exp(logit(c) - offset));
    return sum;
  }
  /// The gradient takes the logits' place. @param label  this row's column, if it is_class.
  __device__ void to_gradient(C largest, C divisor, std::int64_t label, bool is_class) const {
#pragma unroll kUnroll
    for (int c = begin; c < end; c += step) {
      const C share = is_class ? exp(logit(c) - largest) / divisor : static_cast<C>(NAN);
      store_staged_element(staged, first_byte + c * static_cast<int>(sizeof(T)),
                           narrow<T>(c == label ? share - 1 : share), aligned);
    }
  }
};

/// @param own_logit  the label's.
template <class T, class C>
__device__ void store_loss(void* loss, std::int64_t row, C own_logit, C largest, double sum, bool is_class,
                           bool aligned) {
  const C value = is_class ? static_cast<C>(log(sum)) - (own_logit - largest) : static_cast<C>(NAN);
  store<T, 1>(loss, row, {narrow<T>(value)}, aligned);
}

/// Each group of threads does a row of those that the block stages in shared memory, where the gradient takes
/// the logits' place. Exponentials are added in double, in an order that depends on the number of columns
/// only. `gradient` may be exactly `logits`, or null.
template <class T>
__global__ void __launch_bounds__(kRowThreads, 8)
    softmax_of_staged_rows(std::byte* loss, std::byte* gradient, ByteRange logits, const void* labels,
                           std::int64_t rows, int columns, int group, int per_block, bool loss_aligned,
                           bool labels_aligned) {
  using C = compute_t<T>;
  __shared__ uint4 staged[kStagedVectors];
  const int thread = static_cast<int>(threadIdx.x), lane = thread & (group - 1), groups = kRowThreads / group;
  const int row_bytes = columns * static_cast<int>(sizeof(T));
  for (std::int64_t first = std::int64_t{blockIdx.x} * per_block; first < rows;
       first += std::int64_t{gridDim.x} * per_block) {
    const int count = static_cast<int>(min(std::int64_t{per_block}, rows - first));
    const std::byte* const begin = logits.begin + first * row_bytes;
    // In place, other blocks write what lies beside these rows.
    const ByteRange own{begin, begin + count * row_bytes};
    stage_bytes<kRowThreads, 4>(gradient == logits.begin ? own : logits, begin, count * row_bytes, staged);
    __syncthreads();
    const int shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16);

    for (int turn = 0; turn < count; turn += groups) {
      const int row = turn + thread / group;
      const StagedColumns<T> all{staged, shift + row * row_bytes,   shift % sizeof(T) == 0,
                                 lane,   row < count ? columns : 0, group};
      const std::int64_t label =
          row < count ? load<std::int64_t, 1>(labels, first + row, labels_aligned).elements[0] : -1;
      const bool is_class = label >= 0 && label < columns;  // the host could not check it without waiting
      const C own_logit = is_class ? all.logit(static_cast<int>(label)) : C(0);

      const C largest = combine_all<kRowThreads>(all.largest(), group, Largest());
      const double sum = combine_all<kRowThreads>(all.sum(largest), group, Added());
      if (lane == 0 && row < count)
        store_loss<T>(loss, first + row, own_logit, largest, sum, is_class, loss_aligned);
      if (gradient == nullptr) continue;
      __syncwarp();  // all have read the label's logit
      all.to_gradient(largest, static_cast<C>(sum), label, is_class);
    }
    __syncthreads();
    if (gradient != nullptr)
      store_staged<kRowThreads>(gradient + first * row_bytes, count * row_bytes, staged, shift);
    __syncthreads();  // before the next rows are staged
  }
}

/// The same of rows that are too long for it, each by a block, which stages `per_window` parts of it at once.
/// The last of these windows stays in shared memory until its gradient is there; those before it are loaded
/// once more. Where a later part has a larger logit, what was summed before is scaled.
template <class T>
__global__ void __launch_bounds__(kLongRowThreads, 2)
    softmax_of_long_rows(std::byte* loss, std::byte* gradient, ByteRange logits, const void* labels,
                         std::int64_t rows, std::int64_t columns, int per_window, bool loss_aligned,
                         bool labels_aligned) {
  using C = compute_t<T>;
  constexpr int kSize = sizeof(T), kPart = kPartBytes / kSize;
  constexpr C kNone = -std::numeric_limits<C>::infinity();
  extern __shared__ uint4 window[];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t parts = (columns + kPart - 1) / kPart;
  const std::int64_t last = (parts - 1) / per_window;       // window
  const std::int64_t in_first = parts - last * per_window;  // parts; all others are full

  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::byte* const begin = logits.begin + row * columns * kSize;
    // In place, other blocks write what lies beside the row.
    const ByteRange readable = gradient == logits.begin ? ByteRange{begin, begin + columns * kSize} : logits;
    const int shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16);
    const auto begin_of = [&](std::int64_t w) {
      return w == 0 ? 0 : (in_first + (w - 1) * per_window) * kPart;
    };
    const auto length_of = [&](std::int64_t w) {
      return static_cast<int>(min(columns, begin_of(w + 1)) - begin_of(w));
    };
    const auto stage = [&](std::int64_t w) {
      __syncthreads();  // all have done with the window before
      stage_bytes<kLongRowThreads, 4>(readable, begin + begin_of(w) * kSize, length_of(w) * kSize, window);
      __syncthreads();
    };
    const auto columns_of = [&](int first, int end) {
      return StagedColumns<T>{window, shift, shift % kSize == 0, first + thread, end, kLongRowThreads};
    };
    const std::int64_t label = load<std::int64_t, 1>(labels, row, labels_aligned).elements[0];
    const bool is_class = label >= 0 && label < columns;  // the host could not check it without waiting
    C own_logit = 0;
    if (thread == 0 && is_class) own_logit = widen(load<T, 1>(begin, label, shift % kSize == 0).elements[0]);

    C largest = kNone;
    double sum = 0;
    for (std::int64_t w = 0; w <= last; ++w) {
      stage(w);
      const int length = length_of(w);
      for (int first = 0; first < length; first += kPart) {
        const auto part = columns_of(first, min(first + kPart, length));
        const C most = combine_all<kLongRowThreads>(part.largest(), kLongRowThreads, Largest());
        if (most > largest) {
          if (sum != 0) sum *= exp(static_cast<double>(largest) - static_cast<double>(most));
          largest = most;
        }
        // No logit so far may be above -infinity, from which nothing can be subtracted.
        const double added = part.sum(largest == kNone ? C(0) : largest);
        sum += combine_all<kLongRowThreads>(added, kLongRowThreads, Added());
      }
    }
    if (thread == 0) store_loss<T>(loss, row, own_logit, largest, sum, is_class, loss_aligned);
    if (gradient == nullptr) continue;
    for (std::int64_t w = last; w >= 0; --w) {
      if (w < last) stage(w);
      const int length = length_of(w);
      columns_of(0, length).to_gradient(largest, static_cast<C>(sum), label - begin_of(w), is_class);
      __syncthreads();
      store_staged<kLongRowThreads>(gradient + (row * columns + begin_of(w)) * kSize, length * kSize, window,
                                    shift);
    }
  }
}

}  // namespace

void CudaKernels::softmax_cross_entropy(const TensorView& loss, const TensorView& gradient,
                                        const TensorView& logits, const TensorView& labels,
                                        backend::StreamHandle stream) {
  constexpr const char* kOperation = "softmax_cross_entropy";
  const Place place = place_on(stream);
  const std::int64_t rows = logits.shape[0];
  dispatch_floating(kOperation, logits, [&]<class T>() {
    const std::int64_t columns = logits.shape[1];
    const auto size = static_cast<std::int64_t>(sizeof(T));
    const bool labels_aligned = are_multiples(sizeof(std::int64_t), labels.data);
    constexpr std::int64_t kMostBlocks = 1 << 20;
    const auto* const begin = static_cast<const std::byte*>(logits.data);
    const ByteRange all{begin, begin + rows * columns * size};
    const bool loss_aligned = are_multiples(sizeof(T), loss.data);
    auto* const losses = static_cast<std::byte*>(loss.data);
    auto* const gradients = static_cast<std::byte*>(gradient.data);
    if (columns * size > kStagedBytes) {
      constexpr std::int64_t kSlack = 2 * 15;  // a row begins and ends within 16 bytes
      const std::int64_t room = most_shared_bytes(place, kOperation, softmax_of_long_rows<T>) - kSlack;
      const std::int64_t parts = (columns * size + kPartBytes - 1) / kPartBytes;
      const std::int64_t per_window = columns * size <= room ? parts : room / kPartBytes;
      return launch_with_shared(place, kOperation, static_cast<unsigned>(std::min(rows, kMostBlocks)),
                                kLongRowThreads, std::min(columns * size, per_window * kPartBytes) + kSlack,
                                softmax_of_long_rows<T>, losses, gradients, all, labels.data, rows, columns,
                                static_cast<int>(per_window), loss_aligned, labels_aligned);
    }
    const std::int64_t group = columns > 1024 ? kRowThreads : lanes_for(columns, 4);
    const std::int64_t per_block = rows_per_block(rows, columns * size, kRowThreads / group);
    launch(place, kOperation,
           static_cast<unsigned>(std::min((rows + per_block - 1) / per_block, kMostBlocks)), kRowThreads,
           softmax_of_staged_rows<T>, losses, gradients, all, labels.data, rows, static_cast<int>(columns),
           static_cast<int>(group), static_cast<int>(per_block), loss_aligned, labels_aligned);
  });
}

}  // namespace lockstep::cuda
