#pragma once

#include <array>
#include <cstdint>

#include <lockstep/lockstep.hpp>

namespace digits {

namespace ls = lockstep;

/// A network of two layers: pixels, hidden units, classes. Its variables are mirrored on a strategy's
/// devices.
class DigitsModel {
 public:
  static constexpr int kNumHidden = 256;
  static constexpr std::size_t kNumVariables = 4;
  template <class T>
  using ForVariables = std::array<T, kNumVariables>;

  /// Makes random weights, which depend only on the seed.
  DigitsModel(ls::Strategy& strategy, std::uint64_t seed);

  /// The variables, in the order of `gradients`.
  const ForVariables<ls::Variable>& variables() const { return variables_; }

  /// The outputs of the layers in a forward pass, for images f32 [rows, kNumPixels].
  struct Activations {
    ls::Tensor hidden;  ///< f32 [rows, kNumHidden]
    ls::Tensor logits;  ///< f32 [rows, kNumClasses]
  };
  Activations forward(const ls::Tensor& images) const;

  /// The gradients of the loss by the variables, computed from its gradient by the logits.
  ForVariables<ls::Tensor> gradients(const ls::Tensor& images, const Activations& activations,
                                     const ls::Tensor& logits_gradient) const;

 private:
  DigitsModel(ls::Strategy& strategy, ForVariables<ls::Tensor> initial);

  ForVariables<ls::Variable> variables_;
};

}  // namespace digits
