#include "input/resume/random_pipeline.hpp"

#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

#include <lockstep/input/readers.hpp>

#include "detail/concat.hpp"
#include "detail/splitmix64.hpp"
#include "support/npy_file.hpp"
#include "support/tar_file.hpp"
#include "support/zip_file.hpp"

namespace lockstep::test {
namespace {

using Numbers = TypedDataset<Tensor>;
using Paths = std::vector<std::filesystem::path>;

constexpr int kNumFiles = 4;
constexpr std::int64_t kRowsPerFile = 12, kMostElements = 150;

Tensor scalar(std::int64_t value) { return Tensor::scalar(value, Device()); }
std::int64_t value_of(const Tensor& tensor) { return tensor.item<std::int64_t>(); }
Tensor sum_of(const Tensor& tensor) {
  std::int64_t sum = 0;
  for (const std::int64_t value : tensor.to_vector<std::int64_t>()) sum = sum * 3 + value;
  return scalar(sum % 100'000);
}
Tensor repeated(const Tensor& x) {
  return Tensor::full({value_of(x) % 5 + 1}, value_of(x), DType::i64, Device());
}
std::int64_t length_of(const Tensor& x) { return x.shape()[0]; }

std::int64_t row_of_file(int file, std::int64_t row) { return file * 100 + row; }

Paths paths(const std::filesystem::path& folder, const std::string& extension) {
  Paths all;
  for (int file = 0; file < kNumFiles; ++file) all.push_back(folder / detail::concat(file, extension));
  return all;
}

Numbers from_bytes(const TypedDataset<Tensor>& bytes) {
  return bytes.map(
      [](const Tensor& x) { return scalar(x.slice(0, 1).cast(DType::i64).item<std::int64_t>()); });
}

Numbers files_of(Dice& dice, const std::filesystem::path& folder, std::string& text) {
#ifdef LOCKSTEP_HAS_ARCHIVE
  const std::int64_t which = dice.below(15), n = 1 + dice.below(7);
#else
  const std::int64_t which = dice.below(13), n = 1 + dice.below(7);
#endif
  text += detail::concat("files ", which);
  const auto text_to_number = [](const Tensor& line) { return scalar(std::stoll(readers::text(line))); };
  switch (which) {
    case 0: return Dataset::from_files(paths(folder, ".txt"), readers::lines()).map(text_to_number);
    case 1: return Dataset::from_files(paths(folder, ".npy"), readers::npy());
    case 2:
      return Dataset::from_files(paths(folder, ".npz"), readers::npz())
          .map([](const std::map<std::string, Tensor>& row) { return row.at("a") + row.at("b"); });
    case 3:
      return Dataset::from_files(
                 paths(folder, ".csv"),
                 readers::csv({.columns = {DType::i64, readers::CsvColumn::text()}, .header = true}))
          .map([](const std::vector<Tensor>& record) {
            return scalar(value_of(record[0]) + record[1].shape()[0]);
          });
    case 4:
      return from_bytes(
          Dataset::from_files(paths(folder, ".bin"),
                              readers::records({.record_bytes = 3, .header_bytes = 2, .footer_bytes = 1})));
    case 5: return from_bytes(Dataset::from_files(paths(folder, ".idx"), readers::idx()));
    // Rows that are read at once.
    case 6:
      return Dataset::from_files(paths(folder, ".txt"), readers::lines())
          .padded_batch(n)
          .unbatch()
          .map([](const Tensor& line) { return scalar(std::stoll(readers::text(line))); });
    case 7:
      return Dataset::from_files(paths(folder, ".npy"), readers::npy())
          .repeat(2)
          .skip(n)
          .take(60)
          .batch(n)
          .unbatch();
    case 8:
      return Dataset::from_files(
                 paths(folder, ".csv"),
                 readers::csv({.columns = {DType::i64}, .header = true, .select_columns = {0}}))
          .batch(n)
          .unbatch()
          .map([](const std::vector<Tensor>& record) { return record[0]; });
    // The first file's header is no record, and is left out.
    case 9:
      return Dataset::from_files(paths(folder, ".csv"),
                                 readers::csv({.columns = {DType::i64}, .select_columns = {0}}))
          .ignore_errors()
          .batch(n)
          .unbatch()
          .map([](const std::vector<Tensor>& record) { return record[0]; });
    case 10:
      return from_bytes(Dataset::from_files(paths(folder, ".bin.gz"),
                                            readers::records({.record_bytes = 3,
                                                              .header_bytes = 2,
                                                              .footer_bytes = 1,
                                                              .compression = readers::Compression::gzip})));
    case 11:
      return Dataset::from_files(paths(folder, ".txt.gz"),
                                 readers::lines({.compression = readers::Compression::gzip}))
          .map(text_to_number);
    case 13:
    case 14:
      return Dataset::from_files(paths(folder, which == 13 ? ".tar" : ".tar.gz"), readers::tar())
          .map([text_to_number](const std::map<std::string, Tensor>& sample) {
            return text_to_number(sample.at("number"));
          });
    default: return from_bytes(Dataset::from_files(paths(folder, ".idx.gz"), readers::idx()));
  }
}

Numbers source(Dice& dice, const std::filesystem::path& folder, std::string& text) {
  const std::int64_t n = 20 + dice.below(40);
  switch (dice.below(5)) {
    case 0: text += "range"; return Dataset::range(n);
    case 1: {
      text += "from_tensor_slices";
      std::vector<std::int64_t> values;
      for (std::int64_t i = 0; i < n; ++i) values.push_back(i * i);
      return Dataset::from_tensor_slices(Tensor::from(values, Shape(n)));
    }
    case 2:
      text += "from_generator";
      return Dataset::from_generator([n] {
        return [n, next = std::int64_t{0}]() mutable -> std::optional<Tensor> {
          return next < n ? std::optional(scalar(next++)) : std::nullopt;
        };
      });
    default: return files_of(dice, folder, text);
  }
}

Numbers failing(const Numbers& input, std::int64_t at) {
  return input.map([at](const Tensor& x) {
    if (value_of(x) % 11 == at) throw std::runtime_error("bad " + std::to_string(value_of(x)));
    return x;
  });
}

/// One more transformation.
Numbers transformed(const Numbers& in, Dice& dice, const std::filesystem::path& cache, std::string& text) {
  const std::int64_t which = dice.below(34);
  const std::int64_t n = 1 + dice.below(9);
  text += detail::concat(" | ", which, "(", n, ")");
  const auto part = [n](const Tensor& x) { return Dataset::range(value_of(x) % n).shuffle(3, 5); };
  switch (which) {
    case 0: return in.map([n](const Tensor& x) { return scalar(value_of(x) + n); });
    case 1:
      return in.map([n](const Tensor& x) { return scalar(value_of(x) * n % 1000); },
                    {.num_parallel_calls = 3});
    case 2: return in.filter([n](const Tensor& x) { return value_of(x) % (n + 1) != 0; });
    case 3: return in.batch(n).unbatch();
    case 4: return in.map(repeated).padded_batch(n).map(sum_of);
    case 5: return in.map(repeated).bucket_by_sequence_length(length_of, {{2, 4}, {2, n, 3}}).map(sum_of);
    case 6: return in.window(n, 1 + n / 2, 1 + n % 2).map(sum_of);
    case 7:
      return in.enumerate().map(
          [](const Tensor& i, const Tensor& x) { return scalar(value_of(i) * 7 + value_of(x)); });
    case 8: return in.take(10 * n);
    case 9: return in.skip(n);
    case 10: return in.take_while([n](const Tensor& x) { return value_of(x) % 40 != 30 + n; });
    case 11: return in.flat_map(part);
    case 12: return in.interleave(part, 3, n);
    case 13: return in.interleave(part, n, 2, {.num_parallel_calls = 2});
    case 14:
      return in.scan(scalar(n), [](const Tensor& state, const Tensor& x) {
        const Tensor next = scalar((value_of(state) * 31 + value_of(x)) % 9973);
        return std::pair(next, next);
      });
    case 15:
      return in.scan(n, [](std::int64_t state, const Tensor& x) {
        return std::pair((state + value_of(x)) % 1000, scalar(state));
      });
    case 16: return in.shuffle(3 * n, 17);
    case 17: return in.shuffle(3 * n, 17, false);
    case 18: return in.repeat(2);
    case 19: return in.cache();
    case 20:
      return Dataset::zip(in, Dataset::range(1000).shuffle(50, 3)).map([](const Tensor& a, const Tensor& b) {
        return scalar(value_of(a) + value_of(b));
      });
    case 21: return in.concatenate(Dataset::range(n));
    case 22: return Dataset::sample_from_datasets<Tensor>({in, Dataset::range(5 * n)}, {2.0, 1.0}, 4);
    case 23:
      return Dataset::choose_from_datasets<Tensor>({in, Dataset::range(5 * n)},
                                                   Dataset::range(2).repeat().shuffle(6, 9), n % 2 == 0);
    case 24: return failing(in, n).ignore_errors();
    case 25:
      return in.map_with_seed(
          [](std::uint64_t seed, const Tensor& x) {
            return scalar(value_of(x) + static_cast<std::int64_t>(seed % 50));
          },
          8);
    case 26: return in.prefetch(n);
    case 27: return in.shard(2, n % 2);
    case 28: return in.cache(cache);
    case 29: return failing(in, n);
    case 30: return in.shuffle(4 * n);
    case 31:
      return in.map([n](const Tensor& x) { return scalar(value_of(x) + 2 * n); },
                    {.num_parallel_calls = ParallelOptions::automatic});
    case 32: return in.interleave(part, n, 1, {.num_parallel_calls = ParallelOptions::automatic});
    default: return in.batch(n).shuffle(4, 2).unbatch();
  }
}

RandomPipeline grown(Numbers elements, std::string text, Dice& dice, const std::filesystem::path& folder,
                     std::uint64_t seed, std::int64_t most) {
  for (std::int64_t i = dice.below(most) + 1; i > 0; --i) {
    elements =
        transformed(elements, dice, folder / detail::concat("cache", seed, "-", i), text).take(kMostElements);
  }
  return {elements, std::move(text)};
}

}  // namespace

std::int64_t Dice::below(std::int64_t n) {
  state_ = detail::splitmix64(state_ + 1);
  return static_cast<std::int64_t>(state_ % static_cast<std::uint64_t>(n));
}

void write_number_files(const std::filesystem::path& folder) {
  for (int file = 0; file < kNumFiles; ++file) {
    const auto write = [&](const std::string& extension, const std::string& bytes) {
      std::ofstream(folder / detail::concat(file, extension), std::ios::binary) << bytes;
    };
    std::string lines, csv = "number,text\n", array, records = "hh";
    std::map<std::string, std::string> members;
    std::string idx("\0\0\x08\x02", 4);
    idx += bytes_of(static_cast<std::uint32_t>(kRowsPerFile), true) + bytes_of(std::uint32_t{2}, true);
    for (std::int64_t row = 0; row < kRowsPerFile; ++row) {
      const std::int64_t value = row_of_file(file, row);
      lines += std::to_string(value) + "\n";
      members[detail::concat(100 + row, ".number")] = std::to_string(value);
      csv += std::to_string(value) + ",\"" + std::string(static_cast<std::size_t>(row % 3), '\n') + "\"\n";
      array += bytes_of(value);
      const auto byte = static_cast<char>(file * 20 + row);
      records += std::string(1, byte) + "ab";
      idx += std::string(1, byte) + "c";
    }
    const std::string npy = npy_header("<i8", detail::concat("(", kRowsPerFile, ",)")) + array;
    write(".txt", lines);
    write(".csv", csv);
    write(".npy", npy);
    write(".npz", zip_archive({{"a.npy", npy}, {"b.npy", npy, true}}));
    write(".bin", records + "f");
    write(".idx", idx);
    write(".idx.gz", gzipped(idx));
    write(".bin.gz", gzipped(records + "f"));
    write(".txt.gz", gzipped(lines));
    const std::string archive = tar_archive({members.begin(), members.end()});
    write(".tar", archive);
    write(".tar.gz", gzipped(archive));
  }
}

RandomPipeline random_pipeline(std::uint64_t seed, const std::filesystem::path& folder) {
  Dice dice(seed);
  std::string text;
  const Numbers elements = source(dice, folder, text);
  return grown(elements, text, dice, folder, seed, 6);
}

RandomPipeline random_files(std::uint64_t seed, const std::filesystem::path& folder) {
  Dice dice(seed);
  std::string text;
  const Numbers elements = files_of(dice, folder, text);
  return {elements.shuffle(1 + dice.below(20), 3).map([](const Tensor& x) { return x; }), text};
}

}  // namespace lockstep::test
