#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/log.hpp>

#include "detail/warn.hpp"
#include "support/captured_stderr.hpp"

namespace lockstep {

using Messages = std::vector<std::string>;

TEST_CASE("warnings are lines on the standard error stream, or go to a sink", "[log][host]") {
  Messages messages;
  CHECK(test::captured_stderr([] { detail::warn("first"); }) == "lockstep: first\n");
  CHECK(test::captured_stderr([&] {
          CHECK_FALSE(set_log_sink([&](std::string_view message) { messages.emplace_back(message); }));
          detail::warn("second");
        }).empty());
  CHECK(messages == Messages{"second"});
  const LogSink before = set_log_sink({});
  REQUIRE(before);
  before("third");
  CHECK(messages == Messages{"second", "third"});
  CHECK(test::captured_stderr([] { detail::warn("fourth"); }) == "lockstep: fourth\n");
}

TEST_CASE("a sink gets the messages of all threads one at a time, and may throw", "[log][host]") {
  constexpr int kMessages = 500;
  Messages messages;
  set_log_sink([&](std::string_view message) {
    messages.emplace_back(message);
    throw std::runtime_error("dropped");
  });
  const auto say = [] {
    for (int i = 0; i < kMessages; ++i) detail::warn("said");
  };
  std::thread other(say);
  say();
  other.join();
  set_log_sink({});
  CHECK(messages == Messages(2 * kMessages, "said"));
}

}  // namespace lockstep
