#include <chrono>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/collectives/options.hpp>
#include <lockstep/error.hpp>

using namespace lockstep;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("communication implementations parse without regard to case", "[collectives][host]") {
  for (const char* text : {"auto", "AUTO", "automatic", "Automatic"})
    CHECK(parse_communication_implementation(text) == CommunicationImplementation::automatic);
  for (const char* text : {"ring", "RING"})
    CHECK(parse_communication_implementation(text) == CommunicationImplementation::ring);
  for (const char* text : {"nccl", "NCCL"})
    CHECK(parse_communication_implementation(text) == CommunicationImplementation::nccl);
  for (const char* text : {"peer", "Peer"})
    CHECK(parse_communication_implementation(text) == CommunicationImplementation::peer);
}

TEST_CASE("an unknown communication implementation is refused", "[collectives][host]") {
  for (const char* text : {"", "gloo", "nccl "}) {
    CHECK_THROWS_MATCHES(parse_communication_implementation(text), InvalidArgument,
                         MessageMatches(ContainsSubstring("'" + std::string(text) + "'") &&
                                        ContainsSubstring("auto (or automatic), ring, nccl and peer")));
  }
}

TEST_CASE("a call's options win over the strategy's where they are set", "[collectives][host]") {
  const CommunicationOptions strategy{.bytes_per_pack = 1024,
                                      .timeout = 30s,
                                      .implementation = CommunicationImplementation::nccl,
                                      .deterministic = true};
  const CommunicationOptions inherited = CommunicationOptions{}.merged_over(strategy);
  CHECK(inherited.bytes_per_pack == 1024);
  CHECK(inherited.timeout == 30s);
  CHECK(inherited.implementation == CommunicationImplementation::nccl);
  CHECK(inherited.deterministic);

  const CommunicationOptions call{
      .bytes_per_pack = 64, .timeout = 5ms, .implementation = CommunicationImplementation::ring};
  const CommunicationOptions merged = call.merged_over(strategy);
  CHECK(merged.bytes_per_pack == 64);
  CHECK(merged.timeout == 5ms);
  CHECK(merged.implementation == CommunicationImplementation::ring);
  CHECK(merged.deterministic);

  const CommunicationOptions alone = CommunicationOptions{.deterministic = true}.merged_over({});
  CHECK(alone.bytes_per_pack == 0);
  CHECK(alone.timeout == 0ms);
  CHECK(alone.implementation == CommunicationImplementation::automatic);
  CHECK(alone.deterministic);
}

TEST_CASE("a call switches off what the strategy has", "[collectives][host]") {
  const CommunicationOptions strategy{.bytes_per_pack = 1024,
                                      .timeout = 30s,
                                      .implementation = CommunicationImplementation::nccl,
                                      .deterministic = true};
  const CommunicationOptions call{.bytes_per_pack = 0,
                                  .timeout = 0ms,
                                  .implementation = CommunicationImplementation::automatic,
                                  .deterministic = false};
  const CommunicationOptions merged = call.merged_over(strategy);
  CHECK(merged.bytes_per_pack == 0);
  CHECK(merged.timeout == 0ms);
  CHECK(merged.implementation == CommunicationImplementation::automatic);
  CHECK_FALSE(merged.deterministic);
  // Also after it was merged before, over nothing.
  CHECK_FALSE(call.merged_over({}).merged_over(strategy).deterministic);
}

TEST_CASE("a call has the strategy's path, label and communicator unless it has its own",
          "[collectives][host]") {
  const CommunicationOptions strategy{
      .peer_bytes = 4096, .label = "gradients", .communicator = {.name = "data", .max_ctas = 4}};
  const CommunicationOptions inherited = CommunicationOptions{}.merged_over(strategy);
  CHECK(inherited == strategy);
  const CommunicationOptions call{.peer_bytes = 0, .label = "loss", .communicator = {.nonblocking = true}};
  CHECK(call.merged_over(strategy) == call);
}

TEST_CASE("options are equal where the same fields were given with equal values", "[collectives][host]") {
  const CommunicationOptions options{.bytes_per_pack = 0, .timeout = 1s};
  CHECK(options == CommunicationOptions{.bytes_per_pack = 0, .timeout = 1000ms});
  CHECK(options != CommunicationOptions{.timeout = 1s});  // not given
  CHECK(options != CommunicationOptions{.bytes_per_pack = 0, .timeout = 2s});
  for (const CommunicationOptions& other :
       {CommunicationOptions{.implementation = CommunicationImplementation::nccl},
        CommunicationOptions{.deterministic = true}, CommunicationOptions{.peer_bytes = 1},
        CommunicationOptions{.label = "a"}, CommunicationOptions{.communicator = {.min_ctas = 1}}})
    CHECK(other != CommunicationOptions());
}

TEST_CASE("a communicator's options that NCCL refuses are refused", "[collectives][host]") {
  const std::string name(64, 'n');
  const auto refused = [](const CommunicatorConfig& config, const char* message) {
    CHECK_THROWS_MATCHES(CommunicationOptions{.communicator = config}.merged_over({}), InvalidArgument,
                         MessageMatches(ContainsSubstring(message)));
  };
  refused({.name = name}, "name has 64 characters. Pass 63 at most");
  refused({.min_ctas = -1}, "min_ctas is -1");
  refused({.max_ctas = 65}, "max_ctas is 65. Pass 1 to 64");
  refused({.min_ctas = 5, .max_ctas = 4}, "min_ctas is 5, above max_ctas, which is 4");
  CHECK_THROWS_MATCHES(CommunicationOptions{.peer_bytes = -1}.merged_over({}), InvalidArgument,
                       MessageMatches(ContainsSubstring("peer_bytes is -1")));
}

TEST_CASE("a field of options is used as its value", "[collectives][host]") {
  constexpr CommunicationOptions kOptions{.bytes_per_pack = 1 << 20, .timeout = 2s};
  static_assert(kOptions.timeout.count() == 2000 && kOptions.timeout.is_given());
  static_assert(!kOptions.deterministic && !kOptions.deterministic.is_given());
  const std::int64_t bytes = kOptions.bytes_per_pack;
  const std::chrono::milliseconds timeout = kOptions.timeout;
  CHECK(bytes == 1 << 20);
  CHECK(timeout == 2s);
  CHECK(kOptions.implementation == CommunicationImplementation::automatic);
}

template <class T>
concept ChangedInPlace = requires(T value) {
  value += 1ms;
}
|| requires(T value) { ++value; };
static_assert(ChangedInPlace<std::chrono::milliseconds> &&
              !ChangedInPlace<Setting<std::chrono::milliseconds>>);

TEST_CASE("negative options are refused", "[collectives][host]") {
  const CommunicationOptions pack{.bytes_per_pack = -1}, timeout{.timeout = -1ms};
  CHECK_THROWS_MATCHES(pack.merged_over({}), InvalidArgument,
                       MessageMatches(ContainsSubstring("bytes_per_pack is -1. Pass at least 0")));
  CHECK_THROWS_MATCHES(timeout.merged_over({}), InvalidArgument,
                       MessageMatches(ContainsSubstring("timeout is -1 ms. Pass at least 0")));
  CHECK_THROWS_AS(CommunicationOptions{}.merged_over(pack), InvalidArgument);
  CHECK_THROWS_AS(CommunicationOptions{}.merged_over(timeout), InvalidArgument);
}
