#include <algorithm>
#include <cmath>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/decode.hpp>

#include "support/image_file.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::bytes_tensor;
using test::says;

#ifdef LOCKSTEP_HAS_JPEG

#include "support/jpeg_file.hpp"

using test::jpeg_file;

namespace jpeg_test {
using Pixels = std::vector<std::uint8_t>;

/// Smooth colours, which survive a JPEG of quality 100 almost unchanged.
Pixels smooth(int width, int height, int channels) {
  Pixels pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        pixels.push_back(static_cast<std::uint8_t>(40 + 2 * x + 3 * y + 20 * c));
  return pixels;
}

int largest_difference(const Tensor& image, const Pixels& pixels) {
  const Pixels own = image.to_vector<std::uint8_t>();
  if (own.size() != pixels.size()) return 256;
  int largest = 0;
  for (std::size_t i = 0; i < own.size(); ++i) largest = std::max(largest, std::abs(own[i] - pixels[i]));
  return largest;
}
}  // namespace jpeg_test

using jpeg_test::largest_difference;
using jpeg_test::Pixels;
using jpeg_test::smooth;

TEST_CASE("JPEG images are decoded, baseline and progressive, grey and colour", "[input][host]") {
  for (const bool progressive : {false, true}) {
    for (const int channels : {1, 3}) {
      const Pixels pixels = smooth(19, 11, channels);
      const Tensor bytes = bytes_tensor(jpeg_file(19, 11, channels, pixels, progressive));
      const Tensor image = decode_jpeg(bytes);
      CHECK(image.shape() == Shape(11, 19, channels));
      CHECK(largest_difference(image, pixels) <= 3);
      CHECK(decode_jpeg(bytes, 1).shape() == Shape(11, 19, 1));
      CHECK(decode_jpeg(bytes, 3).shape() == Shape(11, 19, 3));
      CHECK(decode_image(bytes).to_vector<std::uint8_t>() == image.to_vector<std::uint8_t>());
    }
  }
}

TEST_CASE("a CMYK image becomes RGB", "[input][host]") {
  // Adobe's programs store inks inverted: 255 is none. Red is all magenta and yellow.
  const Pixels red(16 * 16 * 4, 255);
  Pixels inks = red;
  for (std::size_t i = 0; i < inks.size(); i += 4) inks[i + 1] = inks[i + 2] = 0;
  const Tensor image = decode_jpeg(bytes_tensor(jpeg_file(16, 16, 4, inks)));
  CHECK(image.shape() == Shape(16, 16, 3));
  const Pixels values = image.to_vector<std::uint8_t>();
  CHECK(values[0] >= 253);
  CHECK(values[1] <= 2);
  CHECK(values[2] <= 2);
}

TEST_CASE("a JPEG image that is larger than the limit is refused by its header", "[input][host]") {
  const std::string bytes = jpeg_file(20, 10, 1, smooth(20, 10, 1));
  CHECK(decode_jpeg(bytes_tensor(bytes), 0, {.max_pixels = 200}).size() == 200);
  CHECK_THROWS_MATCHES(
      decode_jpeg(bytes_tensor(bytes), 0, {.max_pixels = 199}), InvalidArgument,
      says("decode_jpeg: ", "the image has 10 rows of 20 pixels, together more than max_pixels, 199"));
  std::string huge = bytes;
  const std::size_t at = huge.find("\xff\xc0");
  huge.replace(at + 5, 4, "\xff\xdc\xff\xdc");
  CHECK_THROWS_MATCHES(decode_jpeg(bytes_tensor(huge)), InvalidArgument, says("65500 rows of 65500 pixels"));
}

TEST_CASE("JPEG data that is damaged, cut short or none is refused", "[input][host]") {
  const std::string bytes = jpeg_file(64, 64, 3, smooth(64, 64, 3));
  for (std::size_t size = 0; size < bytes.size(); size += 97)
    CHECK_THROWS_MATCHES(decode_jpeg(bytes_tensor(bytes.substr(0, size))), InvalidArgument,
                         says("decode_jpeg: " + std::to_string(size) + " bytes: it "));
  std::string damaged = bytes;  // a marker amid the entropy-coded data
  damaged.replace(bytes.size() / 2 + bytes.size() / 4, 2, "\xff\xd8");
  CHECK_THROWS_MATCHES(decode_jpeg(bytes_tensor(damaged)), InvalidArgument, says("decode_jpeg: "));
  CHECK_THROWS_MATCHES(
      decode_jpeg(bytes_tensor("text")), InvalidArgument,
      says("decode_jpeg: 4 bytes: it cannot be decoded: Not a JPEG file", "Pass the bytes of a"));
  CHECK_THROWS_MATCHES(decode_jpeg(bytes_tensor(bytes), 4), InvalidArgument,
                       says("decode_jpeg: 4 channels. Pass 0, 1 or 3."));
  CHECK_THROWS_MATCHES(decode_jpeg(Tensor::zeros({2})), InvalidArgument,
                       says("decode_jpeg: [2] float32", "is no vector of bytes"));
}

TEST_CASE("images are decoded on map's threads", "[input][host]") {
  const std::string good = jpeg_file(9, 5, 3, smooth(9, 5, 3));
  const auto images = Dataset::range(20).map(
      [&](const Tensor& i) {
        return decode_jpeg(bytes_tensor(i.item<std::int64_t>() == 7 ? "text" : good), 3);
      },
      {.num_parallel_calls = 4});
  int count = 0;
  std::string message;
  for (const Tensor& image :
       images.ignore_errors(1, [&](const Error&error, auto) { message = error.what(); })) {
    CHECK(image.shape() == Shape(5, 9, 3));
    ++count;
  }
  CHECK(count == 19);
  CHECK(message.find("Dataset::map: element 7: decode_jpeg: 4 bytes: ") == 0);
}

#else

TEST_CASE("without libjpeg decode_jpeg is refused with the package's name", "[input][host]") {
  CHECK_THROWS_MATCHES(decode_jpeg(bytes_tensor("")), Unsupported,
                       says("decode_jpeg: lockstep was built without libjpeg", "libjpeg-dev"));
}

#endif
