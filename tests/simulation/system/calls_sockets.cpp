// Sockets, counters and poll, in place of the C library's.
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "simulation/system/files.hpp"
#include "simulation/system/network.hpp"
#include "simulation/system/real.hpp"
#include "simulation/system/system.hpp"

using namespace lockstep::simulation;

namespace {

constexpr Time kCallTime = 2 * kMicrosecond;

bool is_simulated(int descriptor) {
  return System::self() != nullptr && descriptor >= Network::kFirstDescriptor;
}

/// Every use of a descriptor that is not open, or another process's, is a fault of the program.
std::shared_ptr<Socket> socket_of(int descriptor) {
  System& system = *System::current();
  system.pass(kCallTime);
  std::shared_ptr<Socket> socket = Network::current().find(descriptor);
  if (socket == nullptr || socket->process != &system.process()) system.fail("a closed descriptor is used");
  return socket;
}

template <class Result>
Result told(Result result) {
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

int copy_address(const sockaddr_in& from, sockaddr* to, socklen_t* size) {
  std::memcpy(to, &from, std::min<std::size_t>(*size, sizeof from));
  *size = sizeof from;
  return 0;
}

sockaddr_in address_of(const sockaddr* from) {
  sockaddr_in address;
  std::memcpy(&address, from, sizeof address);
  return address;
}

}  // namespace

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  if (System::self() == nullptr) return REAL(socket)(domain, type, protocol);
  System::current()->pass(kCallTime);
  if (domain != AF_INET) return told(-EAFNOSUPPORT);
  return Network::current().add(false, (type & SOCK_NONBLOCK) == 0);
}

int eventfd(unsigned initial, int flags) noexcept {
  if (System::self() == nullptr) return REAL(eventfd)(initial, flags);
  System::current()->pass(kCallTime);
  const int descriptor = Network::current().add(true, (flags & EFD_NONBLOCK) == 0);
  Network::current().find(descriptor)->counter = initial;
  return descriptor;
}

int bind(int descriptor, const sockaddr* address, socklen_t size) noexcept {
  if (!is_simulated(descriptor)) return REAL(bind)(descriptor, address, size);
  return told(Network::current().bind(*socket_of(descriptor), address_of(address)));
}

int listen(int descriptor, int length) noexcept {
  if (!is_simulated(descriptor)) return REAL(listen)(descriptor, length);
  return told(Network::current().listen(socket_of(descriptor)));
}

int connect(int descriptor, const sockaddr* address, socklen_t size) {
  if (!is_simulated(descriptor)) return REAL(connect)(descriptor, address, size);
  return told(Network::current().connect(socket_of(descriptor), address_of(address)));
}

int accept4(int descriptor, sockaddr* address, socklen_t* size, int flags) {
  if (!is_simulated(descriptor)) return REAL(accept4)(descriptor, address, size, flags);
  sockaddr_in peer{};
  const int accepted = Network::current().accept(*socket_of(descriptor), (flags & SOCK_NONBLOCK) == 0, peer);
  if (accepted >= 0 && address != nullptr) copy_address(peer, address, size);
  return told(accepted);
}

ssize_t send(int descriptor, const void* data, size_t size, int flags) {
  if (!is_simulated(descriptor)) return REAL(send)(descriptor, data, size, flags);
  const auto socket = socket_of(descriptor);
  return told(Network::current().send(socket, data, size, socket->blocks && (flags & MSG_DONTWAIT) == 0));
}

ssize_t recv(int descriptor, void* data, size_t size, int flags) {
  if (!is_simulated(descriptor)) return REAL(recv)(descriptor, data, size, flags);
  const auto socket = socket_of(descriptor);
  return told(Network::current().receive(*socket, data, size, socket->blocks && (flags & MSG_DONTWAIT) == 0));
}

int shutdown(int descriptor, int how) noexcept {
  if (!is_simulated(descriptor)) return REAL(shutdown)(descriptor, how);
  const auto socket = socket_of(descriptor);
  if (how != SHUT_RD) Network::current().shut(socket);
  return 0;
}

int setsockopt(int descriptor, int level, int option, const void* value, socklen_t size) noexcept {
  if (!is_simulated(descriptor)) return REAL(setsockopt)(descriptor, level, option, value, size);
  const auto socket = socket_of(descriptor);
  if (level == IPPROTO_TCP && option == TCP_USER_TIMEOUT)
    Network::current().set_silence_limit(socket, *static_cast<const int*>(value) * kMillisecond);
  return 0;
}

int getsockopt(int descriptor, int level, int option, void* value, socklen_t* size) noexcept {
  if (!is_simulated(descriptor)) return REAL(getsockopt)(descriptor, level, option, value, size);
  const auto socket = socket_of(descriptor);
  if (level != SOL_SOCKET || option != SO_ERROR)
    System::current()->fail("a socket's option is not simulated");
  *static_cast<int*>(value) = std::exchange(socket->error, 0);
  return 0;
}

int getsockname(int descriptor, sockaddr* address, socklen_t* size) noexcept {
  if (!is_simulated(descriptor)) return REAL(getsockname)(descriptor, address, size);
  return copy_address(socket_of(descriptor)->own, address, size);
}

int getpeername(int descriptor, sockaddr* address, socklen_t* size) noexcept {
  if (!is_simulated(descriptor)) return REAL(getpeername)(descriptor, address, size);
  return copy_address(socket_of(descriptor)->peer, address, size);
}

int close(int descriptor) {
  if (!is_simulated(descriptor)) {
    if (System::self() != nullptr) System::current()->process().files.erase(descriptor);
    return REAL(close)(descriptor);
  }
  socket_of(descriptor);
  Network::current().close(descriptor);
  return 0;
}

ssize_t read(int descriptor, void* data, size_t size) {
  if (!is_simulated(descriptor)) return REAL(read)(descriptor, data, size);
  const auto socket = socket_of(descriptor);
  if (!socket->is_counter) return told(Network::current().receive(*socket, data, size, socket->blocks));
  if (socket->counter == 0) return told(-EAGAIN);
  std::memcpy(data, &socket->counter, sizeof socket->counter);
  socket->counter = 0;
  return sizeof socket->counter;
}

ssize_t write(int descriptor, const void* data, size_t size) {
  if (!is_simulated(descriptor)) return write_file(descriptor, data, size);
  const auto socket = socket_of(descriptor);
  if (!socket->is_counter) return told(Network::current().send(socket, data, size, socket->blocks));
  std::uint64_t added = 0;
  std::memcpy(&added, data, sizeof added);
  socket->counter += added;
  System::current()->wake_all(socket->process);
  return sizeof added;
}

int poll(pollfd* watched, nfds_t size, int timeout_ms) {
  if (System::self() == nullptr) return REAL(poll)(watched, size, timeout_ms);
  System& system = *System::current();
  const Time deadline = timeout_ms < 0 ? kNever : system.now() + timeout_ms * kMillisecond;
  system.pass(kCallTime);
  for (;;) {
    int num_ready = 0;
    for (nfds_t i = 0; i < size; ++i) {
      watched[i].revents = 0;
      if (watched[i].fd < 0) continue;
      const auto socket = Network::current().find(watched[i].fd);
      if (socket == nullptr || socket->process != &system.process())
        system.fail("a closed descriptor is polled");
      watched[i].revents =
          static_cast<short>(Network::current().readiness(*socket) & (watched[i].events | POLLERR | POLLHUP));
      num_ready += watched[i].revents != 0 ? 1 : 0;
    }
    if (num_ready > 0 || timeout_ms == 0) return num_ready;
    if (!system.wait(&system.process(), "poll", deadline) && system.now() >= deadline) return 0;
  }
}

}  // extern "C"
