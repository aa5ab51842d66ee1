#include "input/formats/file_mapping.hpp"

#include <cstring>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <sys/resource.h>

#include "detail/sanitizers.hpp"
#include "support/npy_file.hpp"

using namespace lockstep;

TEST_CASE("a mapping has a file's bytes, also when the file is gone", "[input][host]") {
  std::unique_ptr<detail::FileMapping> mapping;
  {
    const test::TemporaryFile file("some bytes");
    mapping = std::make_unique<detail::FileMapping>(detail::InputFile(file.path(), "test"));
  }
  CHECK(std::string(reinterpret_cast<const char*>(mapping->data()), 10) == "some bytes");
  const test::TemporaryFile empty("");
  CHECK(detail::FileMapping(detail::InputFile(empty.path(), "test")).data() == nullptr);
}

TEST_CASE("a file that the system does not map is a fault", "[input][host]") {
  if (LOCKSTEP_ADDRESS_SANITIZER || LOCKSTEP_THREAD_SANITIZER) SKIP("a sanitizer takes addresses itself");
  const test::TemporaryFile file(std::string(1 << 20, 'x'));
  const detail::InputFile input(file.path(), "test");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};  // no more addresses
  if (setrlimit(RLIMIT_AS, &none) != 0) SKIP("the limit of addresses cannot be changed");
  std::string reason;
  int code = 0;
  try {
    const detail::FileMapping mapping(input);
  } catch (const detail::FileFault& fault) {
    setrlimit(RLIMIT_AS, &before);
    reason = fault.reason;
    code = fault.code;
  }
  setrlimit(RLIMIT_AS, &before);
  CHECK(reason.find("it cannot be mapped: ") == 0);
  CHECK(code == ENOMEM);
}
