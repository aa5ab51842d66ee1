#include "optim/clip.hpp"

#include <algorithm>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/optim/clip.hpp>

#include "detail/expects.hpp"
#include "hyper_parameters.hpp"
#include "tensor_checks.hpp"

namespace lockstep {

namespace detail {

namespace {

/// clip_norm / max(norm, clip_norm); NaN where the norm is not finite.
Tensor clip_factor(const Tensor& norm, double clip_norm) {
  const Tensor longer = relu(norm - clip_norm) + clip_norm;
  return clip_norm / longer + (norm - norm);
}

Tensor sum_of_squares(const Tensor& t) {
  const Tensor wide = t.cast(accumulator_dtype(t.dtype()));
  return sum(wide * wide).cast(DType::f64);
}

/// Whether the device has kernels for them all together.
bool have_kernels(std::span<const Tensor> tensors) {
  const Device& device = tensors[0].device();
  return current_stream(device).device_backend().kernels().has_norms() &&
         std::ranges::all_of(tensors, [&](const Tensor& tensor) {
           return tensor.device() == device && tensor.is_contiguous();
         });
}

RecycledVector<TensorView> views_of(std::span<const Tensor> tensors) {
  RecycledVector<TensorView> views;
  views.reserve(tensors.size());
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  return views;
}

/// optim::global_norm.
Tensor norm_of(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) require_floating("global_norm", tensor);
  if (tensors.empty()) return Tensor::scalar(0.0);
  const Device& device = tensors[0].device();
  if (have_kernels(tensors)) {
    const StreamRef stream = current_stream(device);
    Tensor norm = Tensor::empty({}, DType::f64, device);
    stream.device_backend().kernels().global_norm(norm.view(), views_of(tensors), stream.handle());
    return norm;
  }
  Tensor total = sum_of_squares(tensors[0]);
  for (std::size_t k = 1; k < tensors.size(); ++k) total.add_(sum_of_squares(tensors[k]).to(device));
  return sqrt(total);
}

Tensor scaled(const Tensor& t, const Tensor& factor) {
  const DType wide = accumulator_dtype(t.dtype());
  return (t.cast(wide) * factor.cast(wide)).cast(t.dtype());
}

}  // namespace

Tensor clip_in_place(std::span<Tensor> gradients, double clip_norm) {
  Tensor norm = norm_of(gradients);
  const auto is_own = [](const Tensor& gradient) {
    return !gradient.is_shared() && !gradient.is_read_only() && gradient.is_contiguous();
  };
  if (!gradients.empty() && have_kernels(gradients)) {
    const StreamRef stream = current_stream(norm.device());
    const RecycledVector<TensorView> given = views_of(gradients);
    RecycledVector<Tensor> clipped;
    clipped.reserve(gradients.size());
    for (const Tensor& gradient : gradients)
      clipped.push_back(is_own(gradient) ? gradient
                                         : Tensor::empty(gradient.shape(), gradient.dtype(), norm.device()));
    stream.device_backend().kernels().clip(views_of(clipped), given, norm.view(), clip_norm, stream.handle());
    std::ranges::move(clipped, gradients.begin());
    return norm;
  }
  const Tensor factor = clip_factor(norm, clip_norm);
  for (Tensor& gradient : gradients) {
    const Tensor here = factor.to(gradient.device());
    if (is_own(gradient) && accumulator_dtype(gradient.dtype()) == gradient.dtype())
      gradient.mul_(here.cast(gradient.dtype()));
    else
      gradient = scaled(gradient, here);
  }
  return norm;
}

}  // namespace detail

namespace optim {

Tensor global_norm(const std::vector<Tensor>& tensors) { return detail::norm_of(tensors); }

std::pair<std::vector<Tensor>, Tensor> clip_by_global_norm(const std::vector<Tensor>& gradients,
                                                           double clip_norm) {
  detail::require_above_0("clip_by_global_norm", "clip_norm", clip_norm);
  std::vector<Tensor> clipped = gradients;
  Tensor norm = detail::clip_in_place(clipped, clip_norm);
  return {std::move(clipped), std::move(norm)};
}

std::pair<std::vector<Mirrored<Tensor>>, Mirrored<Tensor>> clip_by_global_norm(
    const std::vector<Mirrored<Tensor>>& gradients, double clip_norm) {
  const int n = gradients.empty() ? 1 : gradients[0].size();
  for (const Mirrored<Tensor>& gradient : gradients)
    LOCKSTEP_EXPECTS(gradient.size() == n, InvalidArgument, "clip_by_global_norm: a mirrored gradient has ",
                     gradient.size(), " components, the first one ", n,
                     ". Pass gradients of variables of one strategy.");
  std::vector<std::vector<Tensor>> components(gradients.size());
  std::vector<Tensor> norms;
  for (int i = 0; i < n; ++i) {
    std::vector<Tensor> on_device;
    for (const Mirrored<Tensor>& gradient : gradients) on_device.push_back(gradient[i]);
    auto [clipped, norm] = clip_by_global_norm(on_device, clip_norm);
    for (std::size_t k = 0; k < clipped.size(); ++k) components[k].push_back(std::move(clipped[k]));
    norms.push_back(std::move(norm));
  }
  std::vector<Mirrored<Tensor>> results;
  for (std::vector<Tensor>& tensors : components) results.emplace_back(std::move(tensors));
  return {std::move(results), Mirrored(std::move(norms))};
}

}  // namespace optim

}  // namespace lockstep
