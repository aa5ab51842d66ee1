#include "device/gpus.hpp"

#include <catch2/catch_test_macros.hpp>

namespace lockstep::test {

using cuda::has_code_for;

TEST_CASE("machine code runs on its major version, PTX on every later one", "[cuda]") {
  constexpr const char* kDefault = "80-real 90-real 100";
  for (const int capability : {80, 86, 89, 90, 100, 103, 110, 120, 121})
    CHECK(has_code_for(kDefault, capability));
  for (const int capability : {70, 75}) CHECK(!has_code_for(kDefault, capability));

  CHECK(has_code_for("80-real", 87));
  CHECK(!has_code_for("80-real", 90));
  CHECK(!has_code_for("86-real", 80));
  CHECK(has_code_for("86-virtual", 120));
  CHECK(!has_code_for("86-virtual", 80));
  CHECK(has_code_for("75", 90));
  CHECK(!has_code_for("", 90));
}

TEST_CASE("code for one architecture runs there alone, code for a family on its minor versions", "[cuda]") {
  for (const char* architectures : {"90a", "90a-real", "90a-virtual"}) {
    CHECK(has_code_for(architectures, 90));
    CHECK(!has_code_for(architectures, 100));
  }
  for (const char* architectures : {"100f", "100f-real"}) {
    CHECK(has_code_for(architectures, 103));
    CHECK(!has_code_for(architectures, 120));
  }
}

}  // namespace lockstep::test
