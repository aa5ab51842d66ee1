#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/decode.hpp>

#include "support/image_file.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::bytes_tensor;
using test::says;

TEST_CASE("decode_image refuses what is neither a JPEG nor a PNG image", "[input][host]") {
  for (const std::string bytes : {"", "x", "text that is no image"})
    CHECK_THROWS_MATCHES(
        decode_image(bytes_tensor(bytes)), InvalidArgument,
        says("decode_image: " + std::to_string(bytes.size()) + " bytes: the data begins as neither",
             "Pass the bytes of a whole image."));
  CHECK_THROWS_MATCHES(decode_image(bytes_tensor("\xff\xd8\xff"), 0, DType::u16), InvalidArgument,
                       says("decode_image: a JPEG image has no pixels uint16. Ask for u8"));
  CHECK_THROWS_MATCHES(decode_image(Tensor::zeros({2}, DType::u16)), InvalidArgument,
                       says("decode_image: ", "is no vector of bytes"));
}
