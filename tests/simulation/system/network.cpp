#include "simulation/system/network.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <arpa/inet.h>

namespace lockstep::simulation {
namespace {

constexpr std::size_t kWindow = 1 << 16;
constexpr Time kLongestDelay = 250 * kMillisecond;  // of what was lost and is sent again
constexpr Time kLongestRetry = 2 * kSecond;         // after a link was cut
constexpr Time kConnectLimit = 127 * kSecond;

std::string text_of(std::uint32_t host) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &host, text, sizeof text);
  return text;
}

std::uint32_t number_of(const std::string& host) {
  std::uint32_t number = 0;
  inet_pton(AF_INET, host.c_str(), &number);
  return number;
}

}  // namespace

Network* Network::current_ = nullptr;

Network::Network(System& system)
    : system_(system),
      latency_(system.random().between(5, 60) * system.random().between(1, 40) * kMicrosecond),
      messages_per_delay_(std::uint64_t{16} << system.random().below(6)),
      calls_per_part_(1 + system.random().below(8)) {
  current_ = this;
  system.on_kill([this](Process& process) { kill(process); });
}

int Network::add(bool is_counter, bool blocks) {
  auto socket = std::make_shared<Socket>();
  socket->process = &system_.process();
  socket->is_counter = is_counter;
  socket->blocks = blocks;
  socket->own = {AF_INET, 0, {0}, {}};
  sockets_[next_descriptor_] = std::move(socket);
  return next_descriptor_++;
}

std::shared_ptr<Socket> Network::find(int descriptor) const {
  const auto found = sockets_.find(descriptor);
  return found == sockets_.end() ? nullptr : found->second;
}

Network::Link& Network::link(std::uint32_t from, std::uint32_t to) {
  const auto [found, is_new] = links_.try_emplace({from, to});
  if (is_new)
    found->second.latency = from == to ? 20 * kMicrosecond : system_.random().between(latency_ / 4, latency_);
  return found->second;
}

bool Network::is_off(std::uint32_t host) const { return off_.contains(text_of(host)); }

void Network::cut(const std::string& a, const std::string& b, Time until) {
  for (Link* const way : {&link(number_of(a), number_of(b)), &link(number_of(b), number_of(a))}) {
    way->cut_since = system_.now();
    way->cut_until = until;
  }
  for (const auto& [descriptor, socket] : sockets_) {
    const std::string own = text_of(socket->own.sin_addr.s_addr),
                      peer = text_of(socket->peer.sin_addr.s_addr);
    if ((own == a && peer == b) || (own == b && peer == a)) limit_silence(socket, until);
  }
}

void Network::set_silence_limit(const std::shared_ptr<Socket>& socket, Time limit) {
  socket->silence_limit = limit;
  const Link& way = link(socket->own.sin_addr.s_addr, socket->peer.sin_addr.s_addr);
  if (way.cut_until > system_.now()) limit_silence(socket, way.cut_until);
}

void Network::limit_silence(const std::shared_ptr<Socket>& socket, Time cut_until) {
  if (socket->silence_limit == kNever || cut_until - system_.now() <= socket->silence_limit) return;
  system_.at(system_.now() + socket->silence_limit, [this, socket] {
    if (socket->is_closed || socket->is_reset) return;
    reset(socket);  // what the other end's keepalives are answered with, once they arrive
    socket->is_reset = true;
    socket->is_muted = true;
    socket->error = ETIMEDOUT;
    tell(*socket);
  });
}

Time Network::arrival(Socket& from) {
  Random& random = system_.random();
  const Link& way = link(from.own.sin_addr.s_addr, from.peer.sin_addr.s_addr);
  Time time = system_.now() + way.latency + random.between(0, way.latency);
  if (random.once_in(messages_per_delay_)) time += random.between(0, kLongestDelay);
  if (way.cut_until == kNever) return kNever;
  // The system tries again at intervals that grow as the cut lasts.
  if (way.cut_until > system_.now())
    time = way.cut_until + random.between(0, std::min(kLongestRetry, way.cut_until - way.cut_since));
  from.last_arrival = std::max(time, from.last_arrival + 1);
  return from.last_arrival;
}

void Network::tell(const Socket& socket) { system_.wake_all(socket.process); }

int Network::bind(Socket& socket, sockaddr_in address) {
  const std::uint32_t host = number_of(socket.process->host);
  if (address.sin_addr.s_addr != INADDR_ANY && address.sin_addr.s_addr != host) return -EADDRNOTAVAIL;
  address.sin_addr.s_addr = host;
  if (address.sin_port == 0) address.sin_port = htons(next_port_++);
  if (!bound_[{host, address.sin_port}].expired()) return -EADDRINUSE;
  socket.own = address;
  return 0;
}

int Network::listen(const std::shared_ptr<Socket>& socket) {
  std::weak_ptr<Socket>& place = bound_[{socket->own.sin_addr.s_addr, socket->own.sin_port}];
  if (!place.expired()) return -EADDRINUSE;
  place = socket;
  socket->state = Socket::State::listening;
  return 0;
}

int Network::connect(const std::shared_ptr<Socket>& socket, sockaddr_in address) {
  socket->own = {AF_INET, htons(next_port_++), {number_of(socket->process->host)}, {}};
  socket->peer = address;
  socket->state = Socket::State::connecting;
  const auto fail = [this, socket](int error) {
    if (socket->state != Socket::State::connecting) return;
    socket->error = error;
    tell(*socket);
  };
  system_.at(system_.now() + kConnectLimit, [fail] { fail(ETIMEDOUT); });
  const Time there = arrival(*socket);
  if (there == kNever) return -EINPROGRESS;
  system_.at(there, [this, socket, address, fail] {
    if (is_off(address.sin_addr.s_addr) || socket->is_closed) return;
    Socket back;  // who answers
    back.own = address;
    back.peer = socket->own;
    const std::shared_ptr<Socket> listening = bound_[{address.sin_addr.s_addr, address.sin_port}].lock();
    const Time again = arrival(back);
    if (again == kNever) return;
    if (listening == nullptr) return system_.at(again, [fail] { fail(ECONNREFUSED); });
    auto accepted = std::make_shared<Socket>(back);
    accepted->process = listening->process;
    accepted->state = Socket::State::connected;
    accepted->other = socket;
    listening->backlog.push_back(accepted);
    tell(*listening);
    system_.at(again, [this, socket, accepted] {
      if (socket->is_closed) return reset(socket);
      socket->state = Socket::State::connected;
      socket->other = accepted;
      tell(*socket);
    });
  });
  return -EINPROGRESS;
}

int Network::accept(Socket& socket, bool blocks, sockaddr_in& peer) {
  if (socket.backlog.empty()) return -EAGAIN;
  const std::shared_ptr<Socket> accepted = socket.backlog.front();
  socket.backlog.pop_front();
  accepted->blocks = blocks;
  peer = accepted->peer;
  sockets_[next_descriptor_] = accepted;
  return next_descriptor_++;
}

std::size_t Network::room(const Socket& socket) const {
  const std::shared_ptr<Socket> other = socket.other.lock();
  const std::size_t used = socket.in_flight + (other == nullptr ? 0 : other->received.size());
  return used >= kWindow ? 0 : kWindow - used;
}

std::int64_t Network::send(const std::shared_ptr<Socket>& socket, const void* data, std::size_t size,
                           bool blocks) {
  for (;;) {
    if (socket->error != 0) return -std::exchange(socket->error, 0);
    if (socket->is_reset || socket->is_shut) return -EPIPE;
    if (socket->state != Socket::State::connected) return -ENOTCONN;
    if (room(*socket) > 0) break;
    if (!blocks) return -EAGAIN;
    system_.wait(socket->process, "send");
  }
  size = std::min(size, room(*socket));
  if (size > 1 && system_.random().once_in(calls_per_part_)) size = 1 + system_.random().below(size);
  socket->in_flight += size;
  num_bytes_ += size;
  if (const Time time = arrival(*socket); time != kNever)
    system_.at(time, [this, socket, bytes = std::string(static_cast<const char*>(data), size)] {
      arrive(socket, bytes);
    });
  return static_cast<std::int64_t>(size);
}

void Network::arrive(const std::shared_ptr<Socket>& from, const std::string& bytes) {
  from->in_flight -= bytes.size();
  if (from->is_muted || is_off(from->peer.sin_addr.s_addr)) return;
  if (++num_messages_ == lost_message_) return;
  const std::shared_ptr<Socket> to = from->other.lock();
  if (to == nullptr || to->is_closed) {  // there is nobody: the answer says so
    Socket back;
    back.own = from->peer;
    back.peer = from->own;
    if (const Time time = arrival(back); time != kNever)
      system_.at(time, [this, from] {
        if (from->is_closed) return;
        from->is_reset = true;
        from->error = ECONNRESET;
        tell(*from);
      });
    return;
  }
  to->received += bytes;
  tell(*to);
}

std::int64_t Network::receive(Socket& socket, void* data, std::size_t size, bool blocks) {
  for (;;) {
    if (!socket.received.empty()) break;
    if (socket.error != 0) return -std::exchange(socket.error, 0);
    if (socket.has_ended || socket.is_reset) return 0;
    if (!blocks) return -EAGAIN;
    system_.wait(socket.process, "recv");
  }
  size = std::min(size, socket.received.size());
  if (size > 1 && system_.random().once_in(calls_per_part_)) size = 1 + system_.random().below(size);
  std::memcpy(data, socket.received.data(), size);
  socket.received.erase(0, size);
  if (const std::shared_ptr<Socket> other = socket.other.lock()) tell(*other);  // there is room again
  return static_cast<std::int64_t>(size);
}

void Network::end(const std::shared_ptr<Socket>& from) {
  if (const Time time = arrival(*from); time != kNever)
    system_.at(time, [this, from] {
      const std::shared_ptr<Socket> to = from->other.lock();
      if (to == nullptr || to->is_closed || is_off(from->peer.sin_addr.s_addr)) return;
      to->has_ended = true;
      tell(*to);
    });
}

void Network::reset(const std::shared_ptr<Socket>& from) {
  from->is_muted = system_.random().once_in(2);
  if (const Time time = arrival(*from); time != kNever)
    system_.at(time, [this, from] {
      const std::shared_ptr<Socket> to = from->other.lock();
      if (to == nullptr || to->is_closed || is_off(from->peer.sin_addr.s_addr)) return;
      to->is_reset = true;
      to->error = ECONNRESET;
      tell(*to);
    });
}

void Network::shut(const std::shared_ptr<Socket>& socket) {
  if (socket->is_shut || socket->state != Socket::State::connected) return;
  socket->is_shut = true;
  end(socket);
}

void Network::close(const std::shared_ptr<Socket>& socket, bool is_kill) {
  socket->is_closed = true;
  for (const auto& waiting : socket->backlog) close(waiting, is_kill);
  socket->backlog.clear();
  if (socket->state == Socket::State::listening)
    bound_.erase({socket->own.sin_addr.s_addr, socket->own.sin_port});
  if (socket->state != Socket::State::connected || socket->is_reset || off_.contains(socket->process->host))
    return;
  if (!socket->received.empty() || (is_kill && system_.random().once_in(4))) return reset(socket);
  if (!socket->is_shut) end(socket);
}

void Network::close(int descriptor) {
  close(sockets_.at(descriptor), false);
  sockets_.erase(descriptor);
}

void Network::kill(Process& process) {
  std::vector<int> descriptors;
  for (const auto& [descriptor, socket] : sockets_)
    if (socket->process == &process) descriptors.push_back(descriptor);
  for (const int descriptor : descriptors) {
    close(sockets_.at(descriptor), true);
    sockets_.erase(descriptor);
  }
}

short Network::readiness(const Socket& socket) const {
  int ready = 0;
  if (socket.is_counter) return static_cast<short>(POLLOUT | (socket.counter > 0 ? POLLIN : 0));
  if (!socket.received.empty() || socket.has_ended || !socket.backlog.empty()) ready |= POLLIN;
  if (socket.state == Socket::State::connected && !socket.is_shut && room(socket) > 0) ready |= POLLOUT;
  if (socket.error != 0 || socket.is_reset) ready |= POLLIN | POLLOUT | POLLERR | POLLHUP;
  if (socket.has_ended && socket.is_shut) ready |= POLLHUP;
  return static_cast<short>(ready);
}

std::size_t Network::num_descriptors(const Process& process) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(sockets_, [&](const auto& entry) { return entry.second->process == &process; }));
}

}  // namespace lockstep::simulation
