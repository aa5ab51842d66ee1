#include "workers/control/joining/join.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/scoped_log_sink.hpp"
#include "workers/control/joining/waiting_list.hpp"
#include "workers/control/stranger.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using namespace detail::control;
using test::ControlWorker;
using test::message_of;
using test::says;

namespace {

constexpr auto kLog = 30s;

Hello hello(const std::string& address = {}) {
  return hello_of(detail::ControlOptions{.addresses = {address}});
}

/// A leader that has started: alone, or with others.
struct Leader {
  explicit Leader(detail::ControlOptions options = {})
      : address(test::free_addresses(1)[0]), worker([&] {
          options.addresses = {address};
          options.listens_alone = true;
          return options;
        }()) {}

  template <class F>
  auto in_waiting_list(const F& f) {
    decltype(f(std::declval<WaitingList&>())) result{};
    worker.connection->with_waiting_list([&](WaitingList& list) { result = f(list); }, true);
    return result;
  }
  int num_waiting() {
    return in_waiting_list([](WaitingList& list) { return list.num_waiting(); });
  }
  void await(int number) {
    while (num_waiting() != number) std::this_thread::sleep_for(1ms);
  }

  std::string address;
  ControlWorker worker;
};

}  // namespace

TEST_CASE("those who wait are counted, and invited in the order in which they came", "[workers][host]") {
  Leader leader;
  std::vector<std::optional<Invitation>> invitations(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const std::string address = i == 1 ? std::string() : "10.0.0.1:" + std::to_string(i + 1);
      invitations[static_cast<std::size_t>(i)] = wait_to_join(leader.address, hello(address), {}, 0ms, kLog);
    });
    leader.await(i + 1);
  }
  const std::vector<std::string> invited =
      leader.in_waiting_list([](WaitingList& list) { return list.invite(); });
  for (std::thread& thread : threads) thread.join();
  CHECK(invited == std::vector<std::string>{"10.0.0.1:1", "", "10.0.0.1:3"});
  CHECK(leader.num_waiting() == 0);
  for (int i = 0; i < 3; ++i) {
    const Invitation& invitation = *invitations[static_cast<std::size_t>(i)];
    CHECK(invitation.worker == i + 1);
    CHECK(invitation.addresses == std::vector<std::string>{leader.address, "10.0.0.1:1", "", "10.0.0.1:3"});
  }
  const auto has_lost = [&] {
    return leader.in_waiting_list([](WaitingList& list) { return list.has_lost_invited(); });
  };
  CHECK_FALSE(has_lost());
  invitations[1].reset();  // gives up
  while (!has_lost()) std::this_thread::sleep_for(1ms);
}

TEST_CASE("who waits in vain is told why", "[workers][host]") {
  const auto address = test::free_addresses(1)[0];
  CHECK_THROWS_MATCHES(wait_to_join(address, hello(), {}, 200ms, kLog), CollectiveTimeout,
                       says("Joining the workers: within 0.2 s worker 0 (" + address +
                            ") could not be reached (Connection refused). Check that they run, call "
                            "MultiWorkerMirroredStrategy::grow, and can be reached at worker 0's address."));
  Leader leader({.token = "secret"});
  CHECK_THROWS_MATCHES(wait_to_join(leader.address, hello(), "secret", 200ms, kLog), CollectiveTimeout,
                       says("Joining the workers: within 0.2 s worker 0 (" + leader.address +
                            ") and the others did not let this process join."));
  CHECK_THROWS_MATCHES(wait_to_join(leader.address, hello(), "guess", 0ms, kLog), InvalidArgument,
                       says("this process does not have worker 0's token. Set LOCKSTEP_TOKEN"));
  const auto joining = "Joining the workers of worker 0 (" + leader.address + "): ";
  const std::string port = leader.address.substr(leader.address.find(':'));
  for (const std::string& own :
       {leader.address, "localhost" + port, "LocalHost." + port, "[::ffff:127.0.0.1]" + port})
    CHECK_THROWS_MATCHES(wait_to_join(leader.address, hello(own), "secret", 0ms, kLog), InvalidArgument,
                         says("Joining the workers: its own address " + own + " is that of worker 0 (" +
                              leader.address + "). Give it one of its own."));
  CHECK_THROWS_MATCHES(wait_to_join(leader.address, hello("nowhere"), "secret", 0ms, kLog), InvalidArgument,
                       says("The address 'nowhere' is no host and port."));
  CHECK_THROWS_MATCHES(wait_to_join("nowhere", hello(), "secret", 0ms, kLog), InvalidArgument,
                       says("The address 'nowhere' is no host and port."));
  auto old = hello();
  old.version = "0.0.1";
  CHECK_THROWS_MATCHES(wait_to_join(leader.address, old, "secret", 0ms, kLog), InvalidArgument,
                       says(joining + "this process has lockstep '0.0.1', they have '"));
  CHECK(leader.num_waiting() == 0);
}

TEST_CASE("when the leader leaves, those who wait are told so", "[workers][host]") {
  std::optional<Leader> leader(std::in_place);
  const std::string address = leader->address;
  std::string message;
  std::thread waits([&] {
    try {
      static_cast<void>(wait_to_join(address, hello(), {}, 0ms, kLog));
    } catch (const ContextError& error) {
      message = error.what();
    }
  });
  leader->await(1);
  leader.reset();
  waits.join();
  CHECK(message == "Joining the workers of worker 0 (" + address +
                       "): they have ended. Start this process again with those that come next.");
}

TEST_CASE("who is sent away comes again, to whoever leads there", "[workers][host]") {
  Leader leader;
  std::optional<Invitation> first, second;
  std::thread waits([&] {
    first = wait_to_join(leader.address, hello("10.0.0.1:2"), {}, 0ms, kLog);
    first.reset();
    second = wait_to_join(leader.address, hello("10.0.0.1:2"), {}, 0ms, kLog);
  });
  leader.await(1);
  CHECK(leader.in_waiting_list([](WaitingList& list) { return list.invite().size(); }) == 1);
  CHECK(leader.in_waiting_list([](WaitingList& list) { return list.lent_socket() != nullptr; }));
  CHECK(leader.in_waiting_list([](WaitingList& list) { return list.listening_socket() == nullptr; }));
  leader.in_waiting_list([](WaitingList& list) { return list.end_invitation(false), 0; });
  leader.await(1);
  CHECK(leader.in_waiting_list([](WaitingList& list) { return list.invite().size(); }) == 1);
  waits.join();
  CHECK(second->worker == 1);
  leader.in_waiting_list([](WaitingList& list) { return list.end_invitation(true), 0; });
  CHECK(leader.in_waiting_list([](WaitingList& list) { return list.listening_socket() == nullptr; }));
  CHECK(leader.in_waiting_list([](WaitingList& list) { return list.invite().size(); }) == 0);
}

TEST_CASE("after an invitation in vain nobody is counted for a while, which grows up to a minute",
          "[workers][host]") {
  Leader leader;
  std::thread waits([&] {
    for (int i = 0; i < 9; ++i) static_cast<void>(wait_to_join(leader.address, hello(), {}, 0ms, kLog));
  });
  const auto number = [&](WaitingList::Time at) {
    return leader.in_waiting_list([&](WaitingList& list) { return list.num_waiting(at); });
  };
  auto now = std::chrono::steady_clock::now();
  for (const std::chrono::seconds pause : {0s, 1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    CAPTURE(pause.count());
    while (number(now + pause) == 0) std::this_thread::sleep_for(1ms);  // it comes again
    CHECK(number(now + pause) == 1);
    if (pause > 0s) {
      CHECK(number(now + pause - 1ms) == 0);
      CHECK(leader.in_waiting_list(
                [&](WaitingList& list) { return list.invite(now + pause - 1ms).size(); }) == 0);
    }
    CHECK(leader.in_waiting_list([&](WaitingList& list) { return list.invite(now + pause).size(); }) == 1);
    now += pause;
    leader.in_waiting_list([&](WaitingList& list) {
      list.end_invitation(false, now);
      list.end_invitation(false, now);  // nobody is invited any more
      return 0;
    });
  }
  waits.join();
}

TEST_CASE("a process that is started again takes the place of the one that waits at its address",
          "[workers][host]") {
  Leader leader;
  auto first = hello("worker.example.:2");
  first.worker = kJoiner;
  first.num_workers = 0;
  const test::Stranger gone(leader.address);
  gone.join({}, test::frame(first));
  leader.await(1);
  std::optional<Invitation> invitation;
  std::thread waits(
      [&] { invitation = wait_to_join(leader.address, hello("Worker.Example:02"), {}, 30s, kLog); });
  CHECK(gone.answer().find(
            "another process has come with its own address Worker.Example:02, and takes its place") !=
        std::string::npos);
  leader.await(1);
  CHECK(leader.in_waiting_list([](WaitingList& list) { return list.invite(); }) ==
        std::vector<std::string>{"Worker.Example:02"});
  waits.join();
  CHECK(invitation->worker == 1);
}

TEST_CASE("a worker that comes after the start of others is told to join instead", "[workers][host]") {
  Leader leader({.is_outdated = [] { return false; }});  // as where the workers have lost one, or have grown
  const detail::ControlOptions old{
      .worker = 1, .addresses = {leader.address, "127.0.0.1:1"}, .start_limit = 30s};
  CHECK_THROWS_MATCHES(ControlWorker(old), ContextError,
                       says("worker 1 (127.0.0.1:1) comes after the workers have started. Let it join "
                            "instead, by MultiWorkerMirroredStrategy::join"));
}

TEST_CASE("who waits and says nothing, or something else, is dropped, and more than 64 are refused",
          "[workers][host]") {
  Leader leader({.silence_limit = 300ms});
  auto silent = hello();
  silent.worker = kJoiner;
  silent.num_workers = 0;
  const test::Stranger quiet(leader.address);
  quiet.join({}, test::frame(silent));
  leader.await(1);
  leader.await(0);
  const test::Stranger other(leader.address);
  other.join({}, test::frame(silent));
  leader.await(1);
  other.send(test::frame(Set{"key", "value"}));
  leader.await(0);

  Leader patient;
  std::vector<std::unique_ptr<test::Stranger>> many;
  for (int i = 0; i < 64; ++i) {
    many.push_back(std::make_unique<test::Stranger>(patient.address));
    many.back()->join({}, test::frame(silent));
  }
  patient.await(64);
  CHECK_THROWS_MATCHES(wait_to_join(patient.address, hello(), {}, 0ms, kLog), ContextError,
                       says("64 processes wait already. Start this one again later."));
}

TEST_CASE("a leader that speaks nonsense to who waits is tried again", "[workers][host]") {
  const auto listening = std::make_shared<const ListeningSocket>("127.0.0.1:0");
  const std::string address = "127.0.0.1:" + std::to_string(listening->port());
  std::thread leads([&] {
    std::string bytes;
    for (int i = 0; i < 3; ++i) {
      std::optional<ListeningSocket::Accepted> accepted;
      while (!(accepted = listening->accept())) std::this_thread::sleep_for(1ms);
      Link link(std::move(accepted->socket));
      const std::string nonce(kNonceBytes, 'n');
      link.send(Challenge{nonce});
      std::optional<Message> message;
      while (!(message = link.next())) link.receive();
      const Join& join = std::get<Join>(*message);
      link.send(Welcome{prove({}, Prover::leader, nonce, join.nonce, {})});
      if (i == 0) link.send(Waiting{0, {}});  // no limit at all
      if (i > 0) link.send(Waiting{5000, {}});
      if (i == 1) link.send(Invited{4, {"a:1", "b:2"}});
      if (i == 2) link.send(Invited{1, {"a:1", "b:2"}});
      link.flush();
      while (i == 2 && !link.is_closed()) link.receive();
    }
  });
  {
    const Invitation invitation = wait_to_join(address, hello(), {}, 30s, kLog);
    CHECK(invitation.worker == 1);
  }
  leads.join();
}
