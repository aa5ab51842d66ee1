#include "workers/control/link.hpp"

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <sys/socket.h>

#include "workers/control/endpoint.hpp"

using namespace lockstep::detail;
using namespace lockstep::detail::control;

namespace {

std::pair<FileDescriptor, FileDescriptor> connected() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace

TEST_CASE("a link that the peer ends is closed", "[workers][host]") {
  auto [own, peer] = connected();
  Link link(std::move(own));
  link.send(Heartbeat{});
  { const Link other(std::move(peer)); }
  link.receive();
  CHECK(link.is_closed());
  CHECK(link.error() == 0);
  CHECK(why_closed(link) == "its connection was closed");
}

TEST_CASE("a link that the system breaks is closed at both ends, and says why", "[workers][host]") {
  // Nothing can be sent to, or received from, a file that is no socket.
  Link link(FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  SECTION("as it sends") { link.send(Heartbeat{}); }
  SECTION("as it receives") {}
  CHECK_FALSE(link.has_unsent());
  link.receive();
  CHECK(link.is_closed());
  CHECK(link.error() == ENOTSOCK);
  CHECK(why_closed(link) == "its connection failed: Socket operation on non-socket");
}
