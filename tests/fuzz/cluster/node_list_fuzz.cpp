#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/slurm.hpp"
#include "fuzz/expect.hpp"

namespace {

using namespace lockstep::detail;
using lockstep::test::accepts;
using lockstep::test::expect;

constexpr std::size_t kMaxNodes = 65'536;
constexpr std::string_view kName = "SLURM_LIST";

lockstep::cluster::EnvironmentVariables variable(std::string text) {
  return {{std::string(kName), std::move(text)}};
}

/// The hosts of a list, joined by commas, are a list of the same hosts.
void read_nodes(const lockstep::cluster::EnvironmentVariables& variables) {
  const std::vector<std::string> nodes = parse_node_list({variables, "srun"}, kName);
  expect(!nodes.empty() && nodes.size() <= kMaxNodes, "a list has no hosts, or too many");
  constexpr std::size_t kMostNodes = 100;  // for the check's sake
  if (nodes.size() > kMostNodes) return;
  std::string joined;
  for (const std::string& node : nodes) {
    expect(!node.empty() && node.size() <= 255, "a host has no name, or a long one");
    expect(node.find_first_of("[], \t\n") == node.npos, "a host's name has brackets, commas or blanks");
    joined += (joined.empty() ? "" : ",") + node;
  }
  const auto again = variable(joined);
  expect(parse_node_list({again, "srun"}, kName) == nodes, "hosts change when they are listed one by one");
}

/// The tasks lie on the nodes as the numbers say, in both orders.
void read_tasks(const lockstep::cluster::EnvironmentVariables& variables) {
  const std::vector<int> counts = parse_tasks_per_node({variables, "srun"}, kName);
  expect(!counts.empty() && counts.size() <= kMaxNodes, "a list has no nodes, or too many");
  for (const int count : counts) expect(count >= 1, "a node has no task");
  constexpr std::int64_t kMostTasks = 1000;  // for the check's sake
  if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) > kMostTasks) return;
  for (const bool is_cyclic : {false, true}) {
    std::vector<int> rest = counts;
    for (const SlurmTask& task : distribute_tasks(counts, is_cyclic)) {
      expect(0 <= task.local_id && task.local_id < counts.at(task.node), "a task is not on its node");
      --rest[task.node];
    }
    for (const int left : rest) expect(left == 0, "a node has another number of tasks");
  }
}

/// Whether a number has so many digits that its list may take long. Short lists may have them.
bool is_slow(std::string_view text) {
  constexpr std::size_t kShort = 16, kMostDigits = 2;
  std::size_t num_digits = 0;
  for (const char c : text) {
    num_digits = '0' <= c && c <= '9' ? num_digits + 1 : 0;
    if (num_digits > kMostDigits && text.size() > kShort) return true;
  }
  return false;
}

}  // namespace

/// A list of Slurm's. The first byte chooses between nodes and numbers of tasks.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || is_slow({reinterpret_cast<const char*>(data), size})) return 0;
  const auto variables = variable(std::string(data + 1, data + size));
  accepts(kName, [&] { (data[0] & 1) == 0 ? read_nodes(variables) : read_tasks(variables); });
  return 0;
}
