#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "simulation/system/random.hpp"
#include "simulation/system/system.hpp"

namespace lockstep::simulation {

/// What goes wrong.
enum class FaultKind {
  kill,       ///< The process ends at once; its system closes its connections.
  crash,      ///< Its host is gone: nobody hears anything.
  pause,      ///< It is stopped for so long.
  cut,        ///< Nothing passes between two hosts for so long.
  full_disk,  ///< No file takes more for so long.
  exception,  ///< A replica throws, once.
  hang,       ///< A replica does not come to a collective for so long, and the others have a time limit.
};
constexpr FaultKind kFaultKinds[] = {FaultKind::kill, FaultKind::crash,     FaultKind::pause,
                                     FaultKind::cut,  FaultKind::full_disk, FaultKind::exception,
                                     FaultKind::hang};
const char* name(FaultKind kind);

/// What a fault comes after: the step, a loss that a worker has heard of, or that workers begin to grow.
enum class Cue { step, loss, grow };

struct Fault {
  FaultKind kind = FaultKind::kill;
  int worker = 0, other = 0;  ///< `other`: of a cut.
  Cue cue = Cue::step;
  int at_step = 0;         ///< Once a worker has done so many.
  Time delay = 0;          ///< After that.
  Time duration = 0;       ///< Of those that end.
  Time returns_after = 0;  ///< So long after a process has ended for it one with its address joins; 0: none.
};

/// What is broken on purpose, so that the checks must find it.
enum class Defect {
  none,
  skipped_step,
  repeated_step,
  other_bits,
  lost_message,
  open_descriptor,
  lost_memory,
  ignored_joiner
};

/// What a seed stands for.
struct Plan {
  explicit Plan(std::uint64_t seed);
  /// Training of so many hours, whose steps take a second. In the first half of each hour something goes
  /// wrong every 5 minutes, after which all start anew if they must.
  Plan(std::uint64_t seed, double hours);

  int num_workers = 2, num_replicas = 1;  ///< Replicas of each worker.
  int num_steps = 10, rows_per_step = 4, steps_per_save = 3;
  std::int64_t num_summed = 3;               ///< Numbers of each step's other all_reduce.
  int num_shuffled = 1, num_read_ahead = 1;  ///< Rows, batches.
  bool saves_asynchronously = false;
  bool is_long = false;      ///< Hours, in which one fault is over before the next comes.
  Time step_time = 0;        ///< That a replica computes for in each step.
  Time look = kMillisecond;  ///< How often whoever brings faults, and starts workers, looks at them.
  int remake_at = 0;         ///< The step after which all make their strategy anew; 0: none.
  bool is_one_host = false;  ///< The workers meet in shared memory.
  bool shrinks = true;       ///< After a loss; else all start anew.
  bool joins = false;        ///< Those that train ask after each step who waits to join them.
  std::chrono::milliseconds join_limit{0};  ///< Of the wait of each that joins.
  std::chrono::milliseconds heartbeat{1000};
  std::vector<Fault> faults{};  ///< In the order in which they come.
  Defect defect = Defect::none;

  std::string host_of(int worker) const;
  std::string address_of(int worker) const;
  /// Of collectives; 0: none.
  std::chrono::milliseconds timeout() const;
  /// By which faults may hold a call back.
  Time longest_delay() const;
  /// Whether no worker may notice it.
  bool is_harmless(const Fault& fault) const;
  std::string describe() const;
};

}  // namespace lockstep::simulation
