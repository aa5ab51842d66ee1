// Readers of files beside what they cannot be faster than: a pass of memchr over the same bytes, and a copy
// of them. All on one thread, of files that are in the page cache.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <lockstep/input/dataset.hpp>
#include <lockstep/input/npy.hpp>
#include <lockstep/input/readers.hpp>

#include "support/npy_file.hpp"
#include "support/tf_record_file.hpp"

namespace {

using namespace lockstep;

constexpr std::size_t kFileBytes = std::size_t{32} << 20;

/// A file of about kFileBytes in the folder for temporary files; READERS_FOLDER keeps it for other programs.
class File {
 public:
  File(const std::string& name, const std::string& bytes) : size_(bytes.size()) {
    const char* const folder = std::getenv("READERS_FOLDER");
    is_kept_ = folder != nullptr;
    path_ = (is_kept_ ? std::filesystem::path(folder) : std::filesystem::temp_directory_path()) /
            ("lockstep_readers_" + name);
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~File() {
    if (!is_kept_) std::filesystem::remove(path_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return static_cast<std::int64_t>(size_); }

 private:
  std::filesystem::path path_;
  std::size_t size_;
  bool is_kept_;
};

template <class Row>
std::string rows(Row row) {
  std::string bytes;
  for (std::uint64_t i = 0; bytes.size() < kFileBytes; ++i) bytes += row(i);
  return bytes;
}
std::string line(std::uint64_t i, std::size_t length) {
  std::string text(length, static_cast<char>('a' + i % 26));
  text.back() = '\n';
  return text;
}

const File& lines_80() {
  static const File file("lines_80.txt", rows([](std::uint64_t i) { return line(i, 80); }));
  return file;
}
const File& lines_1000() {
  static const File file("lines_1000.txt", rows([](std::uint64_t i) { return line(i, 1000); }));
  return file;
}
/// Four numbers a row: i64, i32, f32, f32.
const File& csv() {
  static const File file("numbers.csv", rows([random = std::mt19937(1)](std::uint64_t i) mutable {
                           char text[100];
                           std::snprintf(text, sizeof text, "%llu,%d,%.5f,%.3e\n",
                                         static_cast<unsigned long long>(i),
                                         static_cast<int>(random() % 100'000) - 50'000,
                                         static_cast<double>(random() % 1'000'000) / 1000.0,
                                         static_cast<double>(random()) * 1e-6);
                           return std::string(text);
                         }));
  return file;
}
std::string record(std::size_t size) { return std::string(size, 'r'); }
template <std::size_t size>
const File& tf_records() {
  static const std::string bytes = test::tf_record_bytes(record(size));
  static const File file("tf_" + std::to_string(size), rows([](std::uint64_t) { return bytes; }));
  return file;
}
template <std::size_t size>
const File& plain_records() {
  static const File file("plain_" + std::to_string(size), rows([](std::uint64_t) { return record(size); }));
  return file;
}
/// Rows of 784 f32.
const File& npy() {
  constexpr std::size_t kRow = 784 * 4;
  static const File file("rows.npy",
                         test::npy_header("<f4", "(" + std::to_string(kFileBytes / kRow) + ", 784)") +
                             std::string(kFileBytes / kRow * kRow, 'n'));
  return file;
}

void memchr_pass(benchmark::State& state, const File& file) {
  std::ifstream stream(file.path(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  for (auto _ : state) {
    std::size_t count = 0;
    for (const char* next = bytes.data(); next != nullptr; ++count) {
      next = static_cast<const char*>(
          std::memchr(next, '\n', static_cast<std::size_t>(bytes.data() + bytes.size() - next)));
      if (next != nullptr) ++next;
    }
    benchmark::DoNotOptimize(count);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * file.size());
}

/// From the page cache into memory that stays in the processor's cache, in pieces of a size.
void copy(benchmark::State& state, const File& file, std::size_t piece) {
  const int descriptor = ::open(file.path().c_str(), O_RDONLY);
  std::vector<char> memory(piece);
  for (auto _ : state) {
    off_t position = 0;
    while (const auto size = ::pread(descriptor, memory.data(), piece, position)) position += size;
    benchmark::DoNotOptimize(memory.data());
  }
  ::close(descriptor);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * file.size());
}

template <class Reader>
void read(benchmark::State& state, const File& file, const Reader& reader) {
  std::int64_t count = 0;
  for (auto _ : state) {
    auto next = reader(file.path());
    while (auto element = next()) ++count;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * file.size());
  state.SetItemsProcessed(count);
}

/// The rows of a mapped array, in batches of 64.
void mapped_rows(benchmark::State& state, const File& file) {
  const auto batches = Dataset::from_tensor_slices(map_npy(file.path())).batch(64);
  for (auto _ : state)
    for (const Tensor& batch : batches) benchmark::DoNotOptimize(batch.view().data);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * file.size());
}

readers::CsvOptions csv_options(std::int64_t batch_size) {
  return {.columns = {DType::i64, DType::i32, DType::f32, DType::f32}, .batch_size = batch_size};
}

#define LOCKSTEP_READER(name, ...) BENCHMARK_CAPTURE(__VA_ARGS__)->Name(name)->Unit(benchmark::kMillisecond)
LOCKSTEP_READER("lines of 80/memchr", memchr_pass, a, lines_80());
LOCKSTEP_READER("lines of 80/lockstep", read, b, lines_80(), readers::lines());
LOCKSTEP_READER("lines of 1000/memchr", memchr_pass, c, lines_1000());
LOCKSTEP_READER("lines of 1000/lockstep", read, d, lines_1000(), readers::lines());
LOCKSTEP_READER("csv/memchr", memchr_pass, e, csv());
LOCKSTEP_READER("csv/lockstep", read, f, csv(), readers::csv(csv_options(0)));
LOCKSTEP_READER("csv/lockstep in batches", read, g, csv(), readers::csv(csv_options(1024)));
LOCKSTEP_READER("records of 4096/copy", copy, h, plain_records<4096>(), std::size_t{4096});
LOCKSTEP_READER("records of 4096/lockstep", read, i, plain_records<4096>(),
                readers::records({.record_bytes = 4096}));
LOCKSTEP_READER("records of 131072/copy", copy, j, plain_records<131072>(), std::size_t{131072});
LOCKSTEP_READER("records of 131072/lockstep", read, k, plain_records<131072>(),
                readers::records({.record_bytes = 131072}));
LOCKSTEP_READER("TFRecords of 4096/copy", copy, l, tf_records<4096>(), std::size_t{4096});
LOCKSTEP_READER("TFRecords of 4096/lockstep", read, m, tf_records<4096>(), readers::tf_record());
LOCKSTEP_READER("TFRecords of 131072/copy", copy, n, tf_records<131072>(), std::size_t{131072});
LOCKSTEP_READER("TFRecords of 131072/lockstep", read, o, tf_records<131072>(), readers::tf_record());
LOCKSTEP_READER("npy rows of 3136/copy", copy, p, npy(), std::size_t{3136});
LOCKSTEP_READER("npy rows of 3136/lockstep", read, q, npy(), readers::npy());
LOCKSTEP_READER("npy rows of 3136/lockstep, mapped", mapped_rows, r, npy());

}  // namespace

BENCHMARK_MAIN();
