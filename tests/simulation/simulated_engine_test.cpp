#include "simulation/simulated_engine.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/backend/engine.hpp>

#include "engines/channel_contract.hpp"
#include "simulation/fork.hpp"
#include "simulation/start_process.hpp"
#include "workers/control/control_connection.hpp"

using namespace lockstep;
using namespace lockstep::simulation;

namespace {

struct Silent final : detail::ControlListener {
  void on_failure(int, std::uint64_t, std::string) override {}
  void on_lost(int, std::string) override {}
  void on_left(int) override {}
};

/// A channel whose connections outlive it: to a process that is late its peers would else seem lost.
class Borrowed final : public backend::Channel {
 public:
  explicit Borrowed(backend::Channel& lender) : lender_(lender) {}
  void all_gather(std::span<const std::byte> own, std::span<std::byte> all,
                  backend::Deadline deadline) override {
    lender_.all_gather(own, all, deadline);
  }
  void broadcast(std::span<std::byte> buffer, int root, backend::Deadline deadline) override {
    lender_.broadcast(buffer, root, deadline);
  }
  void barrier(backend::Deadline deadline) override { lender_.barrier(deadline); }
  void all_to_all(std::span<const std::span<const std::byte>> sends,
                  std::span<const std::span<std::byte>> receives, backend::Deadline deadline) override {
    lender_.all_to_all(sends, receives, deadline);
  }
  void abort(std::string_view cause) noexcept override { lender_.abort(cause); }

 private:
  backend::Channel& lender_;
};

std::string host_of(int process) { return "10.0.0." + std::to_string(process + 1); }

void run(const test::NamedChannelCase& named, int process, const std::vector<std::string>& addresses) {
  Silent listener;
  detail::ControlConnection store(
      {.worker = process, .addresses = addresses, .silence_limit = std::chrono::hours(1)}, listener);
  const auto engine = backend::find_engine("simulated")
                          ->start({.process = process,
                                   .num_processes = static_cast<int>(addresses.size()),
                                   .store = &store,
                                   .host = host_of(process)});
  std::vector<std::unique_ptr<backend::Channel>> channels;
  named.run({.process = process, .num_processes = static_cast<int>(addresses.size()), .open_channel = [&] {
               channels.push_back(engine->open_channel());
               return std::make_unique<Borrowed>(*channels.back());
             }});
  store.barrier("the end", std::nullopt);
}

}  // namespace

TEST_CASE("the simulated engine keeps the contract of channels", "[simulation]") {
  const int num_processes = GENERATE(1, 2, 3);
  for (const test::NamedChannelCase& named : test::channel_contract()) {
    if (num_processes == 1 && named.fails_group) continue;  // alone nobody waits
    CAPTURE(num_processes, named.name);
    const Outcome outcome = simulate(1, [&](System& system, Network&) {
      std::vector<std::string> addresses;
      for (int p = 0; p < num_processes; ++p) addresses.push_back(host_of(p) + ":2222");
      std::vector<Process*> processes;
      for (int p = 0; p < num_processes; ++p)
        processes.push_back(&start_process(system, host_of(p), [&, p] { run(named, p, addresses); }));
      for (const Process* process : processes)
        if (!await_end(system, *process, 36'000 * kSecond)) return std::string("it does not end");
      return std::string();
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.result == "");
  }
}
