#include "input/formats/compressed/crc32c.hpp"

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/tf_record_file.hpp"

using namespace lockstep;

#ifdef LOCKSTEP_HAS_ISAL

TEST_CASE("crc32c gives the checksums of RFC 3720, appendix B.4", "[input][host]") {
  const auto crc = [](std::string_view bytes) { return detail::crc32c(bytes.data(), bytes.size()); };
  CHECK_NOTHROW(detail::check_crc32c("test"));
  CHECK(crc("") == 0);
  CHECK(crc("123456789") == 0xe3069283U);
  CHECK(crc(std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(crc(std::string(32, '\xff')) == 0x62a8ab43U);
}

TEST_CASE("crc32c agrees with the definition at every length and alignment", "[input][host]") {
  std::string bytes;
  for (int i = 0; i < 2000; ++i) bytes += static_cast<char>(i * i % 251);
  for (std::size_t begin = 0; begin < 17; ++begin) {
    for (std::size_t size = 0; size < 600; size += 7) {
      const std::string_view part = std::string_view(bytes).substr(begin, size);
      CHECK(detail::crc32c(part.data(), part.size()) == test::plain_crc32c(part));
    }
  }
}

#else

TEST_CASE("without ISA-L its absence is an error that names the package", "[input][host]") {
  CHECK(detail::crc32c("1", 1) == 0);
  CHECK_THROWS_MATCHES(detail::check_crc32c("call"), Unsupported,
                       test::says("call: lockstep was built without ISA-L", "libisal-dev"));
}

#endif
