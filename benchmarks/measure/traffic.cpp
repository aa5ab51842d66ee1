#include "measure/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>

#include "detail/concat.hpp"
#include "exit_status.hpp"
#include "report/bandwidth.hpp"
#include "report/report.hpp"

namespace lockstep::bench {
namespace {

using detail::concat;

constexpr const char* kSpread = "NCCL_TESTS_ALLTOALLV_SPREAD";
constexpr const char* kFile = "NCCL_TESTS_ALLTOALLV_MATRIX_FILE";
constexpr const char* kScale = "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE";
constexpr const char* kSummary = "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY";

std::int64_t aligned(double bytes) {
  constexpr std::int64_t kAlignment = 16;
  return static_cast<std::int64_t>(bytes) / kAlignment * kAlignment;
}

// Parses a text that is a number and nothing else.
bool parse(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' && std::isfinite(value);
}

double read_number(const char* text, const char* variable) {
  double value = 0;
  if (!parse(text, value))
    throw OptionError(ExitStatus::usage, concat(variable, " '", text, "' is not a number"));
  return value;
}

using Matrix = std::vector<std::vector<std::int64_t>>;

// nccl-tests' status for a faulty file.
[[noreturn]] void refuse(const char* path, const std::string& reason) {
  throw OptionError(ExitStatus::internal_error, concat(kFile, " '", path, "' ", reason));
}

Matrix read_matrix(const char* path, double scale) {
  std::ifstream file(path);
  if (!file) refuse(path, "cannot be read");
  Matrix matrix;
  std::string line, word;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::vector<std::int64_t> row;
    while (words >> word) {
      double bytes = 0;
      if (!parse(word, bytes) || bytes < 0 || bytes * scale >= 0x1p62)
        refuse(path, concat("has '", word, "' in row ", matrix.size(), ", column ", row.size(),
                            ", which is not a number of bytes"));
      row.push_back(aligned(bytes * scale));
    }
    if (!row.empty()) matrix.push_back(std::move(row));
  }
  if (!file.eof()) refuse(path, "cannot be read");
  if (matrix.empty()) refuse(path, "has no numbers");
  for (const auto& row : matrix)
    if (row.size() != matrix.size())
      refuse(path, concat("is not square: ", matrix.size(), " rows, and a row of ", row.size()));
  return matrix;
}

// Of sizes below 2^62, whose sums may not fit 63 bits. No buffer has as many bytes.
std::int64_t add(std::int64_t a, std::int64_t b) { return std::min(a + b, std::int64_t{1} << 62); }

std::int64_t sent(const Traffic& traffic, int rank, int num_ranks, std::int64_t total_bytes) {
  std::int64_t sum = 0;
  for (int to = 0; to < num_ranks; ++to) sum = add(sum, traffic.bytes(rank, to, num_ranks, total_bytes));
  return sum;
}

std::int64_t received(const Traffic& traffic, int rank, int num_ranks, std::int64_t total_bytes) {
  std::int64_t sum = 0;
  for (int from = 0; from < num_ranks; ++from)
    sum = add(sum, traffic.bytes(from, rank, num_ranks, total_bytes));
  return sum;
}

// The largest of a sum over one rank's traffic. Without a matrix all ranks have the same.
template <class Sum>
std::int64_t most(const Traffic& traffic, int num_ranks, std::int64_t total_bytes, Sum sum) {
  std::int64_t largest = 0;
  for (int rank = 0; rank < (traffic.matrix.empty() ? 1 : num_ranks); ++rank)
    largest = std::max(largest, sum(traffic, rank, num_ranks, total_bytes));
  return largest;
}

}  // namespace

std::int64_t Traffic::bytes(int from, int to, int num_ranks, std::int64_t total_bytes) const {
  if (!matrix.empty()) return matrix[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  const auto total = static_cast<double>(total_bytes);
  if (num_ranks == 1) return aligned(total);
  const int distance = (to - from + num_ranks) % num_ranks;
  const double sum_of_distances = 0.5 * num_ranks * (num_ranks - 1);
  return aligned((1 - spread) * (total / num_ranks) + spread * (distance * total / sum_of_distances));
}

std::int64_t Traffic::most_sent(int num_ranks, std::int64_t total_bytes) const {
  return most(*this, num_ranks, total_bytes, sent);
}

std::int64_t Traffic::most_received(int num_ranks, std::int64_t total_bytes) const {
  return most(*this, num_ranks, total_bytes, received);
}

void Traffic::write_summary(std::ostream& out, int num_ranks, std::int64_t total_bytes,
                            double time_us) const {
  out << "# " << kSummary << ": ";
  if (matrix.empty())
    out << "mode=generated nranks=" << num_ranks << " total_bytes=" << total_bytes
        << " spread=" << fixed(spread, 3);
  else
    out << "mode=matrix nranks=" << num_ranks << " matrix_dim=" << matrix.size()
        << " scale=" << fixed(scale, 3);
  out << " time_usec=" << fixed(time_us, 2) << '\n';
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::int64_t send = sent(*this, rank, num_ranks, total_bytes);
    const std::int64_t receive = received(*this, rank, num_ranks, total_bytes);
    const Bandwidth speed = bandwidth(std::max(send, receive), time_us / 1e6, gather_bus_factor(num_ranks));
    out << "#   rank=" << rank << " send_bytes=" << send << " recv_bytes=" << receive
        << " alg_bw=" << fixed(speed.algorithm, 2) << " bus_bw=" << fixed(speed.bus, 2) << '\n';
  }
}

Traffic read_traffic(const Environment& environment, int num_ranks, std::int64_t min_bytes,
                     std::int64_t max_bytes) {
  Traffic traffic;
  if (const char* text = environment(kSpread))
    traffic.spread = std::clamp(read_number(text, kSpread), 0.0, 1.0);
  if (const char* text = environment(kScale)) traffic.scale = std::max(read_number(text, kScale), 0.0);
  if (const char* text = environment(kSummary)) traffic.prints_summary = read_number(text, kSummary) != 0;
  const char* const path = environment(kFile);
  if (path == nullptr) return traffic;
  traffic.matrix = read_matrix(path, traffic.scale);
  if (traffic.matrix.size() < static_cast<std::size_t>(num_ranks))
    refuse(path, concat("has ", traffic.matrix.size(), " rows, fewer than the ", num_ranks, " ranks"));
  if (min_bytes != max_bytes) refuse(path, "says the sizes: -b and -e have to be equal");
  const std::int64_t needed = std::max(traffic.most_sent(num_ranks, 0), traffic.most_received(num_ranks, 0));
  if (max_bytes < needed)
    refuse(path, concat("needs buffers of ", needed, " bytes, but -e (--maxbytes) is ", max_bytes));
  return traffic;
}

}  // namespace lockstep::bench
