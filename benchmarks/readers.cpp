// Readers of files beside what they cannot be faster than: a pass of memchr over the same bytes, and a copy
// of them. All on one thread, of files that are in the page cache.
#include <charconv>
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

constexpr std::int64_t kBatch = 1024;
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

/// The least work of any reader of lines: blocks are read and searched, and nothing is kept.
void read_and_search(benchmark::State& state, const File& file) {
  const int descriptor = ::open(file.path().c_str(), O_RDONLY);
  std::vector<char> block(std::size_t{1} << 17);
  for (auto _ : state) {
    std::size_t count = 0;
    off_t position = 0;
    while (const auto size = ::pread(descriptor, block.data(), block.size(), position)) {
      const char* const end = block.data() + size;
      for (const char* next = block.data(); next < end; ++count) {
        const void* const found = std::memchr(next, '\n', static_cast<std::size_t>(end - next));
        next = found ? static_cast<const char*>(found) + 1 : end;
      }
      position += size;
    }
    benchmark::DoNotOptimize(count);
  }
  ::close(descriptor);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * file.size());
}

/// The numbers of fields that have been found before, in memory.
void from_chars(benchmark::State& state, const File& file) {
  std::ifstream stream(file.path(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  std::vector<const char*> ends;
  for (const char& c : bytes)
    if (c == ',' || c == '\n') ends.push_back(&c);
  for (auto _ : state) {
    const char* begin = bytes.data();
    const auto parse = [&begin](const char* end, auto& value) {
      std::from_chars(begin, end, value);
      begin = end + 1;
    };
    std::int64_t a = 0;
    std::int32_t b = 0;
    float c = 0, d = 0;
    for (std::size_t i = 0; i < ends.size(); i += 4) {
      parse(ends[i], a);
      parse(ends[i + 1], b);
      parse(ends[i + 2], c);
      parse(ends[i + 3], d);
      benchmark::DoNotOptimize(a + b);
      benchmark::DoNotOptimize(c + d);
    }
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

/// Passes over a dataset that reads the file.
template <class E>
void pass(benchmark::State& state, const File& file, const TypedDataset<E>& dataset) {
  for (auto _ : state)
    for (auto&& element : dataset) benchmark::DoNotOptimize(element);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * file.size());
}

template <class Reader>
auto read_by(const File& file, const Reader& reader) {
  return Dataset::from_files({file.path()}, reader);
}

readers::CsvOptions csv_options(std::int64_t batch_size) {
  return {.columns = {DType::i64, DType::i32, DType::f32, DType::f32}, .batch_size = batch_size};
}

#define LOCKSTEP_READER(name, ...) BENCHMARK_CAPTURE(__VA_ARGS__)->Name(name)->Unit(benchmark::kMillisecond)
LOCKSTEP_READER("lines of 80/memchr", memchr_pass, a, lines_80());
LOCKSTEP_READER("lines of 80/read and memchr", read_and_search, aa, lines_80());
LOCKSTEP_READER("lines of 80/lockstep", read, b, lines_80(), readers::lines());
LOCKSTEP_READER("lines of 80/lockstep, batch", pass, ba, lines_80(),
                read_by(lines_80(), readers::lines()).batch(kBatch));
LOCKSTEP_READER("lines of 80/lockstep, padded_batch", pass, bb, lines_80(),
                read_by(lines_80(), readers::lines()).padded_batch(kBatch));
LOCKSTEP_READER("lines of 1000/memchr", memchr_pass, c, lines_1000());
LOCKSTEP_READER("lines of 1000/read and memchr", read_and_search, ca, lines_1000());
LOCKSTEP_READER("lines of 1000/lockstep", read, d, lines_1000(), readers::lines());
LOCKSTEP_READER("lines of 1000/lockstep, batch", pass, da, lines_1000(),
                read_by(lines_1000(), readers::lines()).batch(64));
LOCKSTEP_READER("csv/memchr", memchr_pass, e, csv());
LOCKSTEP_READER("csv/from_chars", from_chars, ea, csv());
LOCKSTEP_READER("csv/lockstep", read, f, csv(), readers::csv(csv_options(0)));
LOCKSTEP_READER("csv/lockstep in batches", read, g, csv(), readers::csv(csv_options(kBatch)));
LOCKSTEP_READER("csv/lockstep, batch", pass, ga, csv(),
                read_by(csv(), readers::csv(csv_options(0))).batch(kBatch));
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
LOCKSTEP_READER("npy rows of 3136/lockstep, batch", pass, qa, npy(),
                read_by(npy(), readers::npy()).batch(64));
LOCKSTEP_READER("npy rows of 3136/lockstep, mapped", pass, r, npy(),
                Dataset::from_tensor_slices(map_npy(npy().path())).batch(64));

}  // namespace

BENCHMARK_MAIN();
