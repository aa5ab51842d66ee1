#include "workers/control/socket.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <system_error>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"
#include "detail/warn.hpp"

namespace lockstep::detail::control {
namespace {

constexpr int kMaxPort = 65'535;

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

std::string describe(int error) { return std::generic_category().message(error); }

/// @return getaddrinfo's error, 0 for none.
int resolve(const char* host, const std::string& port, int flags, AddressList& result) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host, port.c_str(), &hints, &found);
  result = AddressList(found, &::freeaddrinfo);
  return error;
}

std::string numeric_host(const sockaddr& address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  static_cast<void>(::getnameinfo(&address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST));
  constexpr std::string_view kMapped = "::ffff:";  // an IPv4 address, at a socket for both
  const std::string_view name = host;
  return std::string(name.substr(name.starts_with(kMapped) ? kMapped.size() : 0));
}

/// What a host's name stands for here; nothing: it is not known.
std::vector<std::string> numeric_hosts(const std::string& host, int flags = 0) {
  AddressList found(nullptr, &::freeaddrinfo);
  std::vector<std::string> numbers;
  if (resolve(host.c_str(), "0", flags, found) != 0) return numbers;
  for (const addrinfo* next = found.get(); next != nullptr; next = next->ai_next)
    numbers.push_back(numeric_host(*next->ai_addr, next->ai_addrlen));
  return numbers;
}

/// ASCII's letters, as in names of hosts, whatever the locale.
std::string lower_case(std::string text) {
  for (char& c : text)
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::string describe_resolution(int error) {
  return error == EAI_SYSTEM ? describe(errno) : std::string(::gai_strerror(error));
}

FileDescriptor open_socket(int family) {
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
}

void set_option(int socket, int level, int option, int value) {
  // None of these is needed to be right: without it a connection is slower, or a port longer in use.
  static_cast<void>(::setsockopt(socket, level, option, &value, sizeof value));
}

void set_connection_options(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/// @return an error number, 0 for none.
int connect_by(int socket, const addrinfo& address, std::chrono::milliseconds time_limit) {
  if (::connect(socket, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  pollfd waiting{socket, POLLOUT, 0};
  const int ready =
      retry_interrupted([&] { return ::poll(&waiting, 1, static_cast<int>(time_limit.count())); });
  if (ready < 0) return errno;
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/// A port of this machine's own that happens to be the one asked for: then the socket has connected to
/// itself.
bool is_connected_to_itself(int socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  auto* const own_address = reinterpret_cast<sockaddr*>(&own);
  auto* const peer_address = reinterpret_cast<sockaddr*>(&peer);
  if (::getsockname(socket, own_address, &own_size) != 0) return false;
  if (::getpeername(socket, peer_address, &peer_size) != 0 || own_size != peer_size) return false;
  const auto* const bytes = reinterpret_cast<const char*>(&own);
  return std::equal(bytes, bytes + own_size, reinterpret_cast<const char*>(&peer));
}

/// @return an error number, 0 for none.
int listen_on(const addrinfo& address, FileDescriptor& socket) {
  socket = open_socket(address.ai_family);
  if (!socket.is_open()) return errno;
  // Connections of a process that has ended do not keep its port from the next one.
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    return errno;
  return 0;
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  constexpr std::uint32_t kLoopbackNet = 127;
  return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == kLoopbackNet;
}

std::string_view advice(int error) {
  switch (error) {
    case EADDRINUSE: return "End the program that listens there, or choose another port.";
    case EADDRNOTAVAIL:
      return "Give worker 0 an address of the machine that it runs on, or set LOCKSTEP_LISTEN to one, or to "
             "0.0.0.0 for all.";
    case EACCES: return "Choose a port of 1024 or above.";
    default: return "Choose another address.";
  }
}

}  // namespace

SocketAddress parse_address(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  std::string_view host = address.substr(0, colon == address.npos ? 0 : colon);
  const std::string_view port = colon == address.npos ? std::string_view() : address.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != host.npos) {
    host = {};  // an IPv6 address's last part is not told from a port
  }
  if (std::ranges::any_of(host, [](char c) { return '\0' <= c && c <= ' '; })) host = {};
  const bool is_number = !port.empty() && port.size() <= 5 &&
                         std::ranges::all_of(port, [](char c) { return '0' <= c && c <= '9'; });
  LOCKSTEP_EXPECTS(!host.empty() && is_number && std::stoi(std::string(port)) <= kMaxPort, InvalidArgument,
                   "The address ", in_quotes(address),
                   " is no host and port. Write it as 'host:2222', '10.0.0.2:2222' or '[::1]:2222'.");
  return {std::string(host), std::string(port)};
}

SocketAddress parse_peer_address(std::string_view address) {
  SocketAddress parsed = parse_address(address);
  LOCKSTEP_EXPECTS(std::stoi(parsed.port) != 0, InvalidArgument, "The address ", in_quotes(address),
                   " has port 0, to which nobody can connect. Name the port, from 1 to 65535.");
  return parsed;
}

std::string normalized_address(std::string_view address) {
  const auto [host, port] = parse_address(address);
  std::string name = lower_case(host);
  if (name.size() > 1 && name.ends_with('.')) name.pop_back();
  if (name == "localhost") name = "127.0.0.1";
  if (const auto numbers = numeric_hosts(name, AI_NUMERICHOST); !numbers.empty()) name = numbers.front();
  return concat(name.find(':') == name.npos ? name : concat('[', name, ']'), ':', std::stoi(port));
}

bool is_same_address(std::string_view a, std::string_view b) try {
  if (normalized_address(a) == normalized_address(b)) return true;
  const auto [host, port] = parse_address(a);
  const auto [other_host, other_port] = parse_address(b);
  if (std::stoi(port) != std::stoi(other_port)) return false;
  const std::vector<std::string> numbers = numeric_hosts(host), others = numeric_hosts(other_host);
  return std::ranges::find_first_of(numbers, others) != numbers.end();
} catch (const InvalidArgument&) {
  return false;
}

ListeningSocket::ListeningSocket(const std::string& address) {
  const SocketAddress parsed = parse_address(address);
  AddressList found(nullptr, &::freeaddrinfo);
  const int failed = resolve(parsed.host.c_str(), parsed.port, 0, found);
  LOCKSTEP_EXPECTS(failed == 0, Error, "Worker 0 cannot listen on ", in_quotes(address), ": ",
                   describe_resolution(failed), ". ", advice(EADDRNOTAVAIL));
  int error = EADDRNOTAVAIL;
  bool is_local = false;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* next = found.get(); next != nullptr && error != 0; next = next->ai_next) {
      if (next->ai_family != family) continue;
      error = listen_on(*next, socket_);
      is_local = is_loopback(*next->ai_addr);
    }
    if (error == EADDRINUSE) break;
  }
  if (error != 0)
    raise<Error>(
        {__FILE__, __LINE__, __func__},
        concat("Worker 0 cannot listen on ", in_quotes(address), ": ", describe(error), ". ", advice(error)),
        {.code = error});
  AddressList number(nullptr, &::freeaddrinfo);
  const bool is_name = resolve(parsed.host.c_str(), parsed.port, AI_NUMERICHOST, number) != 0;
  if (is_local && is_name && parsed.host != "localhost")
    warn(concat("Worker 0 listens where other hosts do not reach it: ", in_quotes(parsed.host),
                " stands for a loopback address here. For workers on other hosts set LOCKSTEP_LISTEN to "
                "another address of this one, or to 0.0.0.0 for all."));
}

std::optional<ListeningSocket::Accepted> ListeningSocket::accept() const {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  FileDescriptor socket(retry_interrupted([&] {
    return ::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  }));
  if (!socket.is_open()) return std::nullopt;
  set_connection_options(socket.get());
  return Accepted{std::move(socket), numeric_host(reinterpret_cast<sockaddr&>(peer), size)};
}

int ListeningSocket::port() const {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const bool is_known = ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0;
  const int error = errno;
  if (!is_known)
    raise<Error>({__FILE__, __LINE__, __func__},
                 concat("Worker 0 cannot find out the port on which it listens: ", describe(error),
                        ". Start the workers again, or give the cluster its address."),
                 {.code = error});
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

FileDescriptor try_connect(const SocketAddress& address, std::chrono::milliseconds time_limit,
                           std::string& why) {
  AddressList found(nullptr, &::freeaddrinfo);
  const int failed = resolve(address.host.c_str(), address.port, 0, found);
  if (failed != 0) {
    why = describe_resolution(failed);
    return FileDescriptor();
  }
  for (const addrinfo* next = found.get(); next != nullptr; next = next->ai_next) {
    FileDescriptor socket = open_socket(next->ai_family);
    const int error = socket.is_open() ? connect_by(socket.get(), *next, time_limit) : errno;
    if (error == 0 && !is_connected_to_itself(socket.get())) {
      set_connection_options(socket.get());
      return socket;
    }
    why = describe(error == 0 ? ECONNREFUSED : error);
  }
  return FileDescriptor();
}

}  // namespace lockstep::detail::control
