#include "processes/processes.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include <unistd.h>

#include <lockstep/cluster/simple_resolver.hpp>

#include "detail/concat.hpp"
#include "workers/control/socket.hpp"

namespace lockstep::bench {
namespace {

constexpr std::chrono::milliseconds kNoLimit{0};

std::string hostname() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

Processes::Processes(const Launch& launch) : resolver_(launch.resolver) {
  if (resolver_ != nullptr)
    group_ = detail::WorkerGroup::connect(*resolver_, {}, cluster::environment_variables());
}

int Processes::count_on_host() const noexcept {
  int count = 0;
  for (int process = 0; process < this->count(); ++process)
    count += is_alone() || group_->host(process) == group_->host(index()) ? 1 : 0;
  return count;
}

int Processes::index_on_host() const noexcept {
  int before = 0;
  for (int process = 0; process < index(); ++process)
    before += group_->host(process) == group_->host(index()) ? 1 : 0;
  return before;
}

std::vector<std::string> Processes::all_gather(std::string_view what, std::string own) const {
  if (is_alone()) return {std::move(own)};
  return group_->all_gather(what, std::move(own));
}

void Processes::meet() const {
  if (!is_alone()) group_->meeting().meet("the meeting of all processes", {}, kNoLimit);
}

std::vector<std::vector<double>> Processes::gather(std::span<const double> own) const {
  if (is_alone()) return {{own.begin(), own.end()}};
  group_->meeting().meet("the exchange of results", std::as_bytes(own), kNoLimit);
  std::vector<std::vector<double>> all(static_cast<std::size_t>(count()));
  for (int process = 0; process < count(); ++process) {
    const std::span<const std::byte> message = group_->meeting().message(process);
    std::vector<double>& numbers = all[static_cast<std::size_t>(process)];
    numbers.resize(message.size() / sizeof(double));
    std::memcpy(numbers.data(), message.data(), message.size());
  }
  return all;
}

std::int64_t Processes::sum(std::int64_t own) const {
  const auto number = static_cast<double>(own);
  std::int64_t sum = 0;
  for (const std::vector<double>& numbers : gather({&number, 1}))
    sum += static_cast<std::int64_t>(numbers.front());
  return sum;
}

// A group of some processes is a cluster of its own, around a free port of its first process.
std::vector<std::shared_ptr<detail::WorkerGroup>> Processes::connect_groups(
    const std::vector<std::vector<int>>& members) const {
  std::vector<std::shared_ptr<detail::WorkerGroup>> groups(members.size());
  if (is_alone()) return groups;
  for (std::size_t g = 0; g < members.size(); ++g) {
    const bool is_whole = static_cast<int>(members[g].size()) == count();
    if (members[g].size() == 1) continue;
    if (is_whole) {
      groups[g] = detail::WorkerGroup::connect(*resolver_, {}, cluster::environment_variables());
      continue;
    }
    const int port = detail::control::ListeningSocket("0.0.0.0:0").port();
    const std::string host = are_on_one_host() ? "127.0.0.1" : hostname();
    const std::vector<std::string> all =
        all_gather("the addresses of a group", detail::concat(host, ':', port));
    const auto own = std::ranges::find(members[g], index());
    if (own == members[g].end()) continue;
    std::vector<std::string> addresses;
    for (const int process : members[g]) addresses.push_back(all[static_cast<std::size_t>(process)]);
    const cluster::SimpleResolver resolver(
        {{"worker", addresses}},
        {.task_type = "worker", .task_id = static_cast<int>(own - members[g].begin())});
    // The launcher's engine would connect all its processes.
    groups[g] = detail::WorkerGroup::connect(
        resolver, {.start_timeout = std::chrono::seconds(60), .shares_connection = false},
        {{"LOCKSTEP_ENGINE", "gloo"}});
  }
  return groups;
}

void Processes::break_off(const std::string& cause) const noexcept {
  if (!is_alone()) group_->meeting().break_off(cause);
}

}  // namespace lockstep::bench
