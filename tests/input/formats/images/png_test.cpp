#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/decode.hpp>

#include "support/image_file.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::bytes_tensor;
using test::png_file;
using test::says;

#ifdef LOCKSTEP_HAS_PNG

namespace png_test {
using Pixels = std::vector<int>;

Pixels values(const Tensor& image) {
  Pixels all;
  if (image.dtype() == DType::u16)
    for (const std::uint16_t value : image.to_vector<std::uint16_t>()) all.push_back(value);
  else
    for (const std::uint8_t value : image.to_vector<std::uint8_t>()) all.push_back(value);
  return all;
}
}  // namespace png_test

using png_test::Pixels;
using png_test::values;

TEST_CASE("PNG images are decoded to the channels and the depth that are wanted", "[input][host]") {
  const Tensor grey = bytes_tensor(png_file(2, 1, 8, 0, {"\x0a\x14"}));
  CHECK(decode_png(grey).shape() == Shape(1, 2, 1));
  CHECK(values(decode_png(grey)) == Pixels{10, 20});
  CHECK(values(decode_png(grey, 2)) == Pixels{10, 255, 20, 255});
  CHECK(values(decode_png(grey, 3)) == Pixels{10, 10, 10, 20, 20, 20});
  CHECK(values(decode_png(grey, 0, DType::u16)) == Pixels{2570, 5140});
  CHECK(values(decode_image(grey)) == Pixels{10, 20});
  const Tensor deep = bytes_tensor(png_file(1, 1, 16, 2, {std::string("\x01\x02\x03\x04\x05\x06", 6)}));
  CHECK(values(decode_png(deep)) == Pixels{1, 3, 5});
  CHECK(values(decode_png(deep, 0, DType::u16)) == Pixels{0x102, 0x304, 0x506});
  CHECK(values(decode_png(deep, 4, DType::u16)) == Pixels{0x102, 0x304, 0x506, 0xffff});
  const Tensor bits = bytes_tensor(png_file(10, 1, 1, 0, {"\xaa\x80"}));
  CHECK(values(decode_png(bits)) == Pixels{255, 0, 255, 0, 255, 0, 255, 0, 255, 0});
}

TEST_CASE("a PNG image that is larger than the limit, or than its data can be, is refused", "[input][host]") {
  const std::string bytes = png_file(20, 10, 8, 0, std::vector<std::string>(10, std::string(20, 'x')));
  CHECK(decode_png(bytes_tensor(bytes), 0, DType::u8, {.max_pixels = 200}).size() == 200);
  CHECK_THROWS_MATCHES(
      decode_png(bytes_tensor(bytes), 0, DType::u8, {.max_pixels = 199}), InvalidArgument,
      says("decode_png: ", "the image has 10 rows of 20 pixels, together more than max_pixels, 199"));
  CHECK_THROWS_MATCHES(decode_png(bytes_tensor(png_file(100'000, 1000, 8, 0, {"x"}))), InvalidArgument,
                       says("the image has 1000 rows of 100000 pixels, more than the data can hold"));
}

TEST_CASE("PNG data that is damaged, cut short or none is refused", "[input][host]") {
  const std::string bytes = png_file(3, 2, 8, 2, {"abcdefghi", "jklmnopqr"});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_THROWS_MATCHES(decode_png(bytes_tensor(bytes.substr(0, size))), InvalidArgument,
                         says("decode_png: " + std::to_string(size) + " bytes: it cannot be decoded: "));
  std::string damaged = bytes;
  damaged[damaged.find("IDAT") + 6] ^= 1;
  CHECK_THROWS_MATCHES(decode_png(bytes_tensor(damaged)), InvalidArgument,
                       says("it cannot be decoded: IDAT: "));
  CHECK_THROWS_MATCHES(decode_png(bytes_tensor("text")), InvalidArgument, says("decode_png: 4 bytes: "));
  CHECK_THROWS_MATCHES(decode_png(bytes_tensor(bytes), 5), InvalidArgument,
                       says("decode_png: 5 channels. Pass 0"));
  CHECK_THROWS_MATCHES(decode_png(bytes_tensor(bytes), 0, DType::f32), InvalidArgument,
                       says("decode_png: pixels float32. Ask for u8 or u16"));
  CHECK_THROWS_MATCHES(decode_png(Tensor::zeros({2})), InvalidArgument, says("is no vector of bytes"));
}

#else

TEST_CASE("without libpng decode_png is refused with the package's name", "[input][host]") {
  CHECK_THROWS_MATCHES(decode_png(bytes_tensor("")), Unsupported,
                       says("decode_png: lockstep was built without libpng", "libpng-dev"));
}

#endif
