#include <lockstep/error.hpp>
#include <lockstep/input/decode.hpp>

#include "detail/expects.hpp"
#include "input/formats/absent_format.hpp"

#ifdef LOCKSTEP_HAS_JPEG

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>

#include "input/formats/images/image_data.hpp"

namespace lockstep {
namespace {

/// libjpeg's errors leave its functions by longjmp, which passes over destructors: a method that calls
/// libjpeg has nothing to destroy, and returns false after an error.
class JpegDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = [](j_common_ptr info) {
      auto& errors = *reinterpret_cast<Errors*>(info->err);
      info->err->format_message(info, errors.message);
      std::longjmp(errors.jump, 1);
    };
    errors_.base.emit_message = [](j_common_ptr info, int) {
      auto& errors = *reinterpret_cast<Errors*>(info->err);
      const int code = info->err->msg_code;
      errors.is_cut_short |= code == JWRN_JPEG_EOF;
      errors.is_damaged |= code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE;
    };
    progress_.progress_monitor =
        [](j_common_ptr info) {  // each scan of a progressive image goes over all of it
          constexpr int kMaxScans = 500;
          if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
          auto& errors = *reinterpret_cast<Errors*>(info->err);
          std::snprintf(errors.message, sizeof errors.message, "it has more than %d scans", kMaxScans);
          std::longjmp(errors.jump, 1);
        };
  }
  ~JpegDecoder() {
    if (is_made_) jpeg_destroy_decompress(&info_);
  }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  bool read_header(const std::uint8_t* data, std::size_t size) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&info_);
    is_made_ = true;
    info_.progress = &progress_;
    jpeg_mem_src(&info_, data, size);
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  std::uint64_t height() const noexcept { return info_.image_height; }
  std::uint64_t width() const noexcept { return info_.image_width; }
  int num_components() const noexcept { return info_.num_components; }
  bool is_cmyk() const noexcept {
    return info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  }
  /// Whether a print program has stored CMYK inverted.
  bool is_inverted() const noexcept { return info_.saw_Adobe_marker != 0; }
  bool is_cut_short() const noexcept { return errors_.is_cut_short; }
  bool is_damaged() const noexcept { return errors_.is_damaged; }
  const char* message() const noexcept { return errors_.message; }

  bool start(J_COLOR_SPACE space) {
    if (setjmp(errors_.jump) != 0) return false;
    info_.out_color_space = space;
    jpeg_start_decompress(&info_);
    return true;
  }
  bool read_row(std::uint8_t* row) {
    if (setjmp(errors_.jump) != 0) return false;
    return jpeg_read_scanlines(&info_, &row, 1) == 1;
  }
  bool finish() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_finish_decompress(&info_);
    return true;
  }

 private:
  struct Errors {
    jpeg_error_mgr base;  // the first member: libjpeg passes its address
    std::jmp_buf jump;
    char message[JMSG_LENGTH_MAX] = "";
    bool is_cut_short = false, is_damaged = false;
  };

  Errors errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
  bool is_made_ = false;
};

void cmyk_to_rgb(const std::vector<std::uint8_t>& cmyk, bool is_inverted, std::uint8_t* rgb) {
  for (std::size_t i = 0; i + 3 < cmyk.size(); i += 4) {
    const auto ink = [&](std::size_t k) { return is_inverted ? int{cmyk[i + k]} : 255 - cmyk[i + k]; };
    for (std::size_t k = 0; k < 3; ++k) *rgb++ = static_cast<std::uint8_t>(ink(k) * ink(3) / 255);
  }
}

}  // namespace

Tensor decode_jpeg(const Tensor& bytes, int channels, const DecodeOptions& options) {
  constexpr std::string_view kWhat = "decode_jpeg";
  LOCKSTEP_EXPECTS(channels == 0 || channels == 1 || channels == 3, InvalidArgument, kWhat, ": ", channels,
                   " channels. Pass 0, 1 or 3.");
  const detail::ImageData image(bytes, kWhat);
  JpegDecoder decoder;
  const auto expect = [&](bool is_good) {
    if (!is_good) image.fail(detail::concat("it cannot be decoded: ", decoder.message()));
  };
  expect(decoder.read_header(image.data(), image.size()));
  if (channels == 0) channels = std::min(decoder.num_components(), 3);
  if (channels == 2) image.fail("it has 2 channels, which are no colours");
  const bool from_cmyk = channels == 3 && decoder.is_cmyk();
  Tensor result = image.allocate(decoder.height(), decoder.width(), channels, DType::u8, options);
  expect(decoder.start(from_cmyk ? JCS_CMYK : channels == 3 ? JCS_RGB : JCS_GRAYSCALE));
  std::vector<std::uint8_t> cmyk(from_cmyk ? decoder.width() * 4 : 0);
  auto* row = static_cast<std::uint8_t*>(result.data());
  for (std::uint64_t y = 0; y < decoder.height(); ++y) {
    expect(decoder.read_row(from_cmyk ? cmyk.data() : row));
    if (from_cmyk) cmyk_to_rgb(cmyk, decoder.is_inverted(), row);
    if (decoder.is_cut_short())
      image.fail(detail::concat("it ends within row ", y, " of ", decoder.height()));
    if (decoder.is_damaged()) image.fail(detail::concat("its data are damaged before the end of row ", y));
    row += decoder.width() * static_cast<std::uint64_t>(channels);
  }
  expect(decoder.finish());
  if (decoder.is_cut_short()) image.fail("it ends before the end that the format marks");
  return result;
}

}  // namespace lockstep

#else

namespace lockstep {

Tensor decode_jpeg(const Tensor&, int, const DecodeOptions&) {
  detail::raise_absent_format("decode_jpeg", "libjpeg", "libjpeg-dev");
}

}  // namespace lockstep

#endif
