// The workers are threads of one process: what becomes of processes is in control_processes_test.cpp.
#include "workers/control/control_connection.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "support/child_process.hpp"
#include "support/matchers.hpp"
#include "workers/control/control_fixture.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using test::Clock;
using test::ControlWorker;
using test::on_workers;
using test::says;

TEST_CASE("workers share values that any of them sets", "[workers][host]") {
  on_workers(3, [](int worker, ControlWorker& it) {
    it.connection->set(detail::concat("key ", worker), detail::concat("value ", worker));
    for (int other = 0; other < 3; ++other) {
      const std::string value = it.connection->get(detail::concat("key ", other), test::in(30s));
      if (value != detail::concat("value ", other)) throw Error("another value: " + value);
    }
    it.connection->barrier("the end", test::in(30s));
  });
}

TEST_CASE("get waits until a worker sets the key, and sees what was set last", "[workers][host]") {
  const int setter = GENERATE(0, 2);
  on_workers(3, [&](int worker, ControlWorker& it) {
    if (worker == setter) {
      // The others wait, or will: their calls have been made when they have been heard of.
      for (int other = 0; other < 3; ++other)
        if (other != setter) static_cast<void>(it.connection->get(detail::concat("asks ", other), {}));
      it.connection->set("late", "first");
      it.connection->set("late", "last");
      it.connection->barrier("all have it", test::in(30s));
    } else {
      std::thread asks([&] { it.connection->set(detail::concat("asks ", worker), ""); });
      const std::string value = it.connection->get("late", test::in(30s));
      asks.join();
      if (value != "first" && value != "last") throw Error("another value: " + value);
      it.connection->barrier("all have it", test::in(30s));
      if (it.connection->get("late", test::in(30s)) != "last") throw Error("an old value");
    }
    it.connection->barrier("the end", test::in(30s));
  });
}

TEST_CASE("all_gather gives every worker's text, a hundred times", "[workers][host]") {
  on_workers(4, [](int worker, ControlWorker& it) {
    for (int round = 0; round < 100; ++round) {
      const auto all =
          it.connection->all_gather("rounds", detail::concat(worker, " in ", round), test::in(30s));
      for (int other = 0; other < 4; ++other)
        if (all.at(static_cast<std::size_t>(other)) != detail::concat(other, " in ", round))
          throw Error("another text");
    }
  });
}

TEST_CASE("all_gather takes texts of any bytes, from none to a mebibyte", "[workers][host]") {
  on_workers(3, [](int worker, ControlWorker& it) {
    const auto text_of = [](int of) {
      std::string text(of == 0 ? 0 : std::size_t{1} << 20, static_cast<char>(of));
      if (!text.empty()) text[3] = '\0';
      return text;
    };
    const auto all = it.connection->all_gather("large", text_of(worker), test::in(60s));
    for (int other = 0; other < 3; ++other)
      if (all.at(static_cast<std::size_t>(other)) != text_of(other)) throw Error("another text");
  });
}

TEST_CASE("a text above a mebibyte is refused before it is sent", "[workers][host]") {
  test::Heard heard;
  detail::ControlConnection connection({.addresses = {""}}, heard);
  const std::string large((std::size_t{1} << 20) + 1, 'x');
  const auto refuses = says("a text has 1048577 bytes, and may have 1048576", "Exchange less");
  CHECK_THROWS_MATCHES(connection.set("key", large), InvalidArgument, refuses);
  CHECK_THROWS_MATCHES(connection.all_gather("what", large, {}), InvalidArgument, refuses);
}

TEST_CASE("nobody waits to join at a connection that has failed", "[workers][host]") {
  test::Heard heard;
  detail::ControlConnection connection({.addresses = {""}}, heard);
  bool is_asked = false;
  const auto ask = [&](detail::control::WaitingList&) { is_asked = true; };
  connection.with_waiting_list(ask, false);
  CHECK(is_asked);
  connection.break_off(std::make_exception_ptr(Error("no memory")));
  const std::vector<std::string> events = heard.wait(1);
  REQUIRE(events.size() == 1);
  CHECK(events[0].find("control connection has failed: no memory") != std::string::npos);
  is_asked = false;
  connection.with_waiting_list(ask, true);
  CHECK_FALSE(is_asked);
}

TEST_CASE("a worker alone needs no address", "[workers][host]") {
  test::Heard heard;
  detail::ControlConnection connection({.addresses = {""}}, heard);
  connection.set("key", "value");
  CHECK(connection.get("key", {}) == "value");
  CHECK(connection.all_gather("what", "own", {}) == std::vector<std::string>{"own"});
  CHECK(connection.label(0) == "worker 0");
  CHECK_THROWS_MATCHES(connection.get("other", test::in(20ms)), CollectiveTimeout,
                       says("get of 'other': no worker has set it within"));
}

TEST_CASE("a get that nobody answers ends in time, on the leader and elsewhere", "[workers][host]") {
  on_workers(2, [](int, ControlWorker& it) {
    const auto begin = Clock::now();
    try {
      static_cast<void>(it.connection->get("nobody's", test::in(100ms)));
      throw Error("there is a value");
    } catch (const CollectiveTimeout& error) {
      const std::string message = error.what();
      if (message.find("get of 'nobody's': no worker has set it within ") != 0) throw Error(message);
    }
    if (Clock::now() - begin < 99ms) throw Error("too early");
    it.connection->barrier("the end", test::in(30s));  // the connection is as before
  });
}

TEST_CASE("an all_gather in which a worker is missing ends on all with one text, which names it",
          "[workers][host]") {
  std::vector<std::string> texts(3);
  on_workers(3, [&](int worker, ControlWorker& it) {
    const auto call = [&](std::chrono::milliseconds limit) {
      try {
        static_cast<void>(it.connection->all_gather("parts", "", test::in(limit)));
      } catch (const CollectiveTimeout& error) {
        texts[static_cast<std::size_t>(worker)] = error.what();
      }
    };
    if (worker == 2) static_cast<void>(it.connection->get("they have failed", test::in(30s)));
    call(worker == 0 ? 100ms : 30'000ms);
    if (worker == 0) it.connection->set("they have failed", "");
    it.connection->barrier("the end", test::in(30s));
  });
  CHECK(texts[0].find("all_gather of 'parts': not all workers have come within 100 ms: missing ") == 0);
  CHECK(texts[0].find("worker 2 (127.0.0.1:") != std::string::npos);
  CHECK(texts[0].find("Look at what the workers do") != std::string::npos);
  CHECK(texts[1] == texts[0]);
  CHECK(texts[2] == texts[0]);
}

TEST_CASE("workers that exchange different things are told so", "[workers][host]") {
  std::vector<std::string> texts(2);
  on_workers(2, [&](int worker, ControlWorker& it) {
    try {
      static_cast<void>(it.connection->all_gather(worker == 0 ? "names" : "shapes", "", test::in(30s)));
    } catch (const CollectiveMismatch& error) {
      texts[static_cast<std::size_t>(worker)] = error.what();
    }
    it.connection->barrier("the end", test::in(30s));
  });
  for (const std::string& text : texts) {
    for (const std::string part : {"'names'", "'shapes'", "worker 0 (", "worker 1 (", "in the same order"})
      CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("failures that workers tell themselves too are heard by all, in one order", "[workers][host]") {
  constexpr int kNumEach = 20;
  std::vector<std::vector<std::string>> heard(3);
  on_workers(3, [&](int worker, ControlWorker& it) {
    for (int i = 0; i < kNumEach; ++i)
      it.connection->announce_failure(static_cast<std::uint64_t>(i), detail::concat("text ", i), true);
    heard[static_cast<std::size_t>(worker)] = it.heard.wait(3 * kNumEach);
    it.connection->barrier("the end", test::in(30s));
  });
  CHECK(heard[0].size() == 3 * kNumEach);
  CHECK(heard[1] == heard[0]);
  CHECK(heard[2] == heard[0]);
}

TEST_CASE("failures are heard by all others, in one order", "[workers][host]") {
  constexpr int kNumEach = 50;
  std::vector<std::vector<std::string>> heard(4);
  on_workers(4, [&](int worker, ControlWorker& it) {
    if (worker < 3)
      for (int i = 0; i < kNumEach; ++i)
        it.connection->announce_failure(static_cast<std::uint64_t>(i), detail::concat("text ", i));
    const bool announces = worker < 3;
    heard[static_cast<std::size_t>(worker)] = it.heard.wait(kNumEach * (announces ? 2 : 3));
    it.connection->barrier("the end", test::in(30s));
    const auto all = it.heard.all();  // some may have left
    if (std::ranges::count_if(all, [](const std::string& event) { return event.starts_with("failure"); }) !=
        kNumEach * (announces ? 2 : 3))
      throw Error("heard more, as its own");
  });
  for (int worker = 0; worker < 3; ++worker) {
    const auto& by_all = heard[3];
    std::vector<std::string> by_others;
    std::ranges::copy_if(by_all, std::back_inserter(by_others), [&](const std::string& event) {
      return event.find(detail::concat("failure of ", worker, " ")) != 0;
    });
    CHECK(heard[static_cast<std::size_t>(worker)] == by_others);
    std::vector<std::string> own, expected;
    std::ranges::copy_if(by_all, std::back_inserter(own), [&](const std::string& event) {
      return event.find(detail::concat("failure of ", worker, " ")) == 0;
    });
    for (int i = 0; i < kNumEach; ++i)
      expected.push_back(detail::concat("failure of ", worker, " in ", i, ": text ", i));
    CHECK(own == expected);
  }
}

TEST_CASE("a worker that leaves is no loss, and who needs it is told", "[workers][host]") {
  const bool is_destroyed = GENERATE(false, true);
  std::string label;
  std::vector<std::string> texts(3);
  on_workers(3, [&](int worker, ControlWorker& it) {
    if (worker == 0) label = it.connection->label(1);
    it.connection->set(detail::concat("of ", worker), "a value");
    it.connection->barrier("begun", test::in(30s));
    if (worker == 1) {
      if (is_destroyed) return it.connection.reset();
      it.connection->leave();
      it.connection->leave();
      try {
        it.connection->set("key", "value");
      } catch (const ContextError& error) {
        texts[1] = error.what();
      }
      return;
    }
    if (it.heard.wait(1) != std::vector<std::string>{"left 1"}) throw Error("heard something else");
    if (it.connection->get("of 1", test::in(30s)) != "a value") throw Error("another value");
    try {
      static_cast<void>(it.connection->all_gather("parts", "", {}));
    } catch (const PeerLost& error) {
      texts[static_cast<std::size_t>(worker)] = error.what();
    }
    try {
      static_cast<void>(it.connection->get("never set", {}));
      throw Error("there is a value");
    } catch (const PeerLost&) {
    }
    if (worker == 0 && it.heard.wait(2) != std::vector<std::string>{"left 1", "left 2"})
      throw Error("the leader has not heard all");
  });
  CHECK(texts[0] == "all_gather of 'parts': " + label +
                        " has left. Make a new strategy of the workers that are left, or end the program.");
  CHECK(texts[2] == texts[0]);
  if (!is_destroyed) CHECK(texts[1] == "set of 'key': this worker has left. Make a new strategy.");
}

TEST_CASE("a worker that leaves ends those of its calls that wait", "[workers][host]") {
  const int leaver = GENERATE(0, 1);
  on_workers(2, [&](int worker, ControlWorker& it) {
    if (worker == leaver) {
      std::atomic<bool> was_refused = false;
      std::thread waits([&] {
        try {
          static_cast<void>(it.connection->get("never set", {}));
        } catch (const ContextError&) {
          was_refused = true;
        }
      });
      it.connection->leave();
      waits.join();
      if (!was_refused) throw Error("the call was not refused");
    } else if (it.heard.wait(1) != std::vector<std::string>{detail::concat("left ", leaver)}) {
      throw Error("heard something else");
    }
  });
}

TEST_CASE("after the leader has left, calls say so", "[workers][host]") {
  std::string text;
  on_workers(2, [&](int worker, ControlWorker& it) {
    if (worker == 0) return it.connection->leave();
    if (it.heard.wait(1) != std::vector<std::string>{"left 0"}) throw Error("heard something else");
    try {
      it.connection->set("key", "value");
    } catch (const PeerLost& error) {
      text = error.what();
    }
    it.connection->announce_failure(1, "nobody hears it");
  });
  CHECK(text.find("set of 'key': worker 0 (127.0.0.1:") == 0);
  CHECK(text.find(") has left. ") != std::string::npos);
}

TEST_CASE("labels and hosts are the same on all workers", "[workers][host]") {
  detail::ControlOptions options;
  options.addresses = test::free_addresses(1);
  options.addresses.resize(3);  // as torchrun tells them: only the leader's is known
  test::rethrow_first(test::on_threads(3, [&](int worker) {
    auto own = options;
    own.worker = worker;
    own.host = worker == 1 ? "b" : "a";
    const ControlWorker it(own);
    const auto expect = [](bool condition) {
      if (!condition) throw Error("another label or host");
    };
    expect(it.connection->num_workers() == 3 && it.connection->worker() == worker);
    expect(it.connection->label(0) == "worker 0 (" + options.addresses[0] + ")");
    expect(it.connection->label(2) == "worker 2 (127.0.0.1)");
    expect(it.connection->host(0) == 0 && it.connection->host(1) == 1 && it.connection->host(2) == 0);
  }));
}

namespace {

/// Calls the connection from where it must not.
class Caller final : public detail::ControlListener {
 public:
  void on_failure(int, std::uint64_t, std::string) override {
    try {
      static_cast<void>(connection.load()->get("key", {}));
    } catch (const ContextError& error) {
      connection.load()->set("said", error.what());
    }
    connection.load()->announce_failure(2, "an answer");
    connection.load()->leave();
  }
  void on_lost(int, std::string) override {}
  void on_left(int) override {}

  std::atomic<detail::ControlConnection*> connection = nullptr;
};

}  // namespace

TEST_CASE("a listener may announce, set and leave, and a wait in it is refused", "[workers][host]") {
  const auto addresses = test::free_addresses(2);
  std::string said;
  std::vector<std::string> heard;
  test::rethrow_first(test::on_threads(2, [&](int worker) {
    if (worker == 1) {
      Caller caller;
      detail::ControlConnection connection({.worker = 1, .addresses = addresses}, caller);
      caller.connection = &connection;
      connection.set("listens", "");
      try {
        static_cast<void>(connection.get("never set", {}));
      } catch (const ContextError&) {  // its listener has left
      }
    } else {
      ControlWorker it({.addresses = addresses});
      static_cast<void>(it.connection->get("listens", {}));
      it.connection->announce_failure(1, "a failure");
      said = it.connection->get("said", test::in(30s));
      heard = it.heard.wait(2);
    }
  }));
  CHECK(said.find("get of 'key': a listener of the control connection would wait for itself") == 0);
  CHECK(heard == std::vector<std::string>{"failure of 1 in 2: an answer", "left 1"});
}

TEST_CASE("a fork has no connection, and leaves that of its parent alone", "[workers][host]") {
  std::vector<int> statuses(3);
  on_workers(2, [&](int worker, ControlWorker& it) {
    if (worker == 1) {
      const auto refuses = [&](const auto& call) {
        return test::in_child([&] {
          try {
            call();
          } catch (const ContextError& error) {
            return std::string(error.what()).find("this process is a fork") != std::string::npos ? 3 : 4;
          }
          return 5;
        });
      };
      statuses[0] = refuses([&] { static_cast<void>(it.connection->get("key", {})); });
      statuses[1] = refuses([&] { it.connection->announce_failure(1, "text"); });
      statuses[2] = test::in_child([&] {
        it.connection->leave();
        it.connection.reset();
        return 3;
      });
    }
    it.connection->barrier("the end", test::in(60s));
  });
  CHECK(statuses == std::vector<int>(3, 3));
}
