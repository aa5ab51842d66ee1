#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "workers/message_exchange.hpp"

namespace lockstep::detail {

/// Messages through an engine's channel: between hosts, or where no memory can be shared. A thread of its own
/// makes the channel's calls, so that a wait can be given up and taken up again.
class ChannelExchange final : public MessageExchange {
 public:
  ChannelExchange(std::unique_ptr<backend::Channel> channel, int num_workers);
  /// Aborts the channel.
  ~ChannelExchange() override;

  void post(std::span<const std::byte> message) override;
  /// @throws CollectiveAborted  the channel has failed, and `stop` does not say why. @throws std::bad_alloc
  /// the first time, if that is why.
  bool wait(FunctionRef<bool()> stop, backend::Deadline deadline) override;
  std::span<const std::byte> message(int worker) const override;
  void interrupt() noexcept override;

 private:
  /// What one call of the channel carries of a message, its size included; a longer one takes a second call.
  static constexpr std::size_t kBlockBytes = 512;

  void run();
  void exchange();
  [[noreturn]] void raise_end(const std::exception_ptr& error);

  const std::unique_ptr<backend::Channel> channel_;
  const std::size_t num_workers_;
  std::vector<std::byte> own_;
  std::vector<std::byte> blocks_;  // [num_workers][kBlockBytes]
  std::vector<std::byte> rests_;   // [num_workers][longest]
  std::vector<std::vector<std::byte>> messages_;
  bool has_told_ = false;  // of a lack of memory

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::uint64_t num_posted_ = 0;
  std::uint64_t num_complete_ = 0;
  std::uint64_t num_interrupts_ = 0;
  bool is_ending_ = false;
  std::exception_ptr error_;

  std::thread thread_;
};

}  // namespace lockstep::detail
