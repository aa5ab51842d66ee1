#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/input/decode.hpp>
#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// An image's bytes on the host, and the call that decodes them.
class ImageData {
 public:
  /// @throws InvalidArgument  they are no u8 tensor of rank 1.
  ImageData(const Tensor& bytes, std::string_view what);

  const std::uint8_t* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool starts_with(std::string_view magic) const noexcept;
  /// The tensor for an image [height, width, channels].
  /// @throws InvalidArgument  it has no pixels, or more than max_pixels.
  Tensor allocate(std::uint64_t height, std::uint64_t width, int channels, DType dtype,
                  const DecodeOptions& options) const;
  /// @throws InvalidArgument  always.
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  Tensor bytes_;
  std::string_view what_;
  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace lockstep::detail
