#include "engines/gloo/gloo_channel.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/backend/engine.hpp>
#include <lockstep/error.hpp>

#include "engines/channel_contract.hpp"
#include "support/process_team.hpp"
#include "support/shared_store.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using test::expect;

namespace {

std::unique_ptr<backend::Engine> start(test::SharedStore& store, int process, int num_processes) {
  return backend::find_engine("gloo")->start({.process = process,
                                              .num_processes = num_processes,
                                              .store = &store,
                                              .host = "127.0.0.1",
                                              .silence_limit = 20s});
}

}  // namespace

TEST_CASE("gloo's channels keep the contract", "[engines]") {
  const int n = GENERATE(1, 2, 3, 4);
  const test::NamedChannelCase& named = GENERATE(from_range(test::channel_contract()));
  if (n == 1 && named.fails_group) return;  // nobody is waited for
  CAPTURE(n, named.name);
  test::SharedStore store;
  test::ProcessTeam team(n, [&](int process) {
    const auto engine = start(store, process, n);
    named.run({process, n, [&] { return engine->open_channel(); }});
  });
  CHECK(team.wait_for_all() == std::vector<std::string>(static_cast<std::size_t>(n)));
}

TEST_CASE("a gloo channel says which process is lost", "[engines]") {
  test::SharedStore store;
  test::ProcessTeam team(3, [&](int process) {
    const auto engine = start(store, process, 3);
    const auto channel = engine->open_channel();
    channel->barrier(std::nullopt);
    if (process == 1) ::raise(SIGKILL);
    const auto begin = std::chrono::steady_clock::now();
    std::string text;
    try {
      channel->all_to_all(
          std::vector<std::span<const std::byte>>(3, std::as_bytes(std::span("from here"))),
          [&] {
            static std::byte there[3][sizeof "from here"];
            return std::vector<std::span<std::byte>>(there, there + 3);
          }(),
          begin + 60s);
    } catch (const CollectiveAborted& error) {
      text = error.what();
    }
    // The third one may learn it from the second, which gives up.
    expect(text.find("all_to_all by the engine gloo: process") != std::string::npos &&
               text.find(" is lost (") != std::string::npos,
           text.c_str());
    expect(std::chrono::steady_clock::now() - begin < 20s, "it is told at once");
  });
  CHECK(team.wait_for_all() == std::vector<std::string>{"", "signal 9", ""});
}

TEST_CASE("a gloo channel is released by abort when a process dies within a message", "[engines]") {
  struct Flags {
    std::atomic<bool> is_sending, is_dead;
  };
  test::SharedStore store;
  test::SharedWithForks<Flags> flags;
  test::ProcessTeam team(2, [&](int process) {
    const auto engine = start(store, process, 2);
    const auto channel = engine->open_channel();
    channel->barrier(std::nullopt);
    std::vector<std::byte> sent(64 << 20), received(64 << 20);
    std::vector<std::span<const std::byte>> sends(2);
    std::vector<std::span<std::byte>> receives(2);
    sends[1 - process] = sent;
    receives[1 - process] = received;
    std::thread other([&] {
      if (process == 1) {
        while (!flags->is_sending.load()) std::this_thread::yield();
        ::raise(SIGKILL);
      }
      while (!flags->is_dead.load()) std::this_thread::yield();
      channel->abort("worker 1 has ended");
    });
    flags->is_sending.store(true);
    std::string text;
    try {
      for (;;) channel->all_to_all(sends, receives, std::nullopt);
    } catch (const CollectiveAborted& error) {
      text = error.what();
    }
    other.join();
    expect(text.find("process 1 is lost") != std::string::npos ||
               text.find("worker 1 has ended") != std::string::npos,
           text.c_str());
  });
  CHECK(team.wait(1) == "signal 9");
  flags->is_dead.store(true);
  CHECK(team.wait(0) == "");
}

TEST_CASE("a gloo channel's last bytes arrive when their sender ends at once", "[engines]") {
  test::SharedStore store;
  test::ProcessTeam team(3, [&](int process) {
    const auto engine = start(store, process, 3);
    for (int i = 0; i < 5; ++i) {
      std::vector<std::byte> buffer(5'000'001, process == 0 ? std::byte{7} : std::byte{});
      engine->open_channel()->broadcast(buffer, 0, std::nullopt);
      expect(buffer == std::vector<std::byte>(buffer.size(), std::byte{7}), "all have come");
    }
  });
  CHECK(team.wait_for_all() == std::vector<std::string>(3));
}
