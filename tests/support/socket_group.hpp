#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/backend/process_group.hpp>
#include <lockstep/error.hpp>

namespace lockstep::test {

/// Sockets between process 0 and each other one, which are made before these fork.
class SocketStar {
 public:
  explicit SocketStar(int num_processes) : ends_(static_cast<std::size_t>(num_processes)) {
    for (auto& pair : ends_) ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data());
  }
  ~SocketStar() {
    for (const auto& pair : ends_)
      for (const int end : pair) ::close(end);
  }
  SocketStar(const SocketStar&) = delete;
  SocketStar& operator=(const SocketStar&) = delete;

  int num_processes() const { return static_cast<int>(ends_.size()); }
  int at_hub(int process) const { return ends_[static_cast<std::size_t>(process)][0]; }
  int at(int process) const { return ends_[static_cast<std::size_t>(process)][1]; }

 private:
  std::vector<std::array<int, 2>> ends_;
};

/// A group whose processes, or threads that stand for them, meet through a SocketStar.
class SocketGroup final : public backend::ProcessGroup {
 public:
  SocketGroup(const SocketStar& star, int process) : star_(star), process_(process) {
    for (int p = 0; p < star.num_processes(); ++p) labels_.push_back("worker " + std::to_string(p));
  }

  /// Of each process; empty: one for all.
  std::vector<int> hosts{};
  /// Called with what is exchanged and this process's text, which it may change.
  std::function<void(std::string_view what, std::string& own)> on_all_gather{};

  int num_processes() const noexcept override { return star_.num_processes(); }
  int process() const noexcept override { return process_; }
  const std::string& label(int process) const override { return labels_[static_cast<std::size_t>(process)]; }
  int host(int process) const noexcept override {
    return hosts.empty() ? 0 : hosts[static_cast<std::size_t>(process)];
  }
  std::vector<std::string> all_gather(std::string_view what, std::string own) override {
    if (on_all_gather) on_all_gather(what, own);
    std::vector<std::string> all(labels_.size());
    if (process_ != 0) {
      send(star_.at(process_), own);
      for (std::string& text : all) text = receive(star_.at(process_));
      return all;
    }
    all.front() = std::move(own);
    for (int p = 1; p < num_processes(); ++p) all[static_cast<std::size_t>(p)] = receive(star_.at_hub(p));
    for (int p = 1; p < num_processes(); ++p)
      for (const std::string& text : all) send(star_.at_hub(p), text);
    return all;
  }
  std::unique_ptr<backend::Channel> open_channel() override { throw Unsupported("a SocketGroup has none."); }

 private:
  static void send(int socket, const std::string& text) {
    const std::uint64_t size = text.size();
    const bool sent = ::send(socket, &size, sizeof size, MSG_NOSIGNAL) == sizeof size &&
                      ::send(socket, text.data(), size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
    if (!sent) throw CollectiveAborted("a process is gone.");
  }
  static std::string receive(int socket) {
    std::uint64_t size = 0;
    if (::recv(socket, &size, sizeof size, MSG_WAITALL) != sizeof size)
      throw CollectiveAborted("a process is gone.");
    std::string text(size, '\0');
    // One of no bytes would wait for the next text.
    if (size != 0 && ::recv(socket, text.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size))
      throw CollectiveAborted("a process is gone.");
    return text;
  }

  const SocketStar& star_;
  int process_;
  std::vector<std::string> labels_;
};

}  // namespace lockstep::test
