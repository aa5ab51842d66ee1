#include "report/results.hpp"

#include <array>
#include <ctime>

namespace lockstep::bench {

void Summary::add(const Row& row) {
  for (const Placement* placement : {&row.out_of_place, &row.in_place}) {
    failed_checks_ += placement->wrong.value_or(0) > 0 ? 1 : 0;
    sum_gbps_ += placement->bandwidth.bus;
    ++num_bandwidths_;
  }
}

std::optional<bool> Summary::bandwidth_passes() const {
  if (!pass_mark_gbps_) return {};
  return average_bus_bandwidth() >= 0.9 * *pass_mark_gbps_;
}

std::string timestamp_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local)};
}

}  // namespace lockstep::bench
