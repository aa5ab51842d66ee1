#include <lockstep/error.hpp>
#include <lockstep/input/decode.hpp>

#include "detail/expects.hpp"
#include "input/formats/absent_format.hpp"

#ifdef LOCKSTEP_HAS_PNG

#include <bit>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include <png.h>

#include "input/formats/byte_source.hpp"
#include "input/formats/compressed/inflate_source.hpp"
#include "input/formats/images/image_data.hpp"

namespace lockstep {
namespace {

/// libpng's errors leave its functions by longjmp, which passes over destructors: a method that calls libpng
/// has nothing to destroy, and returns false after an error.
class PngDecoder {
 public:
  PngDecoder(const std::uint8_t* data, std::size_t size) : next_(data), left_(size) {}
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  bool read_header() {
    if (setjmp(jump_) != 0) return false;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, [](png_structp, png_const_charp) {});
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) throw std::bad_alloc();
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);  // max_pixels is the limit
    if (!detail::kComparesChecksums) png_set_crc_action(png_, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
    png_set_read_fn(png_, this, read);
    png_read_info(png_, info_);
    return true;
  }

  std::uint64_t height() const noexcept { return png_get_image_height(png_, info_); }
  std::uint64_t width() const noexcept { return png_get_image_width(png_, info_); }
  int depth() const noexcept { return png_get_bit_depth(png_, info_); }
  /// Bytes that the image has before it is deflated, at least.
  std::uint64_t filtered_bytes() const noexcept { return height() * png_get_rowbytes(png_, info_); }
  int num_channels() const noexcept {
    if (png_get_color_type(png_, info_) != PNG_COLOR_TYPE_PALETTE) return png_get_channels(png_, info_);
    return has_transparency() ? 4 : 3;
  }
  const char* message() const noexcept { return message_; }

  /// Sets the form of the rows to come: u8, or u16 of an image of depth 16.
  bool set_form(int channels, bool is_wide) {
    if (setjmp(jump_) != 0) return false;
    const int color = png_get_color_type(png_, info_);
    const bool has_alpha = (color & PNG_COLOR_MASK_ALPHA) != 0;
    const bool is_gray = (color & PNG_COLOR_MASK_COLOR) == 0;
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (is_gray && depth() < 8) png_set_expand_gray_1_2_4_to_8(png_);
    if (channels % 2 != 0) {
      png_set_strip_alpha(png_);
    } else if (!has_alpha) {
      if (has_transparency())
        png_set_tRNS_to_alpha(png_);
      else
        png_set_add_alpha(png_, depth() == 16 ? 0xffff : 0xff, PNG_FILLER_AFTER);
    }
    if (is_wide && std::endian::native == std::endian::little) png_set_swap(png_);
    if (!is_wide) png_set_strip_16(png_);
    png_set_packing(png_);
    if (channels < 3 && !is_gray) png_set_rgb_to_gray(png_, PNG_ERROR_ACTION_NONE, kRed, kGreen);
    if (channels >= 3 && is_gray) png_set_gray_to_rgb(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  std::size_t row_bytes() const noexcept { return png_get_rowbytes(png_, info_); }

  bool is_interlaced() const noexcept { return png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE; }
  /// All rows, `row_bytes` apart.
  bool read_rows(std::uint8_t* first, std::size_t row_bytes, std::size_t num_rows) {
    if (setjmp(jump_) != 0) return false;
    for (std::size_t y = 0; y < num_rows; ++y) png_read_row(png_, first + y * row_bytes, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }
  bool read_interlaced(std::uint8_t** rows) {
    if (setjmp(jump_) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

 private:
  static constexpr double kRed = 0.299, kGreen = 0.587;  // of grey: ITU-R BT.601

  bool has_transparency() const noexcept { return png_get_valid(png_, info_, PNG_INFO_tRNS) != 0; }

  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    auto& decoder = *static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(decoder.message_, sizeof decoder.message_, "%s", message);
    std::longjmp(decoder.jump_, 1);
  }
  static void read(png_structp png, png_bytep data, std::size_t size) {
    auto& decoder = *static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (size > decoder.left_) png_error(png, "it is cut short");
    std::memcpy(data, decoder.next_, size);
    decoder.next_ += size;
    decoder.left_ -= size;
  }

  const std::uint8_t* next_;
  std::size_t left_;
  std::jmp_buf jump_;
  char message_[200] = "";
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

Tensor decode_png(const Tensor& bytes, int channels, DType dtype, const DecodeOptions& options) {
  constexpr std::string_view kWhat = "decode_png";
  LOCKSTEP_EXPECTS(0 <= channels && channels <= 4, InvalidArgument, kWhat, ": ", channels,
                   " channels. Pass 0, 1, 2, 3 or 4.");
  LOCKSTEP_EXPECTS(dtype == DType::u8 || dtype == DType::u16, InvalidArgument, kWhat, ": pixels ", dtype,
                   ". Ask for u8 or u16, and cast the result.");
  const detail::ImageData image(bytes, kWhat);
  PngDecoder decoder(image.data(), image.size());
  const auto expect = [&](bool is_good) {
    if (!is_good) image.fail(detail::concat("it cannot be decoded: ", decoder.message()));
  };
  expect(decoder.read_header());
  if (channels == 0) channels = decoder.num_channels();
  if (decoder.filtered_bytes() / detail::kMaxInflation > image.size())
    image.fail(detail::concat("the image has ", decoder.height(), " rows of ", decoder.width(),
                              " pixels, more than the data can hold"));
  const bool is_wide = dtype == DType::u16 && decoder.depth() == 16;
  Tensor result = image.allocate(decoder.height(), decoder.width(), channels, dtype, options);
  expect(decoder.set_form(channels, is_wide));
  const auto num_values = static_cast<std::size_t>(result.size());
  const bool is_widened = dtype == DType::u16 && !is_wide;
  std::vector<std::uint8_t> narrow(is_widened ? num_values : 0);
  auto* const first = is_widened ? narrow.data() : static_cast<std::uint8_t*>(result.data());
  const auto height = static_cast<std::size_t>(decoder.height());
  if (decoder.is_interlaced()) {
    constexpr std::size_t kMaxHeight = 1 << 20;  // for each row there is a pointer
    if (height > kMaxHeight)
      image.fail(detail::concat("an interlaced image has ", height, " rows, more than ", kMaxHeight));
    std::vector<std::uint8_t*> rows(height);
    for (std::size_t y = 0; y < height; ++y) rows[y] = first + y * decoder.row_bytes();
    expect(decoder.read_interlaced(rows.data()));
  } else {
    expect(decoder.read_rows(first, decoder.row_bytes(), height));
  }
  auto* const wide = static_cast<std::uint16_t*>(result.data());
  for (std::size_t i = 0; i < narrow.size(); ++i) wide[i] = static_cast<std::uint16_t>(narrow[i] * 257);
  return result;
}

}  // namespace lockstep

#else

namespace lockstep {

Tensor decode_png(const Tensor&, int, DType, const DecodeOptions&) {
  detail::raise_absent_format("decode_png", "libpng", "libpng-dev");
}

}  // namespace lockstep

#endif
