#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
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

using namespace std::chrono_literals;

const backend::EngineKind& gloo() { return *backend::find_engine("gloo"); }

/// A process's view of a store of two processes; once one is lost all its calls say so.
class LosingStore final : public backend::KeyValueStore {
 public:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, std::string> values;
    bool is_lost = false;

    void lose() {
      const std::lock_guard lock(mutex);
      is_lost = true;
      changed.notify_all();
    }
  };
  enum class Addresses { read, awaited, unsaid };
  /// @param addresses  awaited: those of the other process never come. unsaid: this process has no memory to
  /// say its own.
  LosingStore(Shared& shared, Addresses addresses) : shared_(shared), addresses_(addresses) {}

  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(shared_.mutex);
    expect_all();
    if (addresses_ == Addresses::unsaid && key.find("addresses") != key.npos && !value.empty())
      throw std::bad_alloc();
    shared_.values[key] = value;
    shared_.changed.notify_all();
  }
  std::string get(const std::string& key, backend::Deadline) override {
    const bool waits = addresses_ == Addresses::awaited && key.find("addresses") != key.npos;
    std::unique_lock lock(shared_.mutex);
    shared_.changed.wait(lock, [&] { return shared_.is_lost || (!waits && shared_.values.contains(key)); });
    expect_all();
    return shared_.values.at(key);
  }
  void erase(const std::string&) override {}

 private:
  void expect_all() const {
    if (shared_.is_lost) throw CollectiveAborted("process 1 is lost");
  }

  Shared& shared_;
  const Addresses addresses_;
};

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

TEST_CASE("the engine gloo waits no longer for a process that is lost", "[engines]") {
  // Of two processes the one whose port is lower waits for the other one.
  for (int round = 0; round < 8; ++round) {
    LosingStore::Shared shared;
    LosingStore first(shared, LosingStore::Addresses::read), second(shared, LosingStore::Addresses::awaited);
    const auto other =
        gloo().start({.process = 1, .num_processes = 2, .store = &second, .host = "127.0.0.1"});
    auto never_opened = std::async(std::launch::async, [&] { return other->open_channel(); });
    const auto engine = gloo().start(
        {.process = 0, .num_processes = 2, .store = &first, .host = "127.0.0.1", .silence_limit = 10s});
    auto opened = std::async(std::launch::async, [&] { return engine->open_channel(); });
    std::this_thread::sleep_for(50ms);
    shared.lose();
    REQUIRE(opened.wait_for(20s) == std::future_status::ready);
    REQUIRE_THROWS_MATCHES(opened.get(), CollectiveAborted, says("process 1 is lost"));
    REQUIRE_THROWS_AS(never_opened.get(), CollectiveAborted);
  }
}

TEST_CASE("the engine gloo opens a channel that another process closes at once", "[engines]") {
  test::SharedStore store;
  test::ProcessTeam team(2, [&](int process) {
    const auto engine =
        gloo().start({.process = process, .num_processes = 2, .store = &store, .host = "127.0.0.1"});
    for (int i = 0; i < 200; ++i) engine->open_channel();
  });
  CHECK(team.wait_for_all() == std::vector<std::string>(2));
}

TEST_CASE("the engine gloo waits for no process that cannot open a channel", "[engines]") {
  LosingStore::Shared shared;
  LosingStore first(shared, LosingStore::Addresses::read), second(shared, LosingStore::Addresses::unsaid);
  const auto start = [](int process, LosingStore& store) {
    return gloo().start(
        {.process = process, .num_processes = 2, .store = &store, .host = "127.0.0.1", .silence_limit = 10s});
  };
  const auto engine = start(0, first), other = start(1, second);
  auto opened = std::async(std::launch::async, [&] { return engine->open_channel(); });
  REQUIRE_THROWS_AS(other->open_channel(), std::bad_alloc);
  REQUIRE(opened.wait_for(20s) == std::future_status::ready);
  REQUIRE_THROWS_MATCHES(opened.get(), CollectiveAborted, says("process 1 has failed"));
}
