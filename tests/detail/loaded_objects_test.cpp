#include "detail/loaded_objects.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <dlfcn.h>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/error.hpp>

#include "support/scoped_log_sink.hpp"

namespace lockstep::detail {

namespace {

using Catch::Matchers::ContainsSubstring;

/// A shared library that is loaded while this lives.
class Loaded {
 public:
  explicit Loaded(const char* file) : handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE(handle_ != nullptr);
  }
  ~Loaded() { ::dlclose(handle_); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

 private:
  void* handle_;
};

std::vector<std::string> warnings_of(FunctionRef<void()> call) {
  std::vector<std::string> messages;
  const test::ScopedLogSink sink([&](std::string_view message) { messages.emplace_back(message); });
  call();
  return messages;
}

}  // namespace

TEST_CASE("loaded files are found by the beginning of their names", "[abi][host]") {
  CHECK(loaded_files("libc.so").size() == 1);
  CHECK(loaded_files("c.so").empty());
  CHECK(loaded_files().front().empty());  // the program
  CHECK(warnings_of([] { warn_if_several("libc.so", "two C libraries"); }).empty());
}

TEST_CASE("several files of one library are told with their paths", "[abi][host]") {
  const Loaded headers(LOCKSTEP_OTHER_HEADERS), copy(LOCKSTEP_OTHER_COPY);
  const auto messages = warnings_of([] { warn_if_several("liblockstep_other_", "two plugins"); });
  REQUIRE(messages.size() == 1);
  CHECK_THAT(messages[0], ContainsSubstring("has loaded two plugins, ") &&
                              ContainsSubstring(LOCKSTEP_OTHER_HEADERS) &&
                              ContainsSubstring(LOCKSTEP_OTHER_COPY));
}

TEST_CASE("a plugin that was compiled with other headers is refused by its path", "[abi][host]") {
  CHECK(warnings_of([] { check_loaded_copies(); }).empty());
  {
    const Loaded plugin(LOCKSTEP_OTHER_HEADERS);
    CHECK_THROWS_AS(check_loaded_copies(), Unsupported);
    CHECK_THROWS_WITH(check_loaded_copies(),
                      ContainsSubstring(LOCKSTEP_OTHER_HEADERS
                                        " was compiled with lockstep's headers of binary interface 9999"));
  }
  CHECK_NOTHROW(check_loaded_copies());
}

TEST_CASE("a second copy of the library is told with both paths, whatever its headers", "[abi][host]") {
  const Loaded copy(LOCKSTEP_OTHER_COPY);
  const auto messages = warnings_of([] { check_loaded_copies(); });
  REQUIRE(messages.size() == 1);
  CHECK_THAT(messages[0],
             ContainsSubstring("two copies of lockstep, in ") && ContainsSubstring(LOCKSTEP_OTHER_COPY));
}

}  // namespace lockstep::detail
