#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/device_backend.hpp>

#include "detail/process.hpp"
#include "trace/call_group.hpp"

namespace lockstep::detail {

/// The time limits of a communicator's calls on its devices. A call with a limit has an event before and one
/// behind it on each rank's stream. A thread of the process, which lives while there are such calls, asks for
/// them now and then. Where a rank's stream has come to a call, and the call does not end within the limit,
/// the ranks whose streams have not come to it are those that the others wait for.
///
/// Work that is being captured has no limit.
class DeviceWatch {
 public:
  /// @param devices  of the local ranks. @param calls  of them; both outlive this. @param on_time_out  is
  /// called once, on a thread of the watch, with the text of the error; again while it throws std::bad_alloc.
  DeviceWatch(std::vector<backend::DeviceBackend*> devices, CallGroup& calls,
              std::function<void(const std::string& text)> on_time_out);
  /// Returns when on_time_out is not under way.
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// A rank's part of a call is about to be enqueued. @param rank  among the local ones. @param number  of
  /// the call. @param operation  static.
  void begin(int rank, std::uint64_t number, std::string_view operation, backend::StreamHandle stream);
  /// It is enqueued: the limit counts from when the stream comes to it. @pre begin
  void end(int rank, backend::StreamHandle stream, std::chrono::milliseconds limit);

  /// Until end_capture calls are captured into graphs, which will be launched again and again.
  void begin_capture();
  /// @return whether it is captured. Its limit is then one of those that end_capture adds up. @param limit
  /// 0: none.
  bool add_captured(int rank, std::chrono::milliseconds limit);
  /// @return the limit of a launch: those of the captured calls together, of the rank with the longest;
  /// 0, none, if one of them has none.
  std::chrono::milliseconds end_capture();

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    std::uint64_t number = 0;
    std::string_view operation;
    backend::EventHandle before{}, behind{};
    std::chrono::milliseconds limit{0};
    Clock::time_point begun{};  // epoch: it has not, as far as is known
  };
  struct Rank {
    backend::DeviceBackend* device = nullptr;
    Call next;  // of begin and end
    bool has_next = false;
    std::chrono::milliseconds captured{0};  // the limits of captured calls
    std::deque<Call> pending;
    std::vector<backend::EventHandle> events;  // to be used again
  };
  struct Thread;
  static Thread& thread();

  backend::EventHandle take_event(Rank& rank);
  /// Looks at all pending calls. @return the text of a time-out; empty: there is none.
  std::string poll();
  void poll(int rank, Clock::time_point now);
  /// Tells of it, again and again while there is no memory for it.
  void time_out(const std::string& text) noexcept;
  std::string text_of(const Call& late) const;

  CallGroup& calls_;
  const std::function<void(const std::string& text)> on_time_out_;
  const Process process_;
  std::mutex mutex_;  // guards what follows
  std::vector<Rank> ranks_;
  std::size_t num_pending_ = 0;
  std::chrono::milliseconds shortest_limit_ = std::chrono::milliseconds::max();
  bool is_over_ = false;        // a call has timed out, or a device is lost
  bool has_unlimited_ = false;  // one of the captured calls has no limit
  std::atomic<bool> is_captured_{false};
};

}  // namespace lockstep::detail
