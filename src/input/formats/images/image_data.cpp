#include "input/formats/images/image_data.hpp"

#include <cstring>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep {

namespace detail {

ImageData::ImageData(const Tensor& bytes, std::string_view what) : what_(what) {
  LOCKSTEP_EXPECTS(bytes.dtype() == DType::u8 && bytes.rank() == 1, InvalidArgument, what, ": ",
                   describe(bytes),
                   " is no vector of bytes. Pass a u8 tensor of rank 1, as read_file gives it.");
  bytes_ = on_host(bytes);
  data_ = static_cast<const std::uint8_t*>(bytes_.view().data);
  size_ = static_cast<std::size_t>(bytes_.size());
}

bool ImageData::starts_with(std::string_view magic) const noexcept {
  return size_ >= magic.size() && std::memcmp(data_, magic.data(), magic.size()) == 0;
}

Tensor ImageData::allocate(std::uint64_t height, std::uint64_t width, int channels, DType dtype,
                           const DecodeOptions& options) const {
  if (height == 0 || width == 0) fail(concat("the image has ", height, " rows of ", width, " pixels"));
  const auto most = static_cast<std::uint64_t>(options.max_pixels < 0 ? 0 : options.max_pixels);
  if (height > most / width)
    fail(concat("the image has ", height, " rows of ", width, " pixels, together more than max_pixels, ",
                most));
  return Tensor::empty(Shape(height, width, channels), dtype, input_device());
}

void ImageData::fail(const std::string& reason) const {
  raise<InvalidArgument>({__FILE__, __LINE__, __func__}, concat(what_, ": ", size_, " bytes: ", reason,
                                                                ". Pass the bytes of a whole image."));
}

}  // namespace detail

Tensor decode_image(const Tensor& bytes, int channels, DType dtype, const DecodeOptions& options) {
  constexpr std::string_view kWhat = "decode_image";
  const detail::ImageData image(bytes, kWhat);
  if (image.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, channels, dtype, options);
  if (!image.starts_with("\xff\xd8\xff")) image.fail("the data begins as neither a JPEG nor a PNG image");
  LOCKSTEP_EXPECTS(dtype == DType::u8, InvalidArgument, kWhat, ": a JPEG image has no pixels ", dtype,
                   ". Ask for u8, and cast the result.");
  return decode_jpeg(bytes, channels, options);
}

}  // namespace lockstep
