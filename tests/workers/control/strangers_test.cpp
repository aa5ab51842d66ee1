// Who connects to the leader and is none of its workers.
#include <atomic>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <poll.h>
#include <unistd.h>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "support/matchers.hpp"
#include "workers/control/control_fixture.hpp"
#include "workers/control/leader_endpoint.hpp"
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

detail::ControlOptions options_of(int worker, std::vector<std::string> addresses, std::string token = {}) {
  return {.worker = worker, .addresses = std::move(addresses), .token = std::move(token), .start_limit = 60s};
}

std::string hello_of(int worker, int num_workers) {
  return frame(Hello{.version = "1", .worker = worker, .num_workers = num_workers, .host = "h"});
}

/// A leader of two, which waits; what strangers do; then the other worker, and both work.
template <class Strangers>
void with_strangers(const Strangers& come, const std::string& token = "the token") {
  const auto addresses = test::free_addresses(2);
  std::optional<ControlWorker> leader;
  std::thread starts([&] { leader.emplace(options_of(0, addresses, token)); });
  [[maybe_unused]] const auto staying = come(addresses[0]);
  {
    ControlWorker worker(options_of(1, addresses, token));
    starts.join();
    worker.connection->set("key", "value");
    CHECK(leader->connection->get("key", test::in(30s)) == "value");
    CHECK(leader->heard.all().empty());
  }
  leader.reset();
}

long resident_bytes() {
  long pages = 0;
  std::ifstream("/proc/self/statm").ignore(64, ' ') >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("strangers at the leader's port are shown out", "[workers][host]") {
  with_strangers([](const std::string& address) {
    CHECK(Stranger(address, "GET / HTTP/1.1\r\n\r\n").answer().empty());
    CHECK(Stranger(address, frame(Heartbeat{})).answer().empty());
    CHECK(Stranger(address, frame(Set{"key", "a stranger's"})).answer().empty());
    CHECK(Stranger(address, hello_of(1, 2)).answer().empty());  // before it has shown the token
    CHECK(Stranger(address, std::string("LKSP\1\x11\xff\xff\xff\x7f", 10)).answer().empty());
    CHECK(Stranger(address, frame(Join{"nonce"})).answer().find("worker 0's token") != std::string::npos);
    std::vector<Stranger> staying;
    std::string cut = frame(Join{.nonce = std::string(16, 'n')});
    cut.resize(cut.size() - 1);
    staying.emplace_back(address, cut);
    staying.emplace_back(address);
    return staying;
  });
}

TEST_CASE("who has shown the token and then says something else is shown out", "[workers][host]") {
  with_strangers([](const std::string& address) {
    for (const std::string& text : {frame(Heartbeat{}), std::string("LKSP"), std::string("no frame")}) {
      const Stranger stranger(address);
      stranger.join("the token", text);
      CHECK(stranger.read().empty());
    }
    return 0;
  });
}

TEST_CASE("a worker without the leader's token is told so, and the others start", "[workers][host]") {
  const auto [leaders, others] = GENERATE(std::pair<std::string, std::string>{"the token", "another"},
                                          std::pair<std::string, std::string>{"the token", ""},
                                          std::pair<std::string, std::string>{"", "the token"});
  with_strangers(
      [&, token = others](const std::string& address) {
        CHECK_THROWS_MATCHES(ControlWorker(options_of(1, {address, ""}, token)), InvalidArgument,
                             says("The start of the workers: this process does not have worker 0's token. "
                                  "Set LOCKSTEP_TOKEN to the same value for all workers."));
        return 0;
      },
      leaders);
}

TEST_CASE("what a worker has said to join helps nobody else", "[workers][host]") {
  with_strangers([](const std::string& address) {
    const std::string nonce(16, 'n'), hello = hello_of(1, 2);
    const Join of_another_challenge{
        nonce, prove("the token", Prover::worker, std::string(16, 'c'), nonce, hello), hello};
    CHECK(Stranger(address, frame(of_another_challenge)).answer().find("worker 0's token") !=
          std::string::npos);
    return 0;
  });
}

TEST_CASE("a leader that does not have the token is not believed", "[workers][host]") {
  const std::string challenge =
      frame(Challenge{GENERATE(std::string(16, 'c'), std::string("short"), std::string())});
  const ListeningSocket listening("127.0.0.1:0");
  std::atomic<bool> ends = false;
  std::string sent;
  std::thread impostor([&] {
    std::vector<ListeningSocket::Accepted> all;
    const std::string says_welcome = challenge + frame(Welcome{std::string(16, 'p')}) +
                                     frame(Started{{"worker 0", "worker 1"}, {"a", "a"}});
    while (!ends) {
      pollfd watched{listening.get(), POLLIN, 0};
      ::poll(&watched, 1, 10);
      if (auto accepted = listening.accept()) {
        static_cast<void>(
            ::send(accepted->socket.get(), says_welcome.data(), says_welcome.size(), MSG_NOSIGNAL));
        all.push_back(std::move(*accepted));
      }
    }
    char bytes[4096];
    for (const auto& one : all)
      for (ssize_t size; (size = ::recv(one.socket.get(), bytes, sizeof bytes, 0)) > 0;)
        sent.append(bytes, static_cast<std::size_t>(size));
  });
  auto options = options_of(1, {detail::concat("127.0.0.1:", listening.port()), ""}, "the token");
  options.start_limit = 300ms;
  CHECK_THROWS_MATCHES(ControlWorker(options), CollectiveTimeout,
                       says("could not be reached (what listens there does not speak lockstep's protocol, "
                            "or has another token)"));
  ends = true;
  impostor.join();
  CHECK(sent.find("the token") == sent.npos);
}

TEST_CASE("many strangers who say nothing, or little, do not keep a worker out", "[workers][host]") {
  with_strangers([](const std::string& address) {
    constexpr int kMany = 300;  // more than the leader keeps
    std::vector<Stranger> staying;
    for (int i = 0; i < kMany; ++i) staying.emplace_back(address, i % 2 == 0 ? "" : "LKSP\1\x11");
    return staying;
  });
}

TEST_CASE("a stranger who sends a byte now and then is shown out in time", "[workers][host]") {
  with_strangers([](const std::string& address) {
    const Stranger slow(address);
    const std::string bytes = frame(Join{.hello = std::string(1000, 'h')});
    const auto begin = test::Clock::now();
    std::size_t num_sent = 0;
    while (num_sent < bytes.size() && slow.read(50ms).find("(still open)") != std::string::npos)
      num_sent += slow.send_some(bytes.substr(num_sent, 1));
    CHECK(num_sent < bytes.size());
    CHECK(test::Clock::now() - begin < 15s);
    return 0;
  });
}

TEST_CASE("strangers who send without end take a bounded memory", "[workers][host]") {
  with_strangers([](const std::string& address) {
    constexpr int kMany = 100;
    constexpr std::size_t kBytesEach = std::size_t{8} << 20;
    const std::string header = frame(Join{}).substr(0, 6);
    const std::string flood(std::size_t{1} << 20, '\0');
    const long before = resident_bytes();
    std::vector<Stranger> staying;
    for (const char* const size : {"\xf0\x3f\0\0", "\xff\xff\xff\x7f", "\xff\xff\xff\xff"})
      for (int i = 0; i < kMany / 3; ++i) staying.emplace_back(address, header + std::string(size, 4));
    std::size_t num_sent = 0;
    for (const Stranger& stranger : staying)
      for (std::size_t i = 0; i < kBytesEach / flood.size(); ++i) num_sent += stranger.send_some(flood);
    CHECK(num_sent > 0);
    CHECK(resident_bytes() - before < long{16} << 20);
    return staying;
  });
}

TEST_CASE("a host's name that is too long to be sent is refused", "[workers][host]") {
  auto options = options_of(1, {"127.0.0.1:1", ""});
  options.host.assign(10'000, 'h');
  CHECK_THROWS_MATCHES(ControlWorker(options), InvalidArgument,
                       says("this worker's address and the name of its host have 10000 bytes, and may have "
                            "8192. Set LOCKSTEP_HOST_ID to a shorter one."));
}

TEST_CASE("the leader listens where it is told, other than its address says", "[workers][host]") {
  const std::string host = GENERATE("0.0.0.0", "127.0.0.1", "[::]", "::");
  auto addresses = test::free_addresses(2);
  test::rethrow_first(test::on_threads(2, [&](int worker) {
    auto options = options_of(worker, addresses);
    const std::string port = addresses[0].substr(addresses[0].rfind(':'));
    options.addresses[0] = (worker == 0 ? "192.0.2.1" : "127.0.0.1") + port;  // a router's
    options.listen_host = host;
    ControlWorker it(options);
    it.connection->barrier("all", test::in(30s));
  }));
}
