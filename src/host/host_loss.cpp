#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "detail/float_environment.hpp"
#include "host/host_kernels.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {
namespace {

/// Computes one row. `gradient` may be exactly `logits`, or null.
/// @return the loss.
template <class C>
C softmax_cross_entropy_row(const C* logits, C* gradient, std::int64_t n, std::int64_t label) {
  // exp of differences from the largest logit cannot overflow.
  const C largest = *std::max_element(logits, logits + n);
  const C at_label = logits[label];
  double sum = 0;
  if (gradient == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(std::exp(logits[i] - largest));
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      gradient[i] = std::exp(logits[i] - largest);
      sum += static_cast<double>(gradient[i]);
    }
    const C divisor = static_cast<C>(sum);
    for (std::int64_t i = 0; i < n; ++i) gradient[i] /= divisor;
    gradient[label] -= 1;
  }
  return static_cast<C>(std::log(sum)) - (at_label - largest);
}

}  // namespace

void HostKernels::softmax_cross_entropy(const TensorView& loss, const TensorView& gradient,
                                        const TensorView& logits, const TensorView& labels,
                                        backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  const std::int64_t columns = logits.shape[1];
  const auto* const label = static_cast<const std::int64_t*>(labels.data);
  const auto size = static_cast<std::int64_t>(size_of(logits.dtype));
  dispatch_floating("softmax_cross_entropy", logits, [&]<class C>() {
    TileReader<C> reader(logits);
    TileWriter<C> losses(loss);
    // A converted row of small floats; it keeps its memory from call to call.
    thread_local std::vector<C> row;
    if (reader.converts()) row.resize(static_cast<std::size_t>(columns));
    for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
      const C* const x = reader.read(r * columns, columns, row.data());
      C* slopes = nullptr;
      if (gradient.data != nullptr)
        slopes = reader.converts() ? row.data() : static_cast<C*>(gradient.data) + r * columns;
      *losses.at(r) = softmax_cross_entropy_row(x, slopes, columns, label[r]);
      losses.commit(r, 1);
      if constexpr (std::same_as<C, float>) {
        if (slopes != nullptr && reader.converts()) {
          narrow(slopes, static_cast<std::byte*>(gradient.data) + r * columns * size, gradient.dtype, 1,
                 columns);
        }
      }
    }
  });
}

}  // namespace lockstep::host
