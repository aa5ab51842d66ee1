#include "cluster/slurm.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>

#include "ascii.hpp"
#include "detail/concat.hpp"
#include "detail/in_quotes.hpp"

namespace lockstep::detail {
namespace {

constexpr std::size_t kMaxNodes = 65'536;       // Slurm's limit for a cluster
constexpr std::size_t kMaxHostNameBytes = 255;  // DNS, RFC 1035, section 2.3.4

/// Reads one list from left to right. The number of hosts is checked against kMaxNodes before they are made.
class NodeListReader {
 public:
  NodeListReader(const LauncherVariables& variables, std::string_view name)
      : variables_(variables), name_(name), rest_(variables.text(name)) {}

  std::vector<std::string> read() {
    do read_hosts();
    while (take(','));
    return std::move(hosts_);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { variables_.refuse(name_, reason); }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// The text before the first of `ends`, or all of it.
  std::string_view take_until(std::string_view ends) {
    const std::string_view text = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(text.size());
    return text;
  }

  /// Reads hosts up to a comma outside brackets.
  void read_hosts() {
    std::vector<std::string> hosts = {""};
    while (!rest_.empty() && !rest_.starts_with(',')) {
      if (take('[')) {
        hosts = combine(hosts, read_ranges());
      } else {
        const std::string_view text = take_until("[,");
        if (text.find_first_of(" \t\n]") != text.npos)
          fail(concat(in_quotes(text), " is not part of a host's name"));
        for (std::string& host : hosts) append(host, text);
      }
    }
    if (hosts.front().empty()) fail("a host has no name");
    check_size(hosts_.size() + hosts.size());
    hosts_.insert(hosts_.end(), hosts.begin(), hosts.end());
  }

  /// Reads from after '[' to after ']': "01-03,7" is 01, 02, 03, 7.
  std::vector<std::string> read_ranges() {
    std::vector<std::string> numbers;
    do {
      const std::string_view range = take_until(",]");
      const std::size_t dash = range.find('-');
      const std::string_view low = range.substr(0, dash);
      const std::uint64_t first = read_number(range, low);
      const std::uint64_t last = dash == range.npos ? first : read_number(range, range.substr(dash + 1));
      if (last < first) fail(concat("the range ", in_quotes(range), " ends before it begins"));
      if (last - first >= kMaxNodes) check_size(kMaxNodes + 1);
      check_size(numbers.size() + (last - first) + 1);
      for (std::uint64_t n = first; n <= last; ++n) {
        const std::string digits = std::to_string(n);
        const std::size_t num_zeros = low.size() - std::min(low.size(), digits.size());
        numbers.push_back(std::string(num_zeros, '0') + digits);
      }
    } while (take(','));
    if (!take(']')) fail("a bracket is not closed");
    return numbers;
  }

  std::uint64_t read_number(std::string_view range, std::string_view text) const {
    constexpr std::size_t kMostDigits = 18;  // numbers with so many digits fit
    if (text.empty() || text.size() > kMostDigits || !std::all_of(text.begin(), text.end(), is_digit_ascii))
      fail(concat(in_quotes(range), " is not a range of numbers"));
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  std::vector<std::string> combine(const std::vector<std::string>& hosts,
                                   const std::vector<std::string>& ends) {
    check_size(hosts.size() * ends.size());
    std::vector<std::string> result;
    for (const std::string& host : hosts)
      for (const std::string& end : ends) append(result.emplace_back(host), end);
    return result;
  }

  void append(std::string& host, std::string_view text) const {
    if (host.size() + text.size() > kMaxHostNameBytes)
      fail(concat("a host's name has more than ", std::to_string(kMaxHostNameBytes), " bytes"));
    host += text;
  }

  void check_size(std::size_t num_hosts) const {
    if (num_hosts > kMaxNodes) fail(concat("it has more than ", std::to_string(kMaxNodes), " hosts"));
  }

  const LauncherVariables& variables_;
  std::string_view name_;
  std::string_view rest_;
  std::vector<std::string> hosts_;
};

}  // namespace

std::vector<std::string> parse_node_list(const LauncherVariables& variables, std::string_view name) {
  return NodeListReader(variables, name).read();
}

std::vector<int> parse_tasks_per_node(const LauncherVariables& variables, std::string_view name) {
  std::string_view rest = variables.text(name);
  std::vector<int> counts;
  for (bool more = true; more;) {
    std::string_view part = rest.substr(0, rest.find(','));
    more = part.size() < rest.size();
    rest.remove_prefix(part.size() + (more ? 1 : 0));
    const std::string_view whole = part;
    std::optional<int> num_nodes = 1;
    if (const std::size_t times = part.find("(x"); times != part.npos && part.ends_with(')')) {
      num_nodes = parse_number(part.substr(times + 2, part.size() - times - 3));
      part = part.substr(0, times);
    }
    const std::optional<int> count = parse_number(part);
    if (count.value_or(0) < 1 || num_nodes.value_or(0) < 1)
      variables.refuse(name, concat(in_quotes(whole), " is not a number of tasks"));
    if (counts.size() + static_cast<std::size_t>(*num_nodes) > kMaxNodes)
      variables.refuse(name, concat("it has more than ", std::to_string(kMaxNodes), " nodes"));
    counts.insert(counts.end(), static_cast<std::size_t>(*num_nodes), *count);
  }
  return counts;
}

std::vector<SlurmTask> distribute_tasks(const std::vector<int>& tasks_per_node, bool cyclic) {
  std::vector<SlurmTask> tasks;
  for (std::size_t node = 0; node < tasks_per_node.size(); ++node)
    for (int local_id = 0; local_id < tasks_per_node[node]; ++local_id) tasks.push_back({node, local_id});
  if (cyclic)  // the first task of every node, then the second of every node, …
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const SlurmTask& a, const SlurmTask& b) { return a.local_id < b.local_id; });
  return tasks;
}

}  // namespace lockstep::detail
