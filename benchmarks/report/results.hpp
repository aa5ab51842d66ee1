#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/bandwidth.hpp"
#include "report/statistics.hpp"

namespace lockstep::bench {

/// A line of "Using devices".
struct RankInfo {
  int rank = 0;
  int group = 0;
  int pid = 0;
  std::string hostname;
  int device = 0;
  std::string pci_bus_id;
  std::string device_name;
};

/// The time of a plain loop over the same memory, in the same run.
struct Floor {
  double time_us = 0;
  double ratio = 0;  ///< The floor's time over the collective's: 1 is as fast as the loop.
};

/// What one operation does, as virtual GPUs count it, on all ranks of all processes together.
struct Counted {
  double sectors = 0;             ///< Of 32 bytes, loaded and stored in the GPUs' memory.
  double least_bytes = 0;         ///< That it must load and store.
  std::optional<double> ratio{};  ///< Of the bytes of the sectors to the least; none where it need move none.
  double launches = 0;            ///< Of kernels, the libraries' included.
  double calls = 0;               ///< Of the CUDA runtime, NCCL and cuBLAS.
  double waits = 0;               ///< Of these, those that wait for a device or may.
};

/// One half of a row: outputs apart from inputs, or in their place.
struct Placement {
  double time_us = 0;
  Bandwidth bandwidth{};
  std::optional<std::int64_t> wrong{};  ///< None: not checked.
  std::optional<IterationStatistics> iterations{};
  std::optional<Floor> floor{};
  std::optional<Counted> counted{};
};

/// One line of the table.
struct Row {
  std::int64_t size_bytes = 0;
  std::int64_t count = 0;
  std::string type{};
  std::string op = "none";
  int root = -1;
  Placement out_of_place{}, in_place{};
  std::string timestamp{};
  int iterations = 0;
};

/// The summary of all rows.
class Summary {
 public:
  explicit Summary(std::optional<double> pass_mark_gbps) : pass_mark_gbps_(pass_mark_gbps) {}

  void add(const Row& row);

  /// The number of measurements, of either placement, with wrong values.
  int failed_checks() const noexcept { return failed_checks_; }
  /// The plain mean over all rows and both placements.
  double average_bus_bandwidth() const noexcept {
    return num_bandwidths_ > 0 ? sum_gbps_ / num_bandwidths_ : 0;
  }
  /// Whether the mean reaches 0.9 of the pass mark; none without a mark.
  std::optional<bool> bandwidth_passes() const;
  bool passes() const { return failed_checks_ == 0 && bandwidth_passes().value_or(true); }

 private:
  std::optional<double> pass_mark_gbps_;
  int failed_checks_ = 0;
  double sum_gbps_ = 0;
  int num_bandwidths_ = 0;
};

/// "2026-01-31 23:59:59", local time, now.
std::string timestamp_now();

}  // namespace lockstep::bench
