#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/detail/function_ref.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/strategy/device_assignment.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/stream.hpp>

#include "collectives/rendezvous.hpp"
#include "detail/process.hpp"
#include "strategy/runtime/replica_threads.hpp"
#include "strategy/strategy_kind.hpp"

namespace lockstep::detail {

/// One logical device of every local replica: what a collective runs over.
struct ReplicaGroup {
  explicit ReplicaGroup(std::vector<Device> devices);

  /// The stream of started reductions on replica i's device; made at its first use, by the replica's thread
  /// or, between runs, by whoever holds the strategy's mutex.
  StreamRef communication_stream(int i);

  // One per local replica.
  std::vector<Device> devices;
  std::vector<backend::DeviceBackend*> device_backends;
  Communicator communicator;
  std::vector<std::optional<Stream>> communication_streams;
};

/// In place of a Released that no failure of this run has thrown: a function kept it from another run.
std::exception_ptr late_release(int replica);

/// What an exception says, for ReplicaFailure.
std::string message_of(const std::exception_ptr& error);

/// Whether what a replica's function has thrown is in `failures`, and a time-out said, when it is thrown.
enum class OfFailures : std::uint8_t { silent, told };

/// What a strategy owns.
struct StrategyState {
  /// @param logical_devices  [num_logical_devices][num_replicas]. @param parameter_devices  none: the
  /// replicas'.
  StrategyState(Strategy& strategy, const StrategyKind& kind,
                std::vector<std::vector<Device>> logical_devices, std::vector<Device> parameter_devices,
                const CommunicationOptions& options);

  /// Waits for what was enqueued on the devices' streams.
  ~StrategyState();
  StrategyState(const StrategyState&) = delete;
  StrategyState& operator=(const StrategyState&) = delete;

  const Strategy& strategy;
  const StrategyKind kind;
  std::shared_ptr<const Strategy> life;               // the strategy's; who may outlive it has a weak one
  std::vector<ReplicaGroup> groups;                   // one per logical device
  const std::unique_ptr<Rendezvous> meeting_place;    // null: the only group's
  const std::vector<Device> other_parameter_devices;  // of variables; none: the replicas'
  const std::vector<backend::DeviceBackend*> other_parameter_backends;
  const CommunicationOptions options;
  StrategyExtended extended;
  std::unique_ptr<CrossDeviceOps> cross_device_ops;  // null: the communicators
  std::shared_ptr<cluster::Resolver> cluster_resolver;
  std::optional<DeviceAssignment> assignment;  // of a mesh
  ReplicaThreads threads;
  // Serialises the strategy's calls; re-entered by merge functions, on the same thread.
  RecursiveMutex mutex{"a strategy"};
  std::atomic<Process> called_in{Process::none()};      // where a call is under way
  bool is_closed = false;                               // guarded by `mutex`
  LeafMutex variables_mutex;                            // guards the next two
  std::vector<std::weak_ptr<VariableState>> variables;  // those made in its scope, dead ones among them
  std::size_t max_variables = 16;                       // so many, and the dead ones are left out
  mutable LeafMutex failures_mutex;                     // guards `failures`
  std::vector<std::exception_ptr> failures;             // of the last run, one per local replica, null: none

  /// One of the strategy's calls: others of other threads wait for its end.
  class Call {
   public:
    /// @throws ContextError  the strategy is being destroyed; or this process is a fork, and has none of the
    /// threads that the strategy has started, or that were in a call of it. Names `what`.
    Call(StrategyState& state, std::string_view what);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    StrategyState& state_;
    const std::unique_lock<RecursiveMutex> lock_;
    const Process outer_;
  };
  /// Whether calls could wait for threads of a process that this one is a fork of.
  bool is_forked() const noexcept {
    return threads.is_forked() || called_in.load(std::memory_order_relaxed).is_forked() || mutex.is_lost();
  }
  /// Before the destruction: waits for the calls of other threads, refuses further ones, and ends the
  /// replicas' threads, whose thread_local objects may still read variables.
  /// @return whether this can be destroyed. Not in a fork, where only the strategy's life ends, nor when
  /// std::exit destroys the strategy while it is in use: that waits for no calls. In a function that one of
  /// the calls has called, nothing but std::exit may: else the program ends.
  bool close();

  int num_replicas() const noexcept { return static_cast<int>(groups.front().devices.size()); }
  int num_logical_devices() const noexcept { return static_cast<int>(groups.size()); }
  /// The logical device that the calling thread's guards name.
  std::size_t current_logical_device() const noexcept {
    return groups.size() == 1 ? 0 : static_cast<std::size_t>(LogicalDeviceScope::current(strategy));
  }
  ReplicaGroup& group() noexcept { return groups[current_logical_device()]; }
  const ReplicaGroup& group() const noexcept { return groups[current_logical_device()]; }
  /// The logical device with exactly these devices, one for each replica; none: -1.
  int logical_device_on(std::span<const Device> devices) const noexcept;
  /// Where replicas run, and variables live, on the current logical device.
  const std::vector<Device>& devices() const noexcept { return group().devices; }
  const std::vector<Device>& parameter_devices() const noexcept {
    return other_parameter_devices.empty() ? devices() : other_parameter_devices;
  }
  const std::vector<backend::DeviceBackend*>& parameter_backends() const noexcept {
    return other_parameter_backends.empty() ? group().device_backends : other_parameter_backends;
  }
  /// Where the replicas meet, whatever their logical devices.
  Rendezvous& rendezvous() noexcept {
    return meeting_place ? *meeting_place : groups.front().communicator.rendezvous();
  }
  /// In a replica's function, before a collective: the current logical device, which all replicas agree on,
  /// so that they will meet in that group's rendezvous, too.
  /// @param operation  static. @throws CollectiveMismatch  they are on different ones: names both.
  ReplicaGroup& meet_in_group(int replica, std::string_view operation, std::chrono::milliseconds timeout);
  /// Each device once: those of the replicas, then those of variables that have none.
  std::vector<Device> all_devices() const;

  /// Of the run that the calling thread is in.
  void set_failure(std::size_t replica, std::exception_ptr error) noexcept;

  /// Runs fn(i) for every replica at the same time. When one throws, those that wait for it are released.
  /// Rethrows the lowest replica's exception; one that is only the consequence of another's counts only if
  /// there is no other.
  /// @pre the calling thread holds `mutex`.
  void run_on_replicas(FunctionRef<void(int)> fn, OfFailures of_failures = OfFailures::silent);

  /// Work of the library's own on every replica's device: on the replicas' threads where `bytes` are worth
  /// it, else on this one. fn must not wait for another replica.
  void for_each_replica(std::int64_t bytes, FunctionRef<void(int)> fn);

  template <class Act>
  void for_each_rendezvous(const Act& act) {
    for (ReplicaGroup& one : groups) act(one.communicator.rendezvous());
    if (meeting_place) act(*meeting_place);
  }

  /// Combines one batch over replicas: inputs[i] are replica i's tensors, on its device of `over` and
  /// contiguous.
  /// @return root's results, or with root = -1 everybody's, indexed like the inputs.
  RecycledVector<RecycledVector<Tensor>> reduce(ReplicaGroup& over, ReduceOp op,
                                                std::span<const RecycledVector<Tensor>> inputs, int root,
                                                const CommunicationOptions& call_options);
};

/// Beyond this many bytes a pass over memory outweighs waking the replicas' threads (about 10 µs, or 100 KiB
/// at 10 GB/s).
inline constexpr std::int64_t kThreadedBytes = 256 * 1024;

}  // namespace lockstep::detail
