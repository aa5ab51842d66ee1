#include <string>
#include <thread>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/backend/engine.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/process_team.hpp"
#include "support/shared_store.hpp"

using namespace lockstep;
using test::says;

namespace {

const backend::EngineKind& gloo() { return *backend::find_engine("gloo"); }

}  // namespace

TEST_CASE("the engine gloo is known, and needs a store", "[engines]") {
  REQUIRE(backend::find_engine("gloo") != nullptr);
  CHECK_FALSE(gloo().is_launched);
  REQUIRE_THROWS_MATCHES(gloo().start({.process = 0, .num_processes = 2}), ContextError,
                         says("starting the engine gloo", "no store", "Give it one"));
}

TEST_CASE("the engine gloo refuses a host that is not its own", "[engines]") {
  test::SharedStore store;
  REQUIRE_THROWS_MATCHES(
      gloo().start({.process = 0, .num_processes = 2, .store = &store, .host = "no-such-host.invalid"}),
      ContextError, says("\"no-such-host.invalid\" is not a name or address of this host"));
  // An address that documentation is written with.
  REQUIRE_THROWS_MATCHES(
      gloo().start({.process = 0, .num_processes = 2, .store = &store, .host = "192.0.2.1"}), ContextError,
      says("\"192.0.2.1\"", "this host", "of its own host"));
}

TEST_CASE("the engine gloo takes this host's name where it is told none", "[engines]") {
  test::SharedStore store;
  test::ProcessTeam team(2, [&](int process) {
    const auto engine = gloo().start({.process = process, .num_processes = 2, .store = &store, .host = ""});
    engine->open_channel()->barrier(std::nullopt);
  });
  CHECK(team.wait_for_all() == std::vector<std::string>(2));
}

TEST_CASE("the engine gloo leaves nothing in the store of channels that are open", "[engines]") {
  test::SharedStore store;
  test::ProcessTeam team(3, [&](int process) {
    const auto engine = gloo().start({.process = process, .num_processes = 3, .store = &store, .host = ""});
    for (int i = 0; i < 4; ++i) engine->open_channel()->barrier(std::nullopt);
  });
  CHECK(team.wait_for_all() == std::vector<std::string>(3));
  CHECK(store.num_keys() == 0);
}
