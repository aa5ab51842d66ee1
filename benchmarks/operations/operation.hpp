#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/strategy/strategy.hpp>

#include "measure/verify.hpp"
#include "options/options.hpp"

namespace lockstep::bench {

/// One operation of a strategy with its operands, at one size.
class StrategyOperation {
 public:
  virtual ~StrategyOperation() = default;

  /// The bytes of one replica's operands.
  virtual std::int64_t size_bytes() const { return 0; }
  virtual std::int64_t count() const { return 0; }
  /// The bytes that this process's replicas must read and write for it in their devices' memory.
  virtual std::int64_t least_bytes() const { return 0; }

  /// Writes operands whose results are known, a different set for each seed; without a seed, those to measure
  /// with.
  virtual void prepare(std::optional<std::uint64_t> seed) = 0;
  /// Runs it `times` times. Returns when the work is enqueued.
  virtual void run(int times) = 0;
  /// Runs the entry's `floor` `times` times, with operands as large. @pre the entry has one.
  virtual void run_floor(int /*times*/) {}
  /// The results of the last run.
  virtual std::vector<Tensor> results() const = 0;
  /// @param results  of one run after prepare(seed). @return how many elements are wrong.
  virtual std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const = 0;
};

/// The description of one operation. Each has a small file, and operation.cpp lists them.
struct OperationEntry {
  Traits traits;
  std::string_view bus_formula;
  double (*bus_factor)(int num_replicas);
  /// @param size_bytes  of one replica's operands, which are a whole number of elements below it.
  std::unique_ptr<StrategyOperation> (*make)(Strategy& strategy, const Options& options, const DataCase& data,
                                             std::int64_t size_bytes);
};

/// The floor of collectives.
inline constexpr std::string_view kCollectiveFloor =
    "the faster of two plain loops of the same threads over the same buffers";
/// The same in several processes.
inline constexpr std::string_view kSharedHostFloor =
    "the faster of two plain loops of the same threads over as large buffers, which all processes share";
inline constexpr std::string_view kCollectiveGpuFloor =
    "each rank's copy, in its device's memory, of half the bytes that it must read and write";

std::span<const OperationEntry* const> all_operations();
/// @return null: there is no operation of that name.
const OperationEntry* find_operation(std::string_view name);
/// The traits of all collectives and all operations of a strategy.
std::span<const Traits> all_traits();

/// The id of this process's first replica; not 0 where several processes have replicas.
int first_replica(Strategy& strategy);

/// fill_contribution or fill_message.
using Fill = void (*)(const Pattern& pattern, int rank, void* data, std::int64_t begin, std::int64_t end);
/// Writes elements [0, size) of `fill` for `rank` to `tensor`.
void fill_tensor(Fill fill, const Pattern& pattern, int rank, Tensor& tensor);

/// How many elements of a tensor, on any device, are not the reduction of all ranks' contributions.
std::int64_t count_wrong_in(const Pattern& pattern, const Tensor& result);

}  // namespace lockstep::bench
