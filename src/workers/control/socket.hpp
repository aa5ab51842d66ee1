#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "detail/file_descriptor.hpp"

/// TCP. Sockets do not block, do not survive exec, and send at once.
namespace lockstep::detail::control {

/// Where a process listens.
struct SocketAddress {
  std::string host;
  std::string port;
};

/// Of "host:port", "10.0.0.2:2222" or "[::1]:2222".
/// @throws InvalidArgument  the address has another form.
SocketAddress parse_address(std::string_view address);
/// The same, to connect to. @throws InvalidArgument  also where the port is 0.
SocketAddress parse_peer_address(std::string_view address);

/// The address in one spelling, without asking a name server: names in lower case and without a dot at the
/// end, localhost as 127.0.0.1, numbers as the system writes them. @throws as parse_address
std::string normalized_address(std::string_view address);
/// Whether both are the same on this host: in one spelling, or with names that stand for one number. Asks
/// name servers if the ports are equal. False for what is no address.
bool is_same_address(std::string_view a, std::string_view b);

/// Waits for connections to an address.
class ListeningSocket {
 public:
  /// Listens on this address alone: of those that a name stands for, on the first that is this machine's,
  /// IPv4's before IPv6's. Where a name other than localhost stands for a loopback address, the log says so.
  /// All of the machine's are "0.0.0.0" and "[::]". Port 0: any that is free.
  /// @throws InvalidArgument  the address has another form. @throws Error  it cannot be listened on.
  explicit ListeningSocket(const std::string& address);

  struct Accepted {
    FileDescriptor socket;
    std::string peer_host;  ///< Numeric.
  };
  /// Nothing: nobody waits to be accepted, or the process has no descriptor left.
  std::optional<Accepted> accept() const;

  int get() const noexcept { return socket_.get(); }
  /// @throws Error  the system does not say.
  int port() const;

 private:
  FileDescriptor socket_;
};

/// Tries once, each address that the host's name stands for.
/// @param time_limit  of each address. @param why  how it failed.
/// @return an open socket, or none.
FileDescriptor try_connect(const SocketAddress& address, std::chrono::milliseconds time_limit,
                           std::string& why);

}  // namespace lockstep::detail::control
