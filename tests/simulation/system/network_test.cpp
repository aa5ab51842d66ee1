#include "simulation/system/network.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/socket.h>

#include <lockstep/error.hpp>

#include "simulation/fork.hpp"
#include "simulation/start_process.hpp"
#include "workers/control/control_connection.hpp"
#include "workers/control/socket.hpp"

using namespace lockstep;
using namespace lockstep::simulation;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using detail::ControlConnection;

namespace {

constexpr const char* kHosts[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};

struct Listener final : detail::ControlListener {
  void on_failure(int, std::uint64_t, std::string) override {}
  void on_lost(int, std::string cause) override { lost += cause; }
  void on_left(int) override {}
  std::string lost{};
};

/// Three workers whose control connections gather texts until one of them is lost; what each hears.
struct Star {
  explicit Star(System& system) {
    for (int worker = 0; worker < 3; ++worker)
      processes.push_back(&start_process(system, kHosts[worker], [this, worker] { gather(worker); }));
  }
  void gather(int worker) {
    Listener listener;
    try {
      ControlConnection connection({.worker = worker,
                                    .addresses = {"10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.3:2222"},
                                    .silence_limit = silence_limit},
                                   listener);
      for (int i = 0; i < num_rounds; ++i) {
        if (worker == 0 && i == num_rounds - 1) std::this_thread::sleep_for(pause_of_leader);
        const auto all = connection.all_gather("a text", std::to_string(worker + i), std::nullopt);
        for (int other = 0; other < 3; ++other)
          if (all[static_cast<std::size_t>(other)] != std::to_string(other + i))
            heard[worker] += "wrong text;";
        ++rounds[worker];
      }
    } catch (const PeerLost& error) {
      heard[worker] = error.what();
    }
  }
  bool await_end(System& system, int worker) {
    return simulation::await_end(system, *processes[static_cast<std::size_t>(worker)], 20 * kSecond);
  }

  int num_rounds = 1'000'000;
  std::chrono::milliseconds silence_limit{1000};
  std::chrono::milliseconds pause_of_leader{0};  // before its last round
  std::vector<Process*> processes{};
  std::string heard[3]{};
  int rounds[3]{};
};

}  // namespace

TEST_CASE("bytes come whole and in order, in parts, whatever their number", "[simulation]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Outcome outcome = simulate(seed, [](System& system, Network&) {
      std::string received;
      Process& reader = start_process(system, "10.0.0.1", [&] {
        const detail::control::ListeningSocket listening("10.0.0.1:2222");
        auto accepted = listening.accept();
        for (; !accepted; accepted = listening.accept()) std::this_thread::sleep_for(1ms);
        std::vector<char> buffer(100'000);
        for (;;) {
          const auto size = ::recv(accepted->socket.get(), buffer.data(), buffer.size(), 0);
          if (size == 0) return;
          if (size < 0)
            std::this_thread::sleep_for(1ms);
          else
            received.append(buffer.data(), static_cast<std::size_t>(size));
        }
      });
      std::string sent;
      for (int i = 0; i < 300'000; ++i) sent += static_cast<char>(i % 251);
      Process& writer = start_process(system, "10.0.0.2", [&] {
        std::string why;
        detail::FileDescriptor socket;
        while (!socket.is_open()) socket = detail::control::try_connect({"10.0.0.1", "2222"}, 1000ms, why);
        for (std::size_t done = 0; done < sent.size();) {
          const auto size = ::send(socket.get(), sent.data() + done, sent.size() - done, MSG_NOSIGNAL);
          if (size < 0)
            std::this_thread::sleep_for(1ms);
          else
            done += static_cast<std::size_t>(size);
        }
      });
      const bool have_ended = await_end(system, reader, 60 * kSecond) && await_end(system, writer, kSecond);
      return std::string(have_ended && received == sent ? "right" : "wrong");
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.result == "right");
  }
}

TEST_CASE("the control star runs on it, and leaves no descriptor", "[simulation]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Outcome outcome = simulate(seed, [](System& system, Network&) {
      Star star(system);
      star.num_rounds = 50;
      for (int worker = 0; worker < 3; ++worker)
        if (!star.await_end(system, worker)) return std::string("it does not end");
      return star.heard[0] + star.heard[1] + star.heard[2];
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.result == "");
  }
}

TEST_CASE("of a worker that is killed, switched off, paused or cut off the others hear, alike",
          "[simulation]") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Outcome outcome = simulate(seed, [seed](System& system, Network& network) {
      Star star(system);
      while (star.rounds[0] < 5 || star.rounds[1] < 5 || star.rounds[2] < 5) std::this_thread::sleep_for(1ms);
      Process& victim = *star.processes[2];
      if (seed % 4 == 1) network.switch_off(victim.host);
      if (seed % 4 < 2) system.kill(victim);
      if (seed % 4 == 2) system.set_paused(victim, true);
      for (int other = 0; seed % 4 == 3 && other < 2; ++other)
        network.cut(victim.host, kHosts[other], kNever);
      if (!star.await_end(system, 0) || !star.await_end(system, 1)) return std::string("they wait on");
      const std::size_t begin = star.heard[0].find("worker 2");
      const std::size_t same =
          star.heard[1].find(star.heard[0].substr(begin == std::string::npos ? 0 : begin));
      return star.heard[0] + (same == std::string::npos ? " and another text" : "");
    });
    CHECK(outcome.failure == "");
    CHECK_THAT(
        outcome.result,
        ContainsSubstring(seed % 4 == 0 ? "worker 2 (10.0.0.3:2222) was lost: its connection was closed"
                                        : "worker 2 (10.0.0.3:2222) was lost: it was silent for 1 s"));
    CHECK_THAT(outcome.result, !ContainsSubstring("another text"));
  }
}

TEST_CASE("a link that is cut for a short time disturbs nobody", "[simulation]") {
  const Outcome outcome = simulate(1, [](System& system, Network& network) {
    Star star(system);
    star.num_rounds = 50;
    std::this_thread::sleep_for(5ms);
    network.cut(kHosts[0], kHosts[1], system.now() + 100 * kMillisecond);
    for (int worker = 0; worker < 3; ++worker)
      if (!star.await_end(system, worker)) return std::string("it does not end");
    return star.heard[0] + star.heard[1] + star.heard[2];
  });
  CHECK(outcome.failure == "");
  CHECK(outcome.result == "");
}

TEST_CASE("a leader that ends while a link is cut waits until the others have heard of it", "[simulation]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Outcome outcome = simulate(seed, [](System& system, Network& network) {
      Star star(system);
      star.num_rounds = 5;
      star.silence_limit = 6000ms;
      star.pause_of_leader = 1000ms;
      while (star.rounds[0] < 4 || star.rounds[1] < 4) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(900ms);  // the others' last texts have come
      network.cut(kHosts[0], kHosts[1], system.now() + 1500 * kMillisecond);
      for (int worker = 0; worker < 3; ++worker)
        if (!star.await_end(system, worker)) return std::string("it does not end");
      return star.heard[0] + star.heard[1] + star.heard[2];
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.result == "");
  }
}

TEST_CASE("a descriptor that is used after its end, or left open, is a failure", "[simulation]") {
  CHECK_THAT(simulate(1,
                      [](System&, Network&) {
                        const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
                        ::close(socket);
                        ::close(socket);
                        return std::string();
                      })
                 .failure,
             ContainsSubstring("a closed descriptor is used"));
  CHECK_THAT(simulate(1,
                      [](System& system, Network&) {
                        await_end(system,
                                  start_process(system, "10.0.0.1",
                                                [] { static_cast<void>(::socket(AF_INET, SOCK_STREAM, 0)); }),
                                  kSecond);
                        return std::string();
                      })
                 .failure,
             ContainsSubstring("has left 1 descriptors open"));
}
