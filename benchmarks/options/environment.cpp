#include "options/environment.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "collectives/table.hpp"
#include "detail/concat.hpp"

namespace lockstep::bench {

using detail::concat;

void read_environment(Options& options, const Environment& environment) {
  const auto number = [](const char* text, const char* variable) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0))
      throw OptionError(ExitStatus::usage, concat(variable, " '", text, "' is not a number of at least 0"));
    return value;
  };
  // Host replicas are the process's own, so that all processes number them alike.
  if (options.device_kind == DeviceKind::gpu)
    options.first_device = options.launch.index_on_host * options.num_local_ranks();
  if (const char* text = environment("NCCL_TESTS_DEVICE")) {
    constexpr double kMostDevices = 1 << 20;
    const double device = number(text, "NCCL_TESTS_DEVICE");
    if (device >= kMostDevices)
      throw OptionError(ExitStatus::usage, concat("NCCL_TESTS_DEVICE '", text, "' is no device's number"));
    options.first_device = static_cast<int>(device);
  }
  if (const char* text = environment("NCCL_TESTS_MIN_BW"))
    options.pass_mark_gbps = number(text, "NCCL_TESTS_MIN_BW");
  // The mask is the older spelling of AND; it wins, as in nccl-tests.
  if (const char* text = environment("NCCL_TESTS_SPLIT_MASK"))
    options.split = parse_mask(text, "NCCL_TESTS_SPLIT_MASK");
  else if (const char* split = environment("NCCL_TESTS_SPLIT"))
    options.split = parse_split(split, "NCCL_TESTS_SPLIT");
}

void check_split(const Options& options, const Traits& operation) {
  if (options.split.operation == Split::Operation::none) return;
  if (operation.is_strategy)
    throw OptionError(ExitStatus::usage, concat("NCCL_TESTS_SPLIT makes no sense with ", operation.name,
                                                ": a strategy's replicas are one group"));
  std::map<int, int> sizes;
  for (int rank = 0; rank < options.num_ranks(); ++rank) ++sizes[options.split.color(rank)];
  const auto by_size = [](const auto& group) { return group.second; };
  const int smallest = std::ranges::min_element(sizes, {}, by_size)->second;
  const int first = sizes.begin()->second;
  if (operation.has_root && options.root.value_or(first - 1) >= smallest)
    throw OptionError(ExitStatus::usage, concat("-r (--root) ", options.root ? concat(*options.root) : "all",
                                                " names a rank that a group of ", smallest,
                                                " ranks, made by NCCL_TESTS_SPLIT, does not have"));
  if (const Collective* const collective = find_collective(operation.name)) {
    constexpr std::int64_t kElements = 1 << 20;
    const int largest = std::ranges::max_element(sizes, {}, by_size)->second;
    const auto parts = [&](int num_ranks) {
      const Counts counts = collective->counts(kElements, num_ranks, 1);
      return std::pair(counts.send, counts.receive);
    };
    if (parts(smallest) != parts(largest))
      throw OptionError(
          ExitStatus::usage,
          concat("NCCL_TESTS_SPLIT makes groups of ", smallest, " to ", largest, " ranks, but the parts of ",
                 operation.name, " are as large as the number of ranks says, which must be the same in all"));
  }
}

}  // namespace lockstep::bench
