#include "digits_data.hpp"

#include <array>

#include "text.hpp"

namespace digits {
namespace {

/// @throws InvalidArgument  the condition does not hold; the parts are its message.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) throw ls::InvalidArgument(text(parts...));
}

constexpr std::int64_t kFold = 5;
constexpr int kDarkest = 16;

/// Splits the rows into row kFold - 1 of every kFold rows and all other rows, in order.
std::pair<ls::Tensor, ls::Tensor> split(const ls::Tensor& rows) {
  const std::int64_t num_folds = rows.shape()[0] / kFold;
  const std::int64_t width = rows.size() / rows.shape()[0];
  const ls::Tensor folds = rows.slice(0, num_folds * kFold).reshape({num_folds, kFold, width});
  const ls::Tensor test = folds.narrow(1, kFold - 1, kFold).reshape({num_folds, width});
  const std::array<ls::Tensor, 2> others{
      folds.narrow(1, 0, kFold - 1).reshape({num_folds * (kFold - 1), width}),
      rows.slice(num_folds * kFold, rows.shape()[0]).reshape({rows.shape()[0] - num_folds * kFold, width})};
  return {ls::concatenate(others, 0), test};
}

ls::Tensor load_bytes(const std::filesystem::path& path, int largest) {
  const ls::Tensor values = ls::load_npy(path);
  require(values.dtype() == ls::DType::u8, path.string(), ": the array is ", values.shape(), " ",
          values.dtype(), ", but uint8 is needed.");
  require(values.rank() > 0 && values.shape()[0] >= kFold, path.string(), ": the array is ", values.shape(),
          ", but at least ", kFold, " rows are needed.");
  require(values.size() == 0 || ls::max(values).item<std::uint8_t>() <= largest, path.string(),
          ": there are values above ", largest, ".");
  return values;
}

}  // namespace

DigitsData load_digits(const std::filesystem::path& folder) {
  const std::filesystem::path images_path = folder / "digits_images.npy";
  const std::filesystem::path labels_path = folder / "digits_labels.npy";
  const ls::Tensor images = load_bytes(images_path, kDarkest);
  const ls::Tensor labels = load_bytes(labels_path, kNumClasses - 1);
  require(images.size() == images.shape()[0] * kNumPixels, images_path.string(), ": the array is ",
          images.shape(), ", but [rows, 8, 8] is needed.");
  require(labels.shape() == ls::Shape(images.shape()[0]), labels_path.string(), ": the array is ",
          labels.shape(), ", but one label for each of the ", images.shape()[0], " images is needed.");

  const auto [training_images, test_images] = split(images.cast(ls::DType::f32) / kDarkest);
  const auto [training_labels, test_labels] = split(labels.cast(ls::DType::i64));
  return {.training = {training_images, training_labels.reshape({training_labels.size()})},
          .test = {test_images, test_labels.reshape({test_labels.size()})}};
}

}  // namespace digits
