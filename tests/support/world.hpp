#pragma once

#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/collectives/options.hpp>
#include <lockstep/device.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/tensor.hpp>

/// One strategy for all tests of a program: of one process, or of several that run the same tests in the same
/// order. Tests speak of replicas by their global ids; a process checks its own components, and what is equal
/// everywhere. As replicas of other processes would wait, a test makes the same calls of the strategy on
/// every process, and uses CHECK, not REQUIRE, before the last of them.
namespace lockstep::test {

/// The strategy, and what is known of it beforehand.
struct World {
  Strategy& strategy;
  int num_replicas;  ///< Of all workers.
  int first_replica;
  int num_local_replicas;
  int num_workers;
  int worker;
  std::vector<Device> devices;   ///< Of the local replicas.
  std::filesystem::path folder;  ///< The same one, in which all workers may write.

  /// Another strategy on the same devices; all workers make it together.
  std::unique_ptr<Strategy> make_strategy(const CommunicationOptions& options = {}) const {
    return make_strategy_on(devices, options);
  }
  /// The same on other devices of this worker's.
  std::unique_ptr<Strategy> make_strategy_on(const std::vector<Device>& own_devices,
                                             const CommunicationOptions& options = {}) const;

  int last_replica() const { return num_replicas - 1; }
  int end_replica() const { return first_replica + num_local_replicas; }
  bool is_own(int replica) const { return first_replica <= replica && replica < end_replica(); }
  int worker_of(int replica) const { return replica / num_local_replicas; }
  const Device& device(int replica) const {
    return devices[static_cast<std::size_t>(replica - first_replica)];
  }
};

/// With TF_CONFIG in the environment, LOCKSTEP_TEST_REPLICAS (1 unless set) replicas in each of its workers'
/// processes, which share the folder LOCKSTEP_TEST_FOLDER (support/run_workers.sh sets all three); else as
/// many (2 unless set) in this one.
const World& world();

/// N replicas in this process, on the host: what results must be equal to.
Strategy& one_process();

/// Makes a value for each of a strategy's local replicas, fn(global id), with the replica's device current.
template <class F>
auto values_on(Strategy& strategy, const F& fn) {
  const std::vector<Device> devices = strategy.extended().worker_devices();
  std::size_t next = 0;
  return strategy.distribute_values_from_function([&](ValueContext context) {
    const DeviceScope here(devices[next++]);
    return fn(context.replica_id_in_sync_group());
  });
}
template <class F>
auto values(const F& fn) {
  return values_on(world().strategy, fn);
}

/// How two tensors differ, element for element; empty: not at all. Bit for bit, but for the bits of NaN;
/// between a GPU and the host, which may round differently, floating-point numbers by some units in the last
/// place.
std::string difference(const Tensor& actual, const Tensor& expected);

/// fn(ReplicaContext&), which gives a std::vector<Tensor>, on the strategy under test and on one process's as
/// many replicas. @return how the local replicas' results differ from those of the same global ids; empty:
/// not at all.
template <class F>
std::string difference_from_one_process(const F& fn, Strategy& strategy = world().strategy) {
  const auto run = [&](Strategy& on) {
    std::vector<std::vector<Tensor>> results(static_cast<std::size_t>(world().num_replicas));
    on.run([&](ReplicaContext& ctx) {
      results[static_cast<std::size_t>(ctx.replica_id_in_sync_group())] = fn(ctx);
    });
    return results;
  };
  const auto actual = run(strategy);
  const auto expected = run(one_process());
  std::string text;
  for (int replica = world().first_replica; replica < world().end_replica(); ++replica) {
    const auto& mine = actual[static_cast<std::size_t>(replica)];
    const auto& theirs = expected[static_cast<std::size_t>(replica)];
    if (mine.size() != theirs.size()) text += "replica " + std::to_string(replica) + " has other results; ";
    for (std::size_t k = 0; k < mine.size() && k < theirs.size(); ++k)
      if (const std::string found = difference(mine[k], theirs[k]); !found.empty())
        text +=
            "result " + std::to_string(k) + " of replica " + std::to_string(replica) + ": " + found + "; ";
  }
  return text;
}

/// What a call has thrown.
struct Thrown {
  std::exception_ptr error;  ///< Null: nothing.
  std::string text;          ///< Of a std::exception.

  explicit operator bool() const noexcept { return error != nullptr; }
  bool has(std::string_view part) const { return text.find(part) != std::string::npos; }
  /// Whether the text names a replica, or the worker that it is of.
  bool names(int replica) const {
    return has("replica " + std::to_string(replica)) ||
           (world().num_workers > 1 && has("worker " + std::to_string(world().worker_of(replica))));
  }
  template <class E>
  bool is() const {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const E&) {
      return true;
    } catch (...) {
    }
    return false;
  }
};

Thrown thrown_by(const std::function<void()>& fn);

/// Whether a strategy's run, reduction and merge call give what they should.
bool is_usable(Strategy& strategy);

/// Makes a call that fails on one worker at least, and then checks that the strategy works. Each worker hears
/// of the failure once: in the call, or, where it has come to its end without the others, in the next one.
Thrown thrown_once(Strategy& strategy, const std::function<void()>& fn);

/// One worker's word to the others, whatever the strategy does meanwhile: `send` waits for `receive`, and the
/// other way round. All workers make it.
class Signal {
 public:
  Signal();
  void send() const;
  void receive() const;

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::test
