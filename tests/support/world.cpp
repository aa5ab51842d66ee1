#include "support/world.hpp"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>

#include <catch2/catch_message.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <sys/stat.h>

#include <lockstep/cluster/roles.hpp>
#include <lockstep/cluster/tf_config_resolver.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "support/temporary_directory.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

namespace {

std::string environment(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

bool has_workers() { return !environment("TF_CONFIG", "").empty(); }

/// The strategy of the workers that TF_CONFIG lists.
std::unique_ptr<Strategy> make_multi_worker_strategy(const std::vector<Device>& devices,
                                                     const CommunicationOptions& options) {
  return std::make_unique<MultiWorkerMirroredStrategy>(cluster::from_environment(), options,
                                                       WorkerOptions{.devices = devices});
}

std::unique_ptr<Strategy> make(const std::vector<Device>& devices, const CommunicationOptions& options) {
  if (has_workers()) return make_multi_worker_strategy(devices, options);
  return std::make_unique<MirroredStrategy>(devices, options);
}

/// What is made once, and goes when the tests have ended, not when the process does.
struct Kept {
  std::optional<TemporaryDirectory> own_folder;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Strategy> one_process;
  std::optional<World> world;
};

Kept& kept() {
  static Kept* const value = new Kept;
  return *value;
}

/// The devices of a worker's replicas: where all workers see the same GPUs, its own part of them.
std::vector<Device> devices_of(int worker, int num_workers, int num_local) {
  const bool is_shared = TestBackend::kKind == DeviceKind::gpu && num_workers > 1;
  std::vector<Device> all = TestBackend::devices(is_shared ? num_workers * num_local : num_local);
  const auto begin = all.begin() + (is_shared ? worker * num_local : 0);
  return {begin, begin + num_local};
}

class EndOfTests : public Catch::EventListenerBase {
 public:
  using EventListenerBase::EventListenerBase;
  void testRunEnded(const Catch::TestRunStats&) override {
    kept().world.reset();
    kept().strategy.reset();
    kept().one_process.reset();
    kept().own_folder.reset();
  }
};
CATCH_REGISTER_LISTENER(EndOfTests)

void make_world() {
  int num_workers = 1, worker = 0;
  if (has_workers()) {
    const cluster::TfConfigResolver resolver;
    const auto spec = resolver.cluster_spec();
    num_workers = cluster::worker_count(spec, resolver.task_type().value(), resolver.task_id().value());
    worker = cluster::id_in_cluster(spec, resolver.task_type().value(), resolver.task_id().value());
  }
  const int num_local = std::stoi(environment("LOCKSTEP_TEST_REPLICAS", has_workers() ? "1" : "2"));
  const std::vector<Device> devices = devices_of(worker, num_workers, num_local);
  std::filesystem::path folder = environment("LOCKSTEP_TEST_FOLDER", "");
  if (folder.empty() && num_workers > 1)
    throw std::runtime_error("LOCKSTEP_TEST_FOLDER names no folder, which several workers share");
  if (folder.empty()) folder = kept().own_folder.emplace().path();
  kept().strategy = make(devices, {});
  kept().world.emplace(World{.strategy = *kept().strategy,
                             .num_replicas = num_workers * num_local,
                             .first_replica = worker * num_local,
                             .num_local_replicas = num_local,
                             .num_workers = num_workers,
                             .worker = worker,
                             .devices = devices,
                             .folder = folder});
}

/// Units in the last place by which a GPU's rounding may differ.
constexpr double kMaxUnits = 8;

template <class T>
bool is_equal(T actual, T expected) {
  if constexpr (std::integral<T>) {
    return actual == expected;
  } else {
    if (std::memcmp(&actual, &expected, sizeof(T)) == 0) return true;
    const auto a = static_cast<double>(actual), b = static_cast<double>(expected);
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (TestBackend::kKind == DeviceKind::cpu) return false;
    // A double may be computed from floats. A mean of subnormal floats may round to either neighbour.
    constexpr double unit = sizeof(T) >= sizeof(float) ? 0x1p-23 : 0x1p-7;
    constexpr double least = std::numeric_limits<float>::denorm_min();
    return std::abs(a - b) <= least + kMaxUnits * unit * std::max(std::abs(a), std::abs(b));
  }
}

}  // namespace

std::unique_ptr<Strategy> World::make_strategy_on(const std::vector<Device>& own_devices,
                                                  const CommunicationOptions& options) const {
  return make(own_devices, options);
}

const World& world() {
  if (!kept().world) make_world();
  return *kept().world;
}

Strategy& one_process() {
  if (!kept().one_process) {
    std::vector<Device> devices;
    for (int replica = 0; replica < world().num_replicas; ++replica)
      devices.emplace_back(DeviceKind::cpu, replica);
    kept().one_process = std::make_unique<MirroredStrategy>(devices);
  }
  return *kept().one_process;
}

std::string difference(const Tensor& actual, const Tensor& expected) {
  if (actual.shape() != expected.shape() || actual.dtype() != expected.dtype())
    return describe(actual) + " instead of " + describe(expected);
  return dispatch(actual.dtype(), [&]<class T>() -> std::string {
    const std::vector<T> a = actual.to_vector<T>(), b = expected.to_vector<T>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const T x = a[i], y = b[i];
      if (!is_equal(x, y))
        return "element " + std::to_string(i) + " is " + std::to_string(static_cast<double>(x)) +
               " instead of " + std::to_string(static_cast<double>(y));
    }
    return "";
  });
}

Thrown thrown_by(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    UNSCOPED_INFO("thrown: " << error.what());
    return {std::current_exception(), error.what()};
  } catch (...) {
    return {std::current_exception(), ""};
  }
  return {};
}

bool is_usable(Strategy& strategy) {
  const int n = world().num_replicas;
  const auto sums = strategy.run([](ReplicaContext& ctx) {
    const int sum = ctx.all_reduce(ReduceOp::sum, 1).item<int>();
    return sum + ctx.merge_call([](Strategy&) { return 100; });
  });
  bool are_right = true;
  for (const int sum : sums) are_right = are_right && sum == n + 100;
  return strategy.reduce(ReduceOp::sum, sums).template item<int>() == n * (n + 100) && are_right &&
         strategy.last_failures().empty();
}

Thrown thrown_once(Strategy& strategy, const std::function<void()>& fn) {
  Thrown thrown = thrown_by(fn);
  if (!thrown) {
    thrown = thrown_by([&] {
      const bool usable = is_usable(strategy);  // an assertion would keep its exception
      CHECK(usable);
    });
  }
  CHECK(is_usable(strategy));
  return thrown;
}

Signal::Signal() {
  static int count = 0;
  path_ = world().folder / ("signal-" + std::to_string(count++));
  if (mkfifo(path_.c_str(), 0600) != 0 && errno != EEXIST)
    throw std::runtime_error("mkfifo " + path_.string() + ": " + std::strerror(errno));
}

// Each end of a pipe with a name waits until the other one is opened.
void Signal::send() const { std::ofstream pipe(path_); }
void Signal::receive() const { std::ifstream pipe(path_); }

}  // namespace lockstep::test
