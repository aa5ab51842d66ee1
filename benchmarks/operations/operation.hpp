#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/strategy/strategy.hpp>

#include "measure/verify.hpp"
#include "options.hpp"

namespace lockstep::bench {

/// One operation of a strategy with its operands, at one size.
class StrategyOperation {
 public:
  virtual ~StrategyOperation() = default;

  /// What one replica brings.
  virtual std::int64_t size_bytes() const { return 0; }
  virtual std::int64_t count() const { return 0; }

  /// Writes operands whose results are known, another set for each seed; none: those to measure with.
  virtual void prepare(std::optional<std::uint64_t> seed) = 0;
  /// So many times. Returns when the work is enqueued.
  virtual void run(int times) = 0;
  /// So many times what the entry's `floor` says, with operands as large. @pre it says something.
  virtual void run_floor(int /*times*/) {}
  /// Of the last run.
  virtual std::vector<Tensor> results() const = 0;
  /// @param results  of one run after prepare(seed). @return how many elements are not what they must be.
  virtual std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const = 0;
};

/// What the benchmark must know of one. One small file each, listed in operation.cpp.
struct OperationEntry {
  Traits traits;
  std::string_view bus_formula;
  double (*bus_factor)(int num_replicas);
  /// @param size_bytes  of what one replica brings; operands are a whole number of elements below it.
  std::unique_ptr<StrategyOperation> (*make)(Strategy& strategy, const Options& options, const DataCase& data,
                                             std::int64_t size_bytes);
};

/// The floor of collectives.
inline constexpr std::string_view kCollectiveFloor =
    "the faster of two plain loops of the same threads over the same buffers";
inline constexpr std::string_view kCollectiveGpuFloor =
    "each rank's copy, in its device's memory, of half the bytes that it must read and write";

std::span<const OperationEntry* const> all_operations();
/// @return null: `name` is none.
const OperationEntry* find_operation(std::string_view name);
/// Of all collectives and all operations of a strategy.
std::span<const Traits> all_traits();

/// `tensor` takes elements [0, size) of what fill_contribution or fill_message writes for `rank`.
using Fill = void (*)(const Pattern& pattern, int rank, void* data, std::int64_t begin, std::int64_t end);
void fill_tensor(Fill fill, const Pattern& pattern, int rank, Tensor& tensor);

/// How many elements of a tensor, on any device, are not the reduction of all ranks' contributions.
std::int64_t count_wrong_in(const Pattern& pattern, const Tensor& result);

}  // namespace lockstep::bench
