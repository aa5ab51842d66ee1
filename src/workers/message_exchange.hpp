#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <lockstep/backend/process_group.hpp>
#include <lockstep/detail/function_ref.hpp>

namespace lockstep::detail {

/// Messages that all workers of a group exchange, round by round. One thread at a time.
class MessageExchange {
 public:
  virtual ~MessageExchange() = default;

  /// Sends this worker's message of the next round. @pre the last round is complete.
  virtual void post(std::span<const std::byte> message) = 0;
  /// Waits until every worker's message of the round is there. `stop` is looked at when `interrupt` is
  /// called, and now and then.
  /// @return false: `stop` said so, or the deadline has passed, first; wait again then, before the next post.
  /// @throws CollectiveError  no message can come any more.
  virtual bool wait(FunctionRef<bool()> stop, backend::Deadline deadline) = 0;
  /// A worker's message of the last complete round; valid until the next post.
  virtual std::span<const std::byte> message(int worker) const = 0;
  /// Whether a worker's message of the round under way is there; nothing: that is not known.
  virtual std::optional<bool> has_arrived(int /*worker*/) const { return std::nullopt; }

  /// Makes a waiting thread look at `stop`. Any thread.
  virtual void interrupt() noexcept = 0;
};

}  // namespace lockstep::detail
