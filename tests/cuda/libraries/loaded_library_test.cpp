#include "libraries/loaded_library.hpp"

#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <dlfcn.h>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "libraries/nccl_library.hpp"
#include "support/matchers.hpp"
#include "support/scoped_log_sink.hpp"

namespace lockstep::test {

TEST_CASE("a library that is not there is refused, with the places where it was looked for", "[cuda]") {
  cuda::LoadedLibrary absent({.needed_by = "This test needs a library",
                              .file = "libabsent.so.3",
                              .folder = "/nowhere",
                              .advice = "Install it."});
  for (int i = 0; i < 2; ++i)
    REQUIRE_THROWS_MATCHES(absent.function("f"), Unsupported,
                           says("This test needs a library, which is not loaded", "libabsent.so.3",
                                "/nowhere/libabsent.so.3", "Install it.", "LD_LIBRARY_PATH"));
}

TEST_CASE("a library without a function is refused by the function's name", "[cuda]") {
  cuda::LoadedLibrary library({.needed_by = "This test needs zlib",
                               .file = "libz.so.1",
                               .folder = "/nowhere",
                               .advice = "Install it."});
  REQUIRE(library.function("zlibVersion") != nullptr);
  REQUIRE_THROWS_MATCHES(library.function("no_such_function"), Unsupported,
                         says("This test needs zlib", "no_such_function", "Install it."));
}

TEST_CASE("the NCCL that the program has is the one that is used", "[cuda]") {
  REQUIRE(cuda::nccl_library.function("ncclAllReduce") == ::dlsym(RTLD_DEFAULT, "ncclAllReduce"));
  REQUIRE(cuda::nccl_library.function("ncclAllReduce") == reinterpret_cast<void*>(&::ncclAllReduce));
}

TEST_CASE("P43 an NCCL that cannot work is refused with both versions, an old one is mentioned", "[cuda]") {
  std::vector<std::string> lines;
  const ScopedLogSink sink([&](std::string_view line) { lines.emplace_back(line); });
  const std::string built = detail::concat("NCCL ", NCCL_MAJOR, ".", NCCL_MINOR, ".", NCCL_PATCH);
  CHECK_THROWS_MATCHES(cuda::require_nccl_version(22304, "/lib/libnccl.so.2"), Unsupported,
                       says("NCCL 2.23.4", "/lib/libnccl.so.2", built, "2.24.0"));
  CHECK_THROWS_MATCHES(cuda::require_nccl_version(2708, "x"), Unsupported, says("NCCL 2.7.8", built));
  CHECK_THROWS_MATCHES(cuda::require_nccl_version(0, "x"), Unsupported, says("NCCL 0.0.0", built));
  CHECK_THROWS_MATCHES(cuda::require_nccl_version(30000, "x"), Unsupported, says("NCCL 3.0.0", built));
  CHECK(lines.empty());
  CHECK_NOTHROW(cuda::require_nccl_version(NCCL_VERSION_CODE, "x"));
  CHECK_NOTHROW(cuda::require_nccl_version(NCCL_VERSION_CODE + 100, "x"));
  CHECK(lines.empty());
  CHECK_NOTHROW(cuda::require_nccl_version(22400, "x"));
  REQUIRE(lines.size() == 1);
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(lines[0], ContainsSubstring("NCCL 2.24.0") && ContainsSubstring(built));
}

}  // namespace lockstep::test
