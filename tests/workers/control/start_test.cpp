// How workers find each other.
#include "workers/control/start.hpp"

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <poll.h>
#include <sys/socket.h>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "support/matchers.hpp"
#include "support/scoped_log_sink.hpp"
#include "workers/control/control_fixture.hpp"
#include "workers/control/socket.hpp"
#include "workers/control/stranger.hpp"

using namespace lockstep;
using namespace lockstep::detail::control;
using namespace std::chrono_literals;
using test::ControlWorker;
using test::frame;
using test::message_of;
using test::says;
using test::Stranger;

namespace {

/// What the log has said.
class Log {
 public:
  void add(std::string_view message) {
    const std::lock_guard lock(mutex_);
    text_ += std::string(message) + "\n";
    changed_.notify_all();
  }
  /// False: it has not said so for half a minute.
  bool wait_for(std::string_view part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 30s, [&] { return text_.find(part) != std::string::npos; });
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

detail::ControlOptions options_of(int worker, std::vector<std::string> addresses) {
  return {.worker = worker, .addresses = std::move(addresses), .start_limit = 60s};
}

}  // namespace

TEST_CASE("workers start in any order", "[workers][host]") {
  const std::vector<int> order =
      GENERATE(std::vector<int>{0, 1, 2}, std::vector<int>{2, 1, 0}, std::vector<int>{1, 0, 2});
  const auto addresses = test::free_addresses(3);
  Log log;
  const test::ScopedLogSink sink([&](std::string_view message) { log.add(message); });
  std::vector<std::thread> threads;
  std::vector<std::string> all;
  std::mutex mutex;
  for (const int worker : order) {
    threads.emplace_back([&, worker] {
      auto options = options_of(worker, addresses);
      options.log_interval = 10ms;
      ControlWorker it(options);
      const auto gathered = it.connection->all_gather("all", std::to_string(worker), test::in(30s));
      const std::lock_guard lock(mutex);
      all.insert(all.end(), gathered.begin(), gathered.end());
    });
    // The next one starts when this one waits.
    const std::string waits = worker == 0 ? "worker 2 (" + addresses[2] + ") did not come so far"
                                          : "worker 0 (" + addresses[0] + ") could not be reached";
    if (worker == order.front()) CHECK(log.wait_for(waits));
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(all == std::vector<std::string>{"0", "1", "2", "0", "1", "2", "0", "1", "2"});
  CHECK(log.text().find("The start of the workers has waited for 0 s: ") == 0);
}

TEST_CASE("the leader's time limit names who has not come, on all workers", "[workers][host]") {
  const auto addresses = test::free_addresses(4);
  Log log;
  const test::ScopedLogSink sink([&](std::string_view message) { log.add(message); });
  const auto thrown = test::on_threads(2, [&](int worker) {
    auto options = options_of(worker, addresses);
    if (worker == 0) options.start_limit = 500ms;
    options.log_interval = 20ms;
    const ControlWorker it(options);
  });
  const std::string message = message_of<CollectiveTimeout>(thrown[0]);
  CHECK(message == "The start of the workers: within 0.5 s worker 2 (" + addresses[2] + ") and worker 3 (" +
                       addresses[3] + ") did not come. Start all workers, look at the output of those, and " +
                       "check that they can reach worker 0's address.");
  CHECK(message_of<CollectiveTimeout>(thrown[1]) == message);
  CHECK(log.text().find("worker 2 (" + addresses[2] + ") and worker 3") != std::string::npos);
}

TEST_CASE("another worker's time limit names who has not come", "[workers][host]") {
  const auto addresses = test::free_addresses(3);
  const auto thrown = test::on_threads(2, [&](int worker) {
    auto options = options_of(worker, addresses);
    options.silence_limit = 1s;
    options.start_limit = worker == 0 ? 1500ms : 500ms;
    const ControlWorker it(options);
  });
  CHECK(message_of<CollectiveTimeout>(thrown[1]).find("within 0.5 s worker 2 (" + addresses[2] +
                                                      ") did not come") != std::string::npos);
  // Worker 1 has gone again.
  CHECK(message_of<CollectiveTimeout>(thrown[0]).find("within 1.5 s worker 1 (" + addresses[1] +
                                                      ") and worker 2 (" + addresses[2] + ") did not come") !=
        std::string::npos);
}

TEST_CASE("a leader that cannot be reached is named, with the reason", "[workers][host]") {
  const auto addresses = test::free_addresses(2);
  auto options = options_of(1, addresses);
  options.start_limit = 100ms;
  const auto begin = test::Clock::now();
  CHECK_THROWS_MATCHES(
      ControlWorker(options), CollectiveTimeout,
      says("within 0.1 s worker 0 (" + addresses[0] + ") could not be reached (Connection refused)",
           "check that they can reach worker 0's address"));
  CHECK(test::Clock::now() - begin >= 100ms);
  options.addresses[0] = "no-such-host.invalid:2222";
  CHECK_THROWS_MATCHES(ControlWorker(options), CollectiveTimeout,
                       says("worker 0 (no-such-host.invalid:2222) could not be reached ("));
}

TEST_CASE("a leader that does not answer is named", "[workers][host]") {
  const ListeningSocket deaf("127.0.0.1:0");
  auto options = options_of(1, {detail::concat("127.0.0.1:", deaf.port()), ""});
  options.start_limit = 100ms;
  CHECK_THROWS_MATCHES(ControlWorker(options), CollectiveTimeout, says("worker 0 (", ") did not answer"));
}

TEST_CASE("what listens at the leader's address and is none is named", "[workers][host]") {
  const ListeningSocket listening("127.0.0.1:0");
  auto options = options_of(1, {detail::concat("127.0.0.1:", listening.port()), ""});
  options.start_limit = 300ms;
  std::atomic<bool> ends = false;
  std::thread other([&] {
    std::vector<ListeningSocket::Accepted> all;
    while (!ends) {
      pollfd watched{listening.get(), POLLIN, 0};
      ::poll(&watched, 1, 10);
      if (auto accepted = listening.accept()) {
        static_cast<void>(::send(accepted->socket.get(), "SSH-2.0\r\n", 9, MSG_NOSIGNAL));
        all.push_back(std::move(*accepted));
      }
    }
  });
  CHECK_THROWS_MATCHES(ControlWorker(options), CollectiveTimeout,
                       says("could not be reached (what listens there does not speak lockstep's "
                            "protocol, or has another token)"));
  ends = true;
  other.join();
}

TEST_CASE("two processes with one index are refused, by one text on all", "[workers][host]") {
  const auto addresses = test::free_addresses(3);
  const auto thrown = test::on_threads(3, [&](int process) {
    auto options = options_of(process == 0 ? 0 : 1, addresses);
    options.host = "a host";
    const ControlWorker it(options);
  });
  const std::string message = message_of<InvalidArgument>(thrown[0]);
  CHECK(message.find("The start of the workers: two processes are worker 1: process ") == 0);
  CHECK(message.find(" of 'a host' and process ") != std::string::npos);
  CHECK(message.find("Give each process an index of its own.") != std::string::npos);
  CHECK(message_of<InvalidArgument>(thrown[1]) == message);
  CHECK(message_of<InvalidArgument>(thrown[2]) == message);
}

TEST_CASE("workers that count differently are refused", "[workers][host]") {
  const auto addresses = test::free_addresses(3);
  const auto thrown = test::on_threads(2, [&](int worker) {
    auto own = addresses;
    if (worker == 0) own.resize(2);
    const ControlWorker it(options_of(worker, own));
  });
  const std::string message = message_of<InvalidArgument>(thrown[0]);
  CHECK(message == "The start of the workers: worker 1 (" + addresses[1] +
                       ") counts 3 workers, but worker 0 (" + addresses[0] +
                       ") counts 2. Give all workers the same cluster.");
  CHECK(message_of<InvalidArgument>(thrown[1]) == message);
}

TEST_CASE("those that are left turn away who counts others, and start", "[workers][host]") {
  const auto addresses = test::free_addresses(2);
  test::rethrow_first(test::on_threads(2, [&](int worker) {
    auto options = options_of(worker, addresses);
    options.is_outdated = [] { return false; };
    if (worker == 1) {
      auto earlier = options;  // as long as it does not know who else is lost
      earlier.addresses.push_back("");
      earlier.start_limit = 300ms;
      try {
        const ControlWorker it(earlier);
        throw Error("it has started");
      } catch (const CollectiveTimeout&) {
      }
    }
    ControlWorker it(options);
    it.connection->barrier("all", test::in(30s));
  }));
}

TEST_CASE("a start in which one more is known to be lost ends", "[workers][host]") {
  const int worker = GENERATE(0, 1);
  const auto addresses = test::free_addresses(2);
  const auto begin = test::Clock::now();
  auto options = options_of(worker, addresses);
  options.start_limit = 0ms;
  options.is_outdated = [&] { return test::Clock::now() - begin > 100ms; };
  CHECK_THROWS_MATCHES(ControlWorker(options), PeerLost,
                       says("The start of the workers: another worker is lost; worker ",
                            addresses[static_cast<std::size_t>(1 - worker)]));
  CHECK(test::Clock::now() - begin < 10s);
}

TEST_CASE("workers of different versions are refused, also of the protocol", "[workers][host]") {
  const bool is_other_protocol = GENERATE(false, true);
  const auto addresses = test::free_addresses(2);
  std::string answer;
  const auto thrown = test::on_threads(2, [&](int worker) {
    if (worker == 0) {
      const ControlWorker it(options_of(0, addresses));
    } else {
      std::string hello = frame(Hello{.version = "9.8.7",
                                      .worker = 1,
                                      .num_workers = 2,
                                      .incarnation = 1,
                                      .pid = 1,
                                      .address = addresses[1],
                                      .host = "h"});
      if (is_other_protocol) hello[4] = 77;
      const Stranger stranger(addresses[0]);
      stranger.join("", hello);
      answer = stranger.read();
      CHECK(std::holds_alternative<Welcome>(*test::take_message(answer)));
    }
  });
  const std::string message = message_of<InvalidArgument>(thrown[0]);
  CHECK(message.find(is_other_protocol ? ": a process (127.0.0.1) has" : ": worker 1 (" + addresses[1]) !=
        std::string::npos);
  CHECK(message.find("has lockstep '9.8.7', but worker 0 (" + addresses[0] + ") has '") != std::string::npos);
  CHECK(message.find("Install one version on all workers.") != std::string::npos);
  const auto decoded = decode(answer);
  REQUIRE(decoded);
  CHECK(std::get<Refused>(decoded->message).text == message);
}

TEST_CASE("a worker throws what the leader refuses it with", "[workers][host]") {
  const ListeningSocket leader("127.0.0.1:0");
  std::thread refuses([&] {
    for (;;) {
      pollfd watched{leader.get(), POLLIN, 0};
      ::poll(&watched, 1, 30'000);
      const auto accepted = leader.accept();
      if (!accepted) continue;
      const std::string bytes = frame(Challenge{std::string(16, 'n')}) +
                                frame(Refused{ErrorKind::context, "The start of the workers: no."});
      static_cast<void>(::send(accepted->socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
      static_cast<void>(::shutdown(accepted->socket.get(), SHUT_WR));
      char hello[4096];
      pollfd readable{accepted->socket.get(), POLLIN, 0};
      while (::poll(&readable, 1, 30'000) == 1 && ::recv(readable.fd, hello, sizeof hello, 0) > 0) continue;
      return;
    }
  });
  CHECK_THROWS_MATCHES(ControlWorker(options_of(1, {detail::concat("127.0.0.1:", leader.port()), ""})),
                       ContextError, says("The start of the workers: no."));
  refuses.join();
}

TEST_CASE("who comes after the start is refused, and the others go on", "[workers][host]") {
  const auto addresses = test::free_addresses(2);
  std::string message;
  test::rethrow_first(test::on_threads(2, [&](int worker) {
    ControlWorker it(options_of(worker, addresses));
    if (worker == 1) {
      try {
        const ControlWorker again(options_of(1, addresses));
      } catch (const ContextError& error) {
        message = error.what();
      }
    }
    it.connection->barrier("the end", test::in(30s));
  }));
  CHECK(message.find("worker 1 (" + addresses[1] + ") comes after the workers have started") !=
        std::string::npos);
}

TEST_CASE("a worker that goes away before the start may come again", "[workers][host]") {
  const auto addresses = test::free_addresses(3);
  std::promise<void> has_gone;
  test::rethrow_first(test::on_threads(3, [&](int worker) {
    auto options = options_of(worker, addresses);
    if (worker == 1) {
      // Until the leader has accepted it once: then it knows that worker 2 alone is missing.
      auto hasty = options;
      hasty.start_limit = 50ms;
      for (std::string message; message.find("within 0.05 s worker 2 (") == message.npos;) try {
          const ControlWorker early(hasty);
        } catch (const CollectiveTimeout& error) {
          message = error.what();
        }
      has_gone.set_value();
    } else if (worker == 2) {
      has_gone.get_future().wait();
    }
    const ControlWorker it(options);
  }));
}

TEST_CASE("a port in use is named, with what to do", "[workers][host]") {
  const ListeningSocket other("127.0.0.1:0");
  const std::string address = detail::concat("127.0.0.1:", other.port());
  CHECK_THROWS_MATCHES(ControlWorker(options_of(0, {address, ""})), Error,
                       says("Worker 0 cannot listen on '" + address + "': Address already in use",
                            "End the program that listens there, or choose another port."));
}

TEST_CASE("one address serves one cluster after the other", "[workers][host]") {
  const auto addresses = test::free_addresses(2);
  for (int round = 0; round < 5; ++round)
    test::rethrow_first(test::on_threads(2, [&](int worker) {
      ControlWorker it(options_of(worker, addresses));
      const auto all = it.connection->all_gather("round", std::to_string(round), test::in(30s));
      if (all != std::vector<std::string>(2, std::to_string(round))) throw Error("another round's text");
    }));
}

TEST_CASE("a worker that starts anew waits until the leader does", "[workers][host]") {
  const auto addresses = test::free_addresses(2);
  Log log;
  const test::ScopedLogSink sink([&](std::string_view message) { log.add(message); });
  test::rethrow_first(test::on_threads(2, [&](int worker) {
    auto options = options_of(worker, addresses);
    options.log_interval = 10ms;
    std::optional<ControlWorker> it(std::in_place, options);
    const auto expect = [](bool condition) {
      if (!condition) throw Error("the log or the listener has not said so");
    };
    if (worker == 0) {
      expect(it->heard.wait(1) == std::vector<std::string>{"left 1"});
      expect(log.wait_for("could not be reached (it closed the connection)"));
      expect(log.text().find("worker 0 (" + addresses[0] + ") ") != std::string::npos);
    }
    it.reset();
    it.emplace(options);
    it->connection->barrier("again", test::in(30s));
  }));
}

TEST_CASE("workers meet over IPv6", "[workers][host]") {
  std::string address;
  try {
    address = detail::concat("[::1]:", ListeningSocket("[::1]:0").port());
  } catch (const Error&) {
    SKIP("this machine has no IPv6");
  }
  test::rethrow_first(test::on_threads(2, [&](int worker) {
    ControlWorker it(options_of(worker, {address, ""}));
    it.connection->barrier("all", test::in(30s));
    if (it.connection->label(1) != "worker 1 (::1)") throw Error(it.connection->label(1));
  }));
}

TEST_CASE("the longest limit is one", "[workers][host]") {
  const auto addresses = test::free_addresses(2);
  test::rethrow_first(test::on_threads(2, [&](int worker) {
    if (worker == 0) std::this_thread::sleep_for(100ms);
    auto options = options_of(worker, addresses);
    options.start_limit = std::chrono::milliseconds::max();
    const ControlWorker it(options);
  }));
}

TEST_CASE("options out of range are refused", "[workers][host]") {
  const auto refuses = [](const detail::ControlOptions& options, const std::string& message) {
    CHECK_THROWS_MATCHES(ControlWorker(options), InvalidArgument,
                         says("The start of the workers: " + message));
  };
  refuses(options_of(2, {"127.0.0.1:1", ""}), "this process is worker 2 of 2. Give it an index");
  refuses(options_of(-1, {"127.0.0.1:1", ""}), "this process is worker -1 of 2");
  refuses(options_of(0, {}), "this process is worker 0 of 0");
  refuses(options_of(1, {"", "127.0.0.1:1"}), "nobody knows the address of worker 0");
  auto options = options_of(0, {"127.0.0.1:1", ""});
  options.silence_limit = 199ms;
  refuses(options, "a worker would be lost after 199 ms of silence. Give it at least 200 ms.");
  options = options_of(0, {"127.0.0.1:1", ""});
  options.start_limit = -1ms;
  refuses(options, "a limit of -1 ms is negative. Give one from 1 ms on, or 0 for none.");
}
