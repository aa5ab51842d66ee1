#include "measure/runner.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <thread>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <lockstep/device_manager.hpp>

#include "detail/concat.hpp"
#include "detail/numa.hpp"

namespace lockstep::bench {

std::vector<RankInfo> rank_infos(const Options& options, const std::vector<int>& groups,
                                 const Processes& processes) {
  std::array<char, 256> hostname{};
  gethostname(hostname.data(), hostname.size() - 1);
  auto own = nlohmann::json::array();  // for the other processes
  for (const Device& device : make_devices(options)) {
    const DeviceInfo info = DeviceManager::instance().info(device);
    own.push_back({getpid(), hostname.data(), device.index(),
                   info.pci_bus_id.empty() ? "0000:00:00" : info.pci_bus_id, info.name});
  }
  std::vector<RankInfo> infos;
  for (const std::string& text : processes.all_gather("the devices of the ranks", own.dump())) {
    for (const auto& device : nlohmann::json::parse(text))
      infos.push_back({.rank = static_cast<int>(infos.size()),
                       .group = groups[infos.size()],
                       .pid = device[0],
                       .hostname = device[1],
                       .device = device[2],
                       .pci_bus_id = device[3],
                       .device_name = device[4]});
  }
  return infos;
}

std::vector<int> Runner::groups() const {
  std::vector<int> colors;
  for (const RankBuffers& rank : team_.places)
    colors.push_back(team_.groups[static_cast<std::size_t>(rank.group)].color);
  return colors;
}

std::int64_t Runner::allocated_bytes() const {
  std::int64_t bytes = 0;
  for (const Replica& replica : team_.replicas) bytes += replica.allocated_bytes();
  return bytes;
}

void Runner::run(const std::function<void(const Row&)>& on_row) {
  {
    std::vector<std::jthread> threads;
    try {
      for (int thread = 1; thread < team_.options.threads; ++thread)
        threads.emplace_back([this, thread, &on_row] { work(thread, on_row); });
    } catch (...) {
      fail(std::current_exception());
    }
    work(0, on_row);
  }
  if (failure_) std::rethrow_exception(failure_);
}

void Runner::work(int thread, const std::function<void(const Row&)>& on_row) noexcept {
  const int threads = team_.options.threads;
  const Processes& processes = team_.processes;
  const bool has_cores =
      threads * processes.count_on_host() <= static_cast<int>(std::thread::hardware_concurrency());
  // as mpirun does
  if (has_cores) detail::Numa::machine().bind_to_core(processes.index_on_host() * threads + thread);
  try {
    Worker(team_, thread).sweep(on_row);
  } catch (const Stopped&) {
    // the thread that stopped this one has said why
  } catch (...) {
    fail(std::current_exception());
  }
}

void Runner::fail(std::exception_ptr failure) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
  // Other threads wait at the barrier or in a collective. The first failure is recorded before they can fail
  // in turn.
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    team_.fail(error.what());
  } catch (...) {
    team_.fail("an exception that is not a std::exception");
  }
}

bool fit_to_memory(Options& options, const SharedMemory& memory) {
  const std::int64_t most = largest_buffer_bytes(memory);
  if (options.max_bytes <= most) return false;
  if (!options.batch_sizes_bytes.empty() || !options.traffic.matrix.empty())
    throw OptionError(ExitStatus::bad_size,
                      detail::concat("the sizes that were listed need buffers of ", options.max_bytes,
                                     " bytes, and ", memory.num_ranks, " ranks in one memory ",
                                     memory.buffers_per_rank * memory.num_ranks, " of these, but ",
                                     memory.free_bytes, " bytes are free; use smaller sizes or fewer ranks"));
  options.max_bytes = most;
  options.min_bytes = std::min(options.min_bytes, most);
  return true;
}

}  // namespace lockstep::bench
