#include "options/operation_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <vector>

#include "detail/concat.hpp"
#include "report/names.hpp"

namespace lockstep::bench {
namespace {

using detail::concat;

constexpr std::int64_t kMaxSizeBytes = std::int64_t{1} << 62;  // as parse_size's

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) parts.push_back(word);
  return parts;
}

}  // namespace

void set_algorithm(Options& options, const Traits& operation, const std::string& text) {
  std::string names;
  for (const Algorithm algorithm : all_algorithms()) names += concat(" ", bench_name(algorithm));
  const auto bench_name_of = [](Algorithm algorithm) { return bench_name(algorithm); };
  const auto found = std::ranges::find(all_algorithms(), std::string_view(text), bench_name_of);
  if (found == all_algorithms().end())
    throw OptionError(ExitStatus::usage, concat("--algorithm '", text, "' is none of:", names));
  options.algorithm = *found;
  if (options.algorithm == Algorithm::automatic) return;
  if (options.algorithm == Algorithm::rank_order && operation.reduces && !operation.has_shape) return;
  if (options.algorithm != Algorithm::rank_order && operation.has_size_list) return;
  throw OptionError(ExitStatus::usage,
                    concat("--algorithm ", text, " makes no sense with ", operation.name,
                           ": rank_order is for reductions over ranks, one_device, hierarchical and "
                           "packed are for batch_reduce"));
}

void set_shape(Options& options, const std::string& text) {
  if (text.empty()) return;
  const auto parts = split_at_commas(text);
  std::array<std::int64_t, 3> extents{};
  bool good = parts.size() == extents.size();
  for (std::size_t i = 0; good && i < extents.size(); ++i) {
    if (i == 0 && parts[i] == "*") continue;
    const char* const end = parts[i].data() + parts[i].size();
    const auto [rest, error] = std::from_chars(parts[i].data(), end, extents[i]);
    good = error == std::errc() && rest == end && extents[i] > 0 &&
           extents[i] <= std::numeric_limits<int>::max();
  }
  if (!good)
    throw OptionError(ExitStatus::usage, concat("--shape '", text,
                                                "' is not OUTER,AXIS,INNER, of whole numbers above 0; "
                                                "OUTER may be *"));
  constexpr std::int64_t kMostElements = kMaxSizeBytes / 8;
  const std::int64_t most_outer = kMostElements / extents[1] / extents[2];
  if (most_outer < std::max<std::int64_t>(extents[0], 1))
    throw OptionError(ExitStatus::bad_size, concat("--shape '", text, "' has more than 2^59 elements"));
  options.shape = {.axis = extents[1], .inner = extents[2]};
  if (parts[0] == "*") return;
  options.shape.outer = extents[0];
  options.min_bytes = options.max_bytes = 0;
}

void set_batch(Options& options, const std::string& sizes, const std::string& sizes_file) {
  if (sizes.empty() == sizes_file.empty())
    throw OptionError(ExitStatus::usage, "batch_reduce needs either --sizes or --sizes_file");
  for (const std::string& size : split_at_commas(sizes))
    options.batch_sizes_bytes.push_back(parse_size(size, "--sizes"));
  if (!sizes_file.empty()) {
    std::ifstream file(sizes_file);
    if (!file) throw OptionError(ExitStatus::usage, concat("--sizes_file '", sizes_file, "' cannot be read"));
    std::string line, word, last;
    for (int number = 1; std::getline(file, line); ++number) {
      std::istringstream words(line.substr(0, line.find('#')));
      for (last.clear(); words >> word;) last = word;
      if (!last.empty())
        options.batch_sizes_bytes.push_back(
            parse_size(last, concat("--sizes_file ", sizes_file, ", line ", number, ":")));
    }
  }
  if (options.batch_sizes_bytes.empty())
    throw OptionError(ExitStatus::bad_size, concat("--sizes_file '", sizes_file, "' has no sizes"));
  options.min_bytes = 0;
  for (const std::int64_t size : options.batch_sizes_bytes) {
    options.min_bytes += size;
    if (options.min_bytes >= kMaxSizeBytes)
      throw OptionError(ExitStatus::bad_size, "the sizes of a batch have 2^62 bytes together, or more");
  }
  options.max_bytes = options.min_bytes;
}

}  // namespace lockstep::bench
