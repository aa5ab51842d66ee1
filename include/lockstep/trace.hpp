#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

/// A recording of what the library's calls did and when: for each replica its runs, merges, collectives,
/// updates and launches, and for each thread its input and checkpoints. It holds the host's time, from a call
/// to its return; what a GPU does is seen by a profiler, which gets the same spans as NVTX ranges of the
/// domain "lockstep".
///
/// With LOCKSTEP_TRACE=FILE in the environment, a program records from its start, and writes FILE when it
/// exits; "%p" in FILE stands for the process's id. While nothing is recorded, a span pays for a load of an
/// integer; a recorded one for two reads of the clock, and two more if it waits.
///
/// Any thread may call these functions, at any time.
namespace lockstep::trace {

/// Begins a recording, and forgets the one before.
/// @param spans_per_thread  each thread keeps at least so many of its newest spans, in 64 bytes each.
/// @throws InvalidArgument  spans_per_thread is 0 or more than 2^24.
void start(std::size_t spans_per_thread = 32767);
/// Ends the recording, which write() and summary() then tell of. Does nothing if there is none.
void stop() noexcept;
bool is_recording() noexcept;

/// Writes the newest recording, which may go on, in Chrome's trace format (JSON), which Perfetto and
/// chrome://tracing open: replicas and threads are rows, an arrow leads from rank to rank of a collective,
/// and spans have their bytes, path and time of waiting as arguments. Times are those of CLOCK_MONOTONIC,
/// which the processes of a host share.
/// @throws InvalidArgument  nothing was recorded. @throws NotFound  the folder does not exist. @throws Error
/// the file cannot be written.
void write(const std::string& file);

/// Names what the calling thread does until the end of the block, as "train": in errors and reports of calls
/// that are stuck (lockstep/report.hpp), in recordings, and as an NVTX range. Regions nest, to
/// "train/backward", of which reports keep the last 32 bytes. The functions of a `run` are within the regions
/// of its caller. To be destroyed on the thread that made it, the newest first.
class [[nodiscard]] Region {
 public:
  /// @param name  is copied.
  explicit Region(std::string_view name);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  struct State;
  alignas(std::max_align_t) std::byte state_[160];
};

/// What the calls of one name took together.
struct SummaryRow {
  std::string kind;  ///< "run", "collective", "update", "input", "checkpoint" or "region"
  std::string name;  ///< as "all_reduce(sum)"
  std::int64_t num_calls = 0;
  std::int64_t bytes = 0;              ///< of the inputs of all calls
  std::chrono::nanoseconds total{};    ///< of all threads together, calls within the calls included
  std::chrono::nanoseconds longest{};  ///< of one call
  std::chrono::nanoseconds waiting{};  ///< of `total`: for the slowest replica, or for an element
};

struct Summary {
  std::vector<SummaryRow> rows;         ///< by kind; within it the longest total first
  std::chrono::nanoseconds duration{};  ///< of the recording
  std::int64_t num_spans = 0;
  std::int64_t num_lost = 0;  ///< spans that newer ones have replaced; the rows do not count them
};

/// Adds up the newest recording, which may go on; no rows if nothing was recorded.
Summary summary();
/// A table for people.
std::ostream& operator<<(std::ostream& out, const Summary& summary);

}  // namespace lockstep::trace

#pragma GCC visibility pop
