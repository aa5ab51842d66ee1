#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/decode.hpp>

#include "support/image_file.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::bytes_tensor;
using test::says;

TEST_CASE("decode_raw takes bytes for elements, in either byte order", "[input][host]") {
  const Tensor bytes = bytes_tensor(std::string("\1\2\0\3", 4));
  CHECK(decode_raw(bytes, DType::u16).to_vector<std::uint16_t>() == std::vector<std::uint16_t>{0x201, 0x300});
  CHECK(decode_raw(bytes, DType::u16, false).to_vector<std::uint16_t>() ==
        std::vector<std::uint16_t>{0x102, 3});
  CHECK(decode_raw(bytes, DType::u8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{1, 2, 0, 3});
  CHECK(decode_raw(bytes, DType::boolean).to_vector<bool>() == std::vector<bool>{true, true, false, true});
  CHECK(decode_raw(bytes_tensor(""), DType::f64).shape() == Shape(0));
}

TEST_CASE("decode_raw refuses what are no bytes, or no whole elements", "[input][host]") {
  CHECK_THROWS_MATCHES(decode_raw(bytes_tensor("123456"), DType::f32), InvalidArgument,
                       says("decode_raw: 6 bytes are no whole number of float32, which have 4"));
  CHECK_THROWS_MATCHES(decode_raw(Tensor::zeros({4}), DType::u8), InvalidArgument,
                       says("decode_raw: [4] float32", "is no vector of bytes"));
  CHECK_THROWS_AS(decode_raw(Tensor::zeros({2, 2}, DType::u8), DType::u8), InvalidArgument);
}
