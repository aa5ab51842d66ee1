#pragma once

#include <cstdint>

#include <lockstep/dtype.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

/// Functions of bytes, u8 tensors of rank 1, for `map`: each decodes one tensor on the calling thread, and
/// any number of threads may decode at once. Bytes are not trusted. Results are on the host; bytes on other
/// devices are copied there first.
///
///     auto images = ls::list_files("*.jpg").map([](const ls::Tensor& path) {
///       return ls::decode_jpeg(ls::read_file(ls::readers::text(path)), 3);
///     }, {.num_parallel_calls = 4});
namespace lockstep {

struct DecodeOptions {
  /// The most pixels of an image, width times height: of larger ones only the header is read.
  std::int64_t max_pixels = std::int64_t{1} << 27;
};

/// The pixels of a JPEG image, baseline or progressive, as a u8 tensor [height, width, channels]. The
/// transform is libjpeg's accurate one, which is tf.io's dct_method="INTEGER_ACCURATE".
/// @param channels  0: as many as the image has; 1: grey; 3: RGB. CMYK becomes RGB, and has no grey form.
/// @throws InvalidArgument  bytes are no u8 tensor of rank 1; other channels; the data is no JPEG image,
/// damaged or cut short; the image has more than max_pixels. @throws Unsupported  lockstep was built without
/// libjpeg.
[[nodiscard]] Tensor decode_jpeg(const Tensor& bytes, int channels = 0, const DecodeOptions& options = {});

/// The pixels of a PNG image, of any kind that the format has, as a tensor [height, width, channels].
/// @param channels  0: as many as the image has, RGB or RGBA for a palette; 1: grey; 2: grey and alpha; 3:
/// RGB; 4: RGBA. An image without alpha is opaque; alpha that is not wanted is dropped.
/// @param dtype  u8 or u16: values of the image's depth 16 lose their lower bits, of others are scaled to 16
/// bits.
/// @throws InvalidArgument, Unsupported  as decode_jpeg.
[[nodiscard]] Tensor decode_png(const Tensor& bytes, int channels = 0, DType dtype = DType::u8,
                                const DecodeOptions& options = {});

/// decode_jpeg or decode_png, as the first bytes say.
/// @throws InvalidArgument, Unsupported  as these; InvalidArgument  the data is neither.
[[nodiscard]] Tensor decode_image(const Tensor& bytes, int channels = 0, DType dtype = DType::u8,
                                  const DecodeOptions& options = {});

/// The bytes as the elements of a dtype, one after the other: a tensor [bytes / size of an element]. For
/// boolean any byte but 0 is true.
/// @throws InvalidArgument  bytes are no u8 tensor of rank 1, or no whole number of elements.
[[nodiscard]] Tensor decode_raw(const Tensor& bytes, DType dtype, bool little_endian = true);

}  // namespace lockstep

#pragma GCC visibility pop
