#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/expect.hpp"
#include "workers/control/socket.hpp"

/// An address where worker 0 listens: it is refused, or is made of a host and a port.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::detail::control;
  using lockstep::test::expect;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  lockstep::test::accepts("The address ", [&] {
    const SocketAddress address = parse_address(text);
    expect(!address.host.empty(), "there is no host");
    expect(std::stoi(address.port) <= 65535, "there is no such port");
    expect(text == address.host + ":" + address.port || text == "[" + address.host + "]:" + address.port,
           "an address has other parts than its text");
  });
  return 0;
}
