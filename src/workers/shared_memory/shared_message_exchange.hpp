#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/process_group.hpp>

#include "workers/message_exchange.hpp"
#include "workers/shared_memory/shared_parking.hpp"
#include "workers/shared_memory/shared_segment.hpp"

namespace lockstep::detail {

/// Messages in memory that the workers share. Each writes into a slot of its own and stamps it with the
/// round's number; there are two slots, as a worker can be one round ahead of another, never two. A message
/// that is longer than a slot goes in parts, of which each is a round of its own.
class SharedMessageExchange final : public MessageExchange {
 public:
  /// What a segment's part must have.
  static std::size_t bytes_per_worker() noexcept;
  /// @param segment  with a part for each worker.
  SharedMessageExchange(std::shared_ptr<SharedSegment> segment, int worker);

  void post(std::span<const std::byte> message) override;
  bool wait(FunctionRef<bool()> stop, backend::Deadline deadline) override;
  std::span<const std::byte> message(int worker) const override {
    return messages_[static_cast<std::size_t>(worker)];
  }
  std::optional<bool> has_arrived(int worker) const override;
  void interrupt() noexcept override;

 private:
  struct Slot;

  /// For the current round.
  Slot& slot(std::size_t worker) const noexcept;
  void post_part(std::span<const std::byte> part);
  bool wait_for_part(FunctionRef<bool()> stop, const backend::Deadline& deadline);
  void take_part();

  std::shared_ptr<SharedSegment> segment_;  // owners: the exchanges of workers that are threads
  SharedParking& parking_;
  std::size_t worker_;
  std::uint32_t round_ = 0;  // each part is one
  bool is_complete_ = true;
  std::size_t size_bytes_ = 0;       // of the own message
  std::vector<std::byte> rest_;      // of the own message, behind its first part
  std::size_t num_taken_bytes_ = 0;  // of the longest message, in the parts that have been taken
  std::vector<std::span<const std::byte>> messages_;  // by worker
  std::vector<std::vector<std::byte>> assembled_;     // by worker, where messages have parts
  std::atomic<std::uint32_t> num_interrupts_{0};
};

/// The workers' processes make theirs together. @throws as SharedSegment
std::unique_ptr<MessageExchange> make_shared_message_exchange(backend::ProcessGroup& group);

}  // namespace lockstep::detail
