#include "workers/control/socket.hpp"

#include <string>
#include <string_view>

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "support/matchers.hpp"
#include "support/scoped_log_sink.hpp"

using namespace lockstep;
using namespace lockstep::detail::control;
using namespace std::chrono_literals;
using namespace std::string_view_literals;
using test::says;

TEST_CASE("addresses are a host and a port", "[workers][host]") {
  CHECK(parse_address("worker-0.example.org:2222").host == "worker-0.example.org");
  CHECK(parse_address("10.0.0.2:65535").port == "65535");
  CHECK(parse_address("[fe80::1%eth0]:1").host == "fe80::1%eth0");
  CHECK(parse_address("[::1]:0").port == "0");
  for (const char* const bad : {"", "host", ":2222", "host:", "host:port", "host:65536", "host:-1", "host:+1",
                                "host:2222 ", "::1:2222", "[::1]", "[]:2222", "host:123456", "a host:2222"})
    CHECK_THROWS_MATCHES(parse_address(bad), InvalidArgument,
                         says(detail::concat("The address '", bad, "' is no host and port."),
                              "Write it as 'host:2222', '10.0.0.2:2222' or '[::1]:2222'."));
  CHECK_THROWS_AS(parse_address(std::string_view("host\0:2222", 10)), InvalidArgument);
}

TEST_CASE("an address to connect to has a port", "[workers][host]") {
  CHECK(detail::control::parse_peer_address("host:2222").port == "2222");
  for (const char* const bad : {"host:0", "[::1]:000"})
    CHECK_THROWS_MATCHES(detail::control::parse_peer_address(bad), InvalidArgument,
                         says("has port 0, to which nobody can connect. Name the port, from 1 to 65535."));
}

TEST_CASE("an address has one spelling", "[workers][host]") {
  CHECK(normalized_address("Worker-0.Example.ORG.:02222") == "worker-0.example.org:2222");
  CHECK(normalized_address("LOCALHOST:1") == "127.0.0.1:1");
  CHECK(normalized_address("127.1:1") == "127.0.0.1:1");
  CHECK(normalized_address("[0:0::0001]:1") == "[::1]:1");
  CHECK(normalized_address(".:1") == ".:1");
  CHECK_THROWS_AS(normalized_address("host"), InvalidArgument);
}

TEST_CASE("addresses are compared by what they stand for", "[workers][host]") {
  CHECK(is_same_address("Host.invalid:2222", "host.invalid.:2222"));
  CHECK(is_same_address("localhost:2222", "127.0.0.1:2222"));
  CHECK(is_same_address("[::ffff:10.0.0.1]:2222", "10.0.0.1:2222"));
  CHECK_FALSE(is_same_address("localhost:2222", "127.0.0.1:2223"));
  CHECK_FALSE(is_same_address("127.0.0.1:2222", "127.0.0.2:2222"));
  CHECK_FALSE(is_same_address("a.invalid:2222", "b.invalid:2222"));  // neither is known
  CHECK_FALSE(is_same_address("", ""));
}

TEST_CASE("connections send at once, and end with exec", "[workers][host]") {
  const std::string address = "127.0.0.1:0";
  const ListeningSocket listening(address);
  CHECK(!listening.accept());
  std::string why;
  const auto socket = try_connect({"127.0.0.1", std::to_string(listening.port())}, 1s, why);
  REQUIRE(socket.is_open());
  pollfd watched{listening.get(), POLLIN, 0};
  REQUIRE(::poll(&watched, 1, 30'000) == 1);
  const auto accepted = listening.accept();
  REQUIRE(accepted);
  CHECK(accepted->peer_host == "127.0.0.1");
  for (const int one : {socket.get(), accepted->socket.get()}) {
    int value = 0;
    socklen_t size = sizeof value;
    CHECK(::getsockopt(one, IPPROTO_TCP, TCP_NODELAY, &value, &size) == 0);
    CHECK(value == 1);
    CHECK(::getsockopt(one, SOL_SOCKET, SO_KEEPALIVE, &value, &size) == 0);
    CHECK(value == 1);
    CHECK((::fcntl(one, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK((::fcntl(one, F_GETFL) & O_NONBLOCK) != 0);
  }
  CHECK((::fcntl(listening.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("why a connection fails is said", "[workers][host]") {
  int port = 0;
  {
    const ListeningSocket listening("127.0.0.1:0");
    port = listening.port();
  }
  std::string why;
  CHECK(!try_connect({"127.0.0.1", std::to_string(port)}, 1s, why).is_open());
  CHECK(why == "Connection refused");
  CHECK(!try_connect({"no-such-host.invalid", "2222"}, 1s, why).is_open());
  CHECK(why != "Connection refused");
  CHECK(!why.empty());
}

TEST_CASE("localhost is reached by its name and by its number", "[workers][host]") {
  const ListeningSocket listening("localhost:0");
  std::string why;
  for (const char* const host : {"localhost", "127.0.0.1"})
    CHECK(try_connect({host, std::to_string(listening.port())}, 1s, why).is_open());
}

TEST_CASE("an address is listened on alone, unless it means all", "[workers][host]") {
  std::string why;
  const ListeningSocket one("127.0.0.2:0"), all("0.0.0.0:0");
  for (const char* const host : {"127.0.0.1", "127.0.0.2", "127.0.0.3"}) {
    CAPTURE(host);
    CHECK(try_connect({host, std::to_string(one.port())}, 1s, why).is_open() == (host == "127.0.0.2"sv));
    CHECK(try_connect({host, std::to_string(all.port())}, 1s, why).is_open());
  }
}

TEST_CASE("a host's name that stands for a loopback address here is named in the log", "[workers][host]") {
  char name[256] = "";
  REQUIRE(::gethostname(name, sizeof name - 1) == 0);
  std::string logged;
  const test::ScopedLogSink sink([&](std::string_view message) { logged += message; });
  std::string local;
  try {
    const ListeningSocket listening(detail::concat(name, ":0"));
    sockaddr_in own{};
    socklen_t size = sizeof own;
    REQUIRE(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0);
    const bool is_loopback = own.sin_family == AF_INET && ntohl(own.sin_addr.s_addr) >> 24 == 127;
    CHECK((logged.find("Worker 0 listens where other hosts do not reach it: ") == 0) == is_loopback);
    if (is_loopback)
      CHECK(logged.find("set LOCKSTEP_LISTEN to another address of this one, or to 0.0.0.0") != logged.npos);
  } catch (const Error&) {
    SKIP("this machine's name has no address that is its own");
  }
  logged.clear();
  const ListeningSocket localhost("localhost:0"), number("127.0.0.1:0");
  CHECK(logged.empty());
}

TEST_CASE("what cannot be listened on says why, and what to do", "[workers][host]") {
  CHECK_THROWS_MATCHES(ListeningSocket("192.0.2.1:2222"), Error,
                       says("Worker 0 cannot listen on '192.0.2.1:2222': ",
                            "Give worker 0 an address of the machine that it runs on, or set "
                            "LOCKSTEP_LISTEN to one, or to 0.0.0.0 for all."));
  CHECK_THROWS_MATCHES(ListeningSocket("no-such-host.invalid:2222"), Error,
                       says("Worker 0 cannot listen on 'no-such-host.invalid:2222': ", "LOCKSTEP_LISTEN"));
  const ListeningSocket listening("127.0.0.1:0");
  try {
    const ListeningSocket second(detail::concat("127.0.0.1:", listening.port()));
    FAIL("the port is listened on twice");
  } catch (const Error& error) {
    CHECK(error.context().code == EADDRINUSE);
  }
}
