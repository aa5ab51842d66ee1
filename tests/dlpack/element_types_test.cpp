#include "dlpack/element_types.hpp"

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"

namespace lockstep::dlpack {

using test::says;

TEST_CASE("dtypes have the codes of DLPack's table, and come back", "[dlpack]") {
  constexpr int kCodes[][2] = {{2, 16}, {4, 16}, {2, 32}, {2, 64}, {0, 8}, {0, 16}, {0, 32}, {0, 64},
                               {1, 8},  {1, 16}, {1, 32}, {1, 64}, {6, 8}, {10, 8}, {12, 8}};
  for (const DType dtype : test::kAllDTypes) {
    INFO(dtype);
    const DLDataType type = to_element_type(dtype);
    CHECK(type.code == kCodes[static_cast<int>(dtype)][0]);
    CHECK(type.bits == kCodes[static_cast<int>(dtype)][1]);
    CHECK(type.lanes == 1);
    CHECK(to_dtype(type) == dtype);
  }
}

TEST_CASE("elements that no dtype has are refused by name, with a remedy", "[dlpack]") {
  CHECK_THROWS_MATCHES(to_dtype({5, 64, 1}), Unsupported,
                       says("dlpack::from", "complex with 64 bits", "extent 2"));
  CHECK_THROWS_MATCHES(to_dtype({2, 32, 4}), Unsupported,
                       says("float with 32 bits and 4 lanes", "last axis"));
  CHECK_THROWS_MATCHES(to_dtype({2, 32, 0}), Unsupported, says("0 lanes"));
  CHECK_THROWS_MATCHES(to_dtype({17, 4, 1}), Unsupported, says("float4_e2m1fn with 4 bits", "Convert"));
  CHECK_THROWS_MATCHES(to_dtype({0, 4, 1}), Unsupported, says("int with 4 bits", "Convert"));
  CHECK_THROWS_MATCHES(to_dtype({3, 64, 1}), Unsupported, says("opaque handle with 64 bits"));
  CHECK_THROWS_MATCHES(to_dtype({8, 8, 1}), Unsupported, says("float8_e4m3 with 8 bits"));
  CHECK_THROWS_MATCHES(to_dtype({6, 1, 1}), Unsupported, says("bool with 1 bits"));
  CHECK_THROWS_MATCHES(to_dtype({2, 128, 1}), Unsupported, says("float with 128 bits"));
  CHECK_THROWS_MATCHES(to_dtype({200, 8, 1}), Unsupported, says("of code 200 with 8 bits"));
}

}  // namespace lockstep::dlpack
