#include "workers/control/hub.hpp"

#include <string>
#include <variant>
#include <vector>

#include <catch2/catch_test_macros.hpp>

using namespace lockstep::detail::control;
using namespace std::chrono_literals;

namespace {

Hello hello(int worker, int num_workers, std::uint64_t incarnation = 1) {
  return {.version = "1",
          .worker = worker,
          .num_workers = num_workers,
          .incarnation = incarnation,
          .pid = 10 + worker,
          .host = "h"};
}

/// What is to go to a worker, of that kind.
template <class M>
std::vector<M> sent(const std::vector<Hub::Outgoing>& outgoing, int worker) {
  std::vector<M> messages;
  for (const auto& one : outgoing)
    if (one.worker == worker && std::holds_alternative<M>(one.message))
      messages.push_back(std::get<M>(one.message));
  return messages;
}

Hub started(int num_workers) {
  Hub hub(hello(0, num_workers), std::vector<std::string>(static_cast<std::size_t>(num_workers)), 5s);
  for (int worker = 1; worker < num_workers; ++worker)
    REQUIRE(!hub.join(hello(worker, num_workers), "10.0.0." + std::to_string(worker)));
  REQUIRE(hub.has_started());
  static_cast<void>(hub.take_outgoing());
  return hub;
}

const Hub::Time kBegin{};

}  // namespace

TEST_CASE("the hub starts when all have come, and tells all of all", "[workers][host]") {
  Hub hub(hello(0, 3), {"a:1", "", "c:1"}, 5s);
  CHECK(hub.missing() == "worker 1 and worker 2 (c:1)");
  CHECK(!hub.join(hello(2, 3), "10.0.0.2"));
  CHECK(hub.missing() == "worker 1");
  CHECK(std::get<Waiting>(hub.heartbeat()).missing == "worker 1");
  CHECK(std::get<Waiting>(hub.heartbeat()).silence_ms == 5000);
  CHECK(!hub.has_started());
  CHECK(!hub.join(hello(1, 3), "10.0.0.1"));
  CHECK(hub.has_started());
  const auto outgoing = hub.take_outgoing();
  for (int worker = 0; worker < 3; ++worker) {
    const auto started = sent<Started>(outgoing, worker);
    REQUIRE(started.size() == 1);
    CHECK(started[0].labels ==
          std::vector<std::string>{"worker 0 (a:1)", "worker 1 (10.0.0.1)", "worker 2 (c:1)"});
  }
  CHECK(std::holds_alternative<Heartbeat>(hub.heartbeat()));
}

TEST_CASE("many missing workers are counted", "[workers][host]") {
  const Hub hub(hello(0, 100), std::vector<std::string>(100), 5s);
  CHECK(hub.missing() ==
        "worker 1, worker 2, worker 3, worker 4, worker 5, worker 6, worker 7, worker 8 and 91 others");
  const Hub few(hello(0, 10), std::vector<std::string>(10), 5s);
  CHECK(few.missing().find("worker 8 and worker 9") != std::string::npos);
}

TEST_CASE("the same connection may say hello again, another one may not", "[workers][host]") {
  Hub hub(hello(0, 3), std::vector<std::string>(3), 5s);
  CHECK(!hub.join(hello(1, 3, 7), "x"));
  CHECK(!hub.join(hello(1, 3, 7), "x"));
  const auto refused = hub.join(hello(1, 3, 8), "x");
  REQUIRE(refused);
  CHECK(refused->kind == ErrorKind::invalid_argument);
  for (int worker = 0; worker < 2; ++worker)
    CHECK(sent<Refused>(hub.take_outgoing(), 1 - worker).size() == 1 - static_cast<std::size_t>(worker));
  CHECK(!hub.join(hello(2, 3), "x"));
  CHECK(!hub.has_started());  // never, once it has failed
}

TEST_CASE("an index that is none is refused", "[workers][host]") {
  for (const int worker : {-1, 2, 1 << 30}) {
    Hub hub(hello(0, 2), std::vector<std::string>(2), 5s);
    const auto refused = hub.join(hello(worker, 2), "x");
    REQUIRE(refused);
    CHECK(refused->text.find(worker < 0 ? "a process (x) is none of the 2 workers"
                                        : "(x) is none of the 2 workers") != std::string::npos);
  }
  Hub hub(hello(0, 2), std::vector<std::string>(2), 5s);
  CHECK(hub.join(hello(0, 2, 5), "x")->text.find("two processes are worker 0") != std::string::npos);
}

TEST_CASE("before the start nothing but heartbeats is taken", "[workers][host]") {
  Hub hub(hello(0, 3), std::vector<std::string>(3), 5s);
  CHECK(!hub.join(hello(1, 3), "x"));
  hub.receive(1, Heartbeat{}, kBegin);
  CHECK_THROWS_AS(hub.receive(1, Set{"key", "value"}, kBegin), WireError);
  CHECK_THROWS_AS(hub.receive(1, Lost{0, "cause"}, kBegin), WireError);
  hub.receive(1, Left{1}, kBegin);
  CHECK(!hub.is_here(1));
}

TEST_CASE("messages that only a leader sends are refused", "[workers][host]") {
  Hub hub = started(2);
  for (const Message& message : {Message(Hello{}), Message(Waiting{}), Message(Refused{}), Message(Started{}),
                                 Message(Value{}), Message(Gathered{}), Message(Failed{})})
    CHECK_THROWS_AS(hub.receive(1, message, kBegin), WireError);
  hub.receive(1, Gather{.call = 1}, kBegin);
  CHECK_THROWS_AS(hub.receive(1, Gather{.call = 2}, kBegin), WireError);
}

TEST_CASE("time limits end when they are due, and not before", "[workers][host]") {
  Hub hub = started(3);
  CHECK(hub.next_deadline() == Hub::Time::max());
  hub.receive(1, Get{1, kNoLimit, "a"}, kBegin);
  CHECK(hub.next_deadline() == Hub::Time::max());
  hub.receive(1, Get{2, 300, "b"}, kBegin);
  hub.receive(2, Gather{5, 0, 0, 200, "what", "own"}, kBegin);
  CHECK(hub.next_deadline() == kBegin + 200ms);
  hub.expire(kBegin + 199ms);
  CHECK(hub.take_outgoing().empty());
  hub.expire(kBegin + 200ms);
  const auto failed = sent<Failed>(hub.take_outgoing(), 2);
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].call == 5);
  CHECK(failed[0].kind == ErrorKind::timeout);
  CHECK(hub.next_deadline() == kBegin + 300ms);
  hub.expire(kBegin + 1h);
  CHECK(sent<Failed>(hub.take_outgoing(), 1).at(0).call == 2);
  // Who comes late fails at once, with the same text.
  hub.receive(1, Gather{6, 0, 0, kNoLimit, "what", "own"}, kBegin);
  CHECK(sent<Failed>(hub.take_outgoing(), 1).at(0).text == failed[0].text);
  CHECK(hub.next_deadline() == Hub::Time::max());
}

TEST_CASE("an all_gather ends that would be more than a frame can have", "[workers][host]") {
  const int num_workers = 40;
  Hub hub = started(num_workers);
  const std::string own(kMaxTextBytes, 'x');
  for (int worker = 0; worker < num_workers; ++worker)
    hub.receive(worker, Gather{1, 0, 0, kNoLimit, "what", own}, kBegin);
  const auto outgoing = hub.take_outgoing();
  for (const int worker : {0, 39}) {
    const auto failed = sent<Failed>(outgoing, worker);
    REQUIRE(failed.size() == 1);
    CHECK(failed[0].kind == ErrorKind::invalid_argument);
    CHECK(failed[0].text.find("the texts have ") == 0);
  }
}

TEST_CASE("a loss is told to all, the lost worker too, once", "[workers][host]") {
  Hub hub = started(3);
  hub.lose(1, "it was silent for 5 s");
  hub.lose(1, "its connection was closed");
  const auto outgoing = hub.take_outgoing();
  for (int worker = 0; worker < 3; ++worker) {
    const auto lost = sent<Lost>(outgoing, worker);
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].worker == 1);
    CHECK(lost[0].cause == "worker 1 (10.0.0.1) was lost: it was silent for 5 s");
  }
  hub.leave(2);
  hub.lose(2, "its connection was closed");
  CHECK(sent<Lost>(hub.take_outgoing(), 0).empty());
}

TEST_CASE("a leader that a worker has taken for lost tells so to all", "[workers][host]") {
  Hub hub = started(3);
  hub.receive(2, Lost{0, "worker 0 was lost: it was silent for 5 s"}, kBegin);
  const auto outgoing = hub.take_outgoing();
  for (int worker = 0; worker < 3; ++worker)
    CHECK(sent<Lost>(outgoing, worker).at(0).cause == "worker 0 was lost: it was silent for 5 s");
}

TEST_CASE("a worker that ends in a call tells so to all", "[workers][host]") {
  Hub hub = started(3);
  hub.receive(2, Lost{2, "worker 2 was lost: it has ended in a call"}, kBegin);
  const auto outgoing = hub.take_outgoing();
  for (int worker = 0; worker < 2; ++worker) {
    const auto lost = sent<Lost>(outgoing, worker);
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].worker == 2);
    CHECK(lost[0].cause == "worker 2 was lost: it has ended in a call");
  }
  CHECK(hub.has_lost());
}

TEST_CASE("those who have come start without the others", "[workers][host]") {
  Hub hub(hello(0, 3), {"a:1", "b:1", "c:1"}, 5s);
  CHECK(!hub.join(hello(2, 3), "10.0.0.2"));
  static_cast<void>(hub.take_outgoing());
  hub.start_without_missing("it did not come within 60 s");
  CHECK(hub.has_started());
  CHECK(hub.has_lost());
  const auto outgoing = hub.take_outgoing();
  for (const int worker : {0, 2}) {
    CHECK(sent<Started>(outgoing, worker).size() == 1);
    REQUIRE(sent<Lost>(outgoing, worker).size() == 1);
    CHECK(sent<Lost>(outgoing, worker)[0].worker == 1);
    CHECK(sent<Lost>(outgoing, worker)[0].cause == "worker 1 (b:1) was lost: it did not come within 60 s");
  }
  CHECK(sent<Started>(outgoing, 1).empty());
}

TEST_CASE("a worker speaks of no other worker's end but the leader's", "[workers][host]") {
  Hub hub = started(3);
  CHECK_THROWS_AS(hub.receive(2, Lost{1, "worker was lost"}, kBegin), WireError);
  CHECK_FALSE(hub.has_lost());
}

TEST_CASE("an all_gather to which the leaver has come still ends well", "[workers][host]") {
  Hub hub = started(3);
  hub.receive(1, Gather{1, 0, 0, kNoLimit, "what", "1"}, kBegin);
  hub.receive(1, Left{1}, kBegin);
  hub.receive(0, Gather{1, 0, 0, kNoLimit, "what", "0"}, kBegin);
  hub.receive(2, Gather{1, 0, 0, kNoLimit, "what", "2"}, kBegin);
  CHECK(sent<Gathered>(hub.take_outgoing(), 2).at(0).all == std::vector<std::string>{"0", "1", "2"});
  hub.receive(2, Gather{2, 0, 1, kNoLimit, "what", "2"}, kBegin);
  CHECK(sent<Failed>(hub.take_outgoing(), 2).at(0).text == "worker 1 (10.0.0.1) has left");
}

TEST_CASE("a worker that has ended a stream has the same text in all its further steps", "[workers][host]") {
  Hub hub = started(3);
  hub.receive(0, Gather{1, 7, 0, kNoLimit, "what", "0"}, kBegin);
  hub.receive(1, Gather{1, 7, 0, kNoLimit, "what", "1"}, kBegin);
  hub.receive(2, StreamEnd{7, "the end"}, kBegin);
  const std::vector<std::string> first = {"0", "1", "the end"};
  const auto outgoing = hub.take_outgoing();
  for (const int worker : {0, 1}) CHECK(sent<Gathered>(outgoing, worker).at(0).all == first);
  CHECK(sent<Gathered>(outgoing, 2).empty());

  hub.receive(0, Gather{2, 7, 1, kNoLimit, "what", "0"}, kBegin);
  CHECK(hub.take_outgoing().empty());
  hub.receive(2, Left{2}, kBegin);  // its end stays
  hub.receive(1, Gather{2, 7, 1, kNoLimit, "what", "1"}, kBegin);
  CHECK(sent<Gathered>(hub.take_outgoing(), 0).at(0).all == first);
  hub.receive(0, Gather{3, 7, 2, kNoLimit, "what", "0"}, kBegin);
  hub.receive(1, Gather{3, 8, 0, kNoLimit, "what", "1"}, kBegin);  // a stream that worker 2 has not ended
  CHECK(sent<Failed>(hub.take_outgoing(), 1).at(0).text == "worker 2 (10.0.0.2) has left");
}

TEST_CASE("nothing of a stream follows its end", "[workers][host]") {
  Hub hub = started(2);
  hub.receive(1, StreamEnd{7, "the end"}, kBegin);
  CHECK_THROWS_AS(hub.receive(1, Gather{1, 7, 0, kNoLimit, "what", "1"}, kBegin), WireError);
  CHECK_THROWS_AS(hub.receive(1, StreamEnd{7, "again"}, kBegin), WireError);
}

TEST_CASE("the hub keeps nothing of what is over", "[workers][host]") {
  Hub hub = started(3);
  for (std::uint32_t stream = 1; stream < 4; ++stream) {
    // Worker 1 waits for a step to which the others do not come any more.
    for (int worker = 0; worker < 3; ++worker)
      hub.receive(worker, Gather{1, stream, 0, kNoLimit, "", ""}, kBegin);
    hub.receive(1, Gather{2, stream, 1, kNoLimit, "", ""}, kBegin);
    CHECK(hub.num_kept() == 1);
    for (int worker = 0; worker < 3; ++worker) hub.receive(worker, StreamEnd{stream, "end"}, kBegin);
    CHECK(hub.num_kept() == 0);
    for (const char* const key : {"a/1", "a/2", "b"}) hub.receive(1, Set{key, "value"}, kBegin);
    hub.receive(2, Erase{"a/"}, kBegin);
    CHECK(hub.num_kept() == 1);
    hub.receive(0, Erase{""}, kBegin);
    CHECK(hub.num_kept() == 0);
  }
  hub.receive(1, Gather{3, 0, 0, kNoLimit, "", ""}, kBegin);
  hub.receive(1, StreamEnd{9, "end"}, kBegin);
  hub.receive(2, StreamEnd{9, "end"}, kBegin);
  hub.receive(0, Left{0}, kBegin);
  CHECK(hub.num_kept() == 1);  // the all_gather to which worker 2 may still come
}
