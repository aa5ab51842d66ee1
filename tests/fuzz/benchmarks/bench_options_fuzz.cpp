#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/expect.hpp"
#include "fuzz/fuzz_file.hpp"
#include "operations/operation.hpp"
#include "options/options.hpp"

namespace {

using namespace lockstep::bench;
using lockstep::test::expect;

void check(const Options& options) {
  expect(0 < options.num_ranks() && options.num_ranks() <= 4096, "there are no ranks, or too many");
  expect(options.root.value_or(0) >= 0 && options.root.value_or(0) < options.num_ranks(),
         "the root is no rank");
  expect(options.iterations >= 1 && options.aggregate >= 1, "nothing is measured");
  expect(options.first_device >= 0, "a device's number is negative");
  expect(options.per_iteration_skip >= 0 && options.per_iteration_skip < options.iterations,
         "all iterations are left out");
  expect(0 <= options.min_bytes && options.min_bytes <= options.max_bytes, "there are no sizes");
  std::int64_t last = -1;
  for (const std::int64_t size : options.sizes()) {
    expect(last < size && size <= options.max_bytes, "sizes do not grow, or exceed the last one");
    last = size;
  }
  expect(last >= options.min_bytes, "there is no size");
  for (const std::int64_t size : options.batch_sizes_bytes)
    expect(0 <= size && size <= options.max_bytes, "a batch is smaller than one of its tensors");
  for (int rank = 0; rank < options.num_ranks(); ++rank) static_cast<void>(options.split.color(rank));
  expect(options.traffic.most_sent(options.num_ranks(), options.max_bytes) >= 0 &&
             options.traffic.most_received(options.num_ranks(), options.max_bytes) >= 0,
         "a rank sends or receives fewer than no bytes");
}

}  // namespace

/// A command line of lockstep_bench, an argument on each line. Lines with a name before "=" in capitals are
/// variables; behind an empty line is the file that arguments and variables name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const lockstep::test::FuzzFile file;
  const std::string all = std::string(data, data + size);
  const std::size_t end = std::min(all.find("\n\n"), all.size());
  const std::size_t begin = std::min(end + 2, all.size());
  file.write(data + begin, size - begin);

  std::vector<std::string> arguments;
  std::map<std::string, std::string, std::less<>> variables;
  for (std::string_view rest = std::string_view(all).substr(0, end); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (line.find('\0') != line.npos) return 0;
    if (line.starts_with("--sizes_file")) {
      arguments.push_back("--sizes_file=" + file.path().string());
    } else if (line.starts_with("NCCL_TESTS_") && equals != line.npos) {
      const std::string_view name = line.substr(0, equals);
      variables[std::string(name)] = name.ends_with("FILE") ? file.path().string() : line.substr(equals + 1);
    } else {
      arguments.emplace_back(line);
    }
  }
  const auto variable = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  try {
    check(parse_options(arguments, all_traits(), variable));
  } catch (const OptionError& error) {
    expect(error.status() != ExitStatus::success && error.what()[0] != '\0', "a refusal does not say why");
  }
  return 0;
}
