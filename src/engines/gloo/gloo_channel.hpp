#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <lockstep/backend/process_group.hpp>

#include "engines/first_cause.hpp"
#include "engines/pairwise_channel.hpp"

namespace lockstep::engines {

/// A channel over a Gloo context of its own.
///
/// When a process is lost, Gloo says so only to messages that have not begun to arrive; abort() releases all.
class GlooChannel final : public PairwiseChannel {
 public:
  explicit GlooChannel(std::shared_ptr<gloo::Context> context);

  void broadcast(std::span<std::byte> buffer, int root, backend::Deadline deadline) override;
  void abort(std::string_view cause) noexcept override;

 private:
  struct Message {
    int peer;
    bool is_send;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;

    void post(std::uint64_t slot);
    /// @return false: the wait was aborted.
    bool wait(backend::Deadline deadline);
    void abort_wait();
  };

  void add_send(std::vector<Message>& messages, int peer, std::span<const std::byte> bytes) const;
  void add_receive(std::vector<Message>& messages, int peer, std::span<std::byte> bytes) const;
  void exchange(std::string_view operation, std::span<const std::span<const std::byte>> sends,
                std::span<const std::span<std::byte>> receives, backend::Deadline deadline) override;
  /// Makes all of them: each is posted before any is waited for, so no order can deadlock.
  /// @param call  its number.
  void run(std::string_view operation, std::uint64_t call, std::vector<Message> messages,
           backend::Deadline deadline);
  [[noreturn]] void fail(std::string_view operation, int peer, const char* reason,
                         backend::Deadline deadline);

  const std::shared_ptr<gloo::Context> context_;
  std::uint64_t num_calls_ = 0;  // numbers the messages of each: the same on all processes
  FirstCause cause_;
  std::mutex mutex_;               // guards messages_
  std::vector<Message> messages_;  // of the call that runs
};

}  // namespace lockstep::engines
