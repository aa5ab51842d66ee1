#include "simulation/workers.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/error.hpp>

#include "simulation/calls.hpp"

namespace lockstep::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kStartLimit{60};
constexpr milliseconds kLaunchPause{100};

Time start_limit(const Plan& plan) {
  return 2 * kStartLimit.count() * kSecond + 8 * plan.heartbeat.count() * kMillisecond;
}

}  // namespace

WorkerOptions WorkerStart::options() const {
  WorkerOptions options{.start_timeout = kStartLimit, .heartbeat_timeout = plan_.heartbeat};
  for (int r = 0; r < plan_.num_replicas; ++r) options.devices.emplace_back(DeviceKind::cpu, r);
  return options;
}

std::unique_ptr<Workers> WorkerStart::start() const {
  std::vector<std::string> addresses;
  for (int w = 0; w < plan_.num_workers; ++w) addresses.push_back(plan_.address_of(w));
  auto resolver = std::make_shared<cluster::SimpleResolver>(
      cluster::ClusterSpec{{"worker", addresses}},
      cluster::ResolverOptions{.task_type = "worker", .task_id = worker_});
  return within_limit(worker_, "the start", start_limit(plan_), [&] {
    return std::make_unique<Workers>(std::move(resolver), CommunicationOptions{.timeout = plan_.timeout()},
                                     options());
  });
}

std::unique_ptr<Workers> WorkerStart::join(const std::string& leader) const {
  const Time limit = plan_.join_limit.count() * kMillisecond + call_limit(plan_);
  return within_limit(worker_, "join", limit, [&] {
    const auto end = steady_clock::now() + plan_.join_limit;
    for (;;) {
      WorkerOptions own = options();
      own.start_timeout =
          std::max(milliseconds(1), std::chrono::ceil<milliseconds>(end - steady_clock::now()));
      try {
        return Workers::join(leader, {.timeout = plan_.timeout()}, own, plan_.address_of(worker_));
      } catch (const InvalidArgument& error) {
        System::current()->note(error.what());
        if (std::string_view(error.what()).find(" is that of worker ") == std::string_view::npos) throw;
        if (steady_clock::now() >= end) throw CollectiveTimeout("those who train have not noticed a loss");
        std::this_thread::sleep_for(kLaunchPause);
      }
    }
  });
}

std::unique_ptr<Workers> WorkerStart::shrink(Workers& strategy) const {
  return within_limit(worker_, "shrink", 10 * start_limit(plan_), [&] {
    for (;;) {
      try {
        return strategy.shrink();
      } catch (const PeerLost& error) {
        System::current()->note(error.what());
      }
    }
  });
}

std::unique_ptr<Workers> WorkerStart::grow(Workers& strategy) const {
  const Time limit = kStartLimit.count() * kSecond + call_limit(plan_);
  return within_limit(worker_, "grow", limit, [&] { return strategy.grow(); });
}

}  // namespace lockstep::simulation
