// Every kind of file that is read, and the threads that read it.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.hpp>

#include "detail/concat.hpp"
#include "faults/scenario.hpp"
#include "input/pipeline/pipeline.hpp"
#include "input/resume/random_pipeline.hpp"
#include "support/image_file.hpp"
#include "support/temporary_directory.hpp"
#include "support/tf_record_file.hpp"
#ifdef LOCKSTEP_HAS_JPEG
#include "support/jpeg_file.hpp"
#endif
#ifdef LOCKSTEP_HAS_ZSTD
#include "support/zstd_file.hpp"
#endif

namespace ls = lockstep;
namespace fs = std::filesystem;
namespace readers = ls::readers;

namespace {

using Texts = std::vector<std::string>;

/// An element's shapes and values.
std::string text_of(const ls::detail::FlatElement& element) {
  std::string text;
  for (const ls::Tensor& tensor : element) {
    text += ls::detail::concat(tensor.shape(), " ");
    for (const double value : tensor.cast(ls::DType::f64).to_vector<double>())
      text += std::to_string(value) + " ";
  }
  return text;
}

struct Source {
  std::string name;
  std::function<ls::Dataset()> make;
  Texts expected{};
};

class Files {
 public:
  explicit Files(const fs::path& folder) : folder_(folder) {
    ls::test::write_number_files(folder);
    std::string numbers;
    for (int i = 0; i < 40; ++i) numbers += std::to_string(i) + "\n";
    std::string records;
    for (int i = 0; i < 5; ++i)
      records += ls::test::tf_record_bytes(std::string(20, static_cast<char>('a' + i)));
    ls::test::write_bytes(folder / "0.tfrecord", records);
    ls::test::write_bytes(folder / "1.tfrecord.gz", ls::test::gzipped(records));
#ifdef LOCKSTEP_HAS_ZSTD
    ls::test::write_bytes(folder / "0.txt.zst", ls::test::zstd_frame(numbers));
#endif
    ls::test::write_bytes(folder / "0.png", ls::test::png_file(3, 2, 8, 2, {"abcdefghi", "jklmnopqr"}));
#ifdef LOCKSTEP_HAS_JPEG
    ls::test::write_bytes(folder / "0.jpg", ls::test::jpeg_file(2, 2, 1, {1, 2, 3, 4}));
#endif
    add_files();
    add_threads();
    for (Source& source : sources_) {
      bool has_ended = false;
      source.expected = elements_of(source, has_ended);
    }
    fs::remove(cache());
  }

  void attempt() {
    std::exception_ptr first;
    for (const Source& source : sources_) {
      try {
        bool has_ended = false;
        const Texts elements = elements_of(source, has_ended);
        if (elements != source.expected) throw std::logic_error(source.name + " has other elements");
      } catch (const std::logic_error&) {
        throw;
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  }

  void check(bool) {
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().extension() == ".tmp") throw std::logic_error("left behind: " + entry.path().string());
    for (const Source& source : sources_) {
      bool has_ended = false;
      if (elements_of(source, has_ended) != source.expected)
        throw std::logic_error(source.name + " has other elements afterwards");
    }
    fs::remove(cache());
  }

 private:
  fs::path cache() const { return folder_ / "cache"; }
  template <class D>
  void add(std::string name, D make) {
    sources_.push_back({std::move(name), [make] { return ls::Dataset(make()); }});
  }

  void add_files() {
    const auto file = [this](const char* name) { return std::vector<fs::path>{folder_ / name}; };
    using ls::Dataset;
    using readers::Compression;
    add("lines", [=] { return Dataset::from_files(file("0.txt"), readers::lines()); });
    add("csv", [=] {
      return Dataset::from_files(
          file("0.csv"),
          readers::csv({.columns = {ls::DType::i64, readers::CsvColumn::text()}, .header = true}));
    });
    add("npy", [=] { return Dataset::from_files(file("0.npy"), readers::npy()).batch(5); });
    add("npz", [=] { return Dataset::from_files(file("0.npz"), readers::npz()); });
    add("idx", [=] { return Dataset::from_files(file("0.idx"), readers::idx()); });
    add("idx.gz", [=] { return Dataset::from_files(file("0.idx.gz"), readers::idx()); });
    add("records", [=] {
      return Dataset::from_files(file("0.bin"),
                                 readers::records({.record_bytes = 3, .header_bytes = 2, .footer_bytes = 1}));
    });
    add("lines.gz", [=] {
      return Dataset::from_files(file("0.txt.gz"), readers::lines({.compression = Compression::gzip}));
    });
    add("load_npy", [=] { return Dataset::from_tensor_slices(ls::load_npy(file("1.npy")[0])); });
    add("numpy of npy", [=] { return ls::detail::make_numpy_dataset(file("1.npy")[0]); });
    add("numpy of npz", [=] { return ls::detail::make_numpy_dataset(file("1.npz")[0]); });
#ifdef LOCKSTEP_HAS_ISAL
    add("TFRecord", [=] { return Dataset::from_files(file("0.tfrecord"), readers::tf_record()); });
    add("TFRecord.gz", [=] {
      return Dataset::from_files(file("1.tfrecord.gz"),
                                 readers::tf_record({.compression = Compression::gzip}));
    });
#endif
#ifdef LOCKSTEP_HAS_ARCHIVE
    add("tar", [=] { return Dataset::from_files(file("0.tar"), readers::tar()); });
    add("tar.gz", [=] { return Dataset::from_files(file("0.tar.gz"), readers::tar()); });
#endif
#ifdef LOCKSTEP_HAS_ZSTD
    add("lines.zst", [=] {
      return Dataset::from_files(file("0.txt.zst"), readers::lines({.compression = Compression::zstd}));
    });
#endif
    const auto images = [folder = folder_](const char* pattern) {
      return ls::list_files((folder / pattern).string(), false).map([](const ls::Tensor& path) {
        return ls::decode_image(ls::read_file(readers::text(path)));
      });
    };
#ifdef LOCKSTEP_HAS_PNG
    add("PNG", [=] { return images("*.png"); });
#endif
#ifdef LOCKSTEP_HAS_JPEG
    add("JPEG", [=] { return images("*.jpg"); });
#endif
  }

  void add_threads() {
    const auto numbers = [folder = folder_] {
      return ls::list_files((folder / "*.npy").string(), false)
          .interleave(
              [](const ls::Tensor& path) {
                return ls::Dataset::from_files({readers::text(path)}, readers::npy());
              },
              2, 1, {.num_parallel_calls = 2});
    };
    add("interleave, map and prefetch", [=] {
      return numbers().map([](const ls::Tensor& x) { return x + 1; }, {.num_parallel_calls = 2}).prefetch(2);
    });
    add("cache", [=, path = cache()] { return numbers().cache(path); });
  }

  /// All elements. After an exception the pass may be asked again: it goes on, ends, or throws; but has no
  /// element that the source has not.
  Texts elements_of(const Source& source, bool& has_ended) {
    Texts elements;
    const auto pass = source.make().pipeline()->open();
    std::exception_ptr first;
    for (int num_failures = 0; num_failures < 3 && !has_ended;) {
      try {
        if (const auto element = pass->next())
          elements.push_back(text_of(*element));
        else
          has_ended = true;
      } catch (...) {
        ++num_failures;
        if (!first) first = std::current_exception();
      }
    }
    if (!first) return elements;
    // The files behind one that fails may come earlier.
    Texts expected = source.expected;
    std::ranges::sort(expected);
    std::ranges::sort(elements);
    if (!std::ranges::includes(expected, elements))
      throw std::logic_error(source.name + " has other elements after a failure");
    std::rethrow_exception(first);
  }

  fs::path folder_;
  std::vector<Source> sources_;
};

}  // namespace

int main() {
  const ls::test::TemporaryDirectory folder;
  Files files(folder.path());
  return ls::test::run_scenario({.attempt = [&] { files.attempt(); },
                                 .check = [&](bool has_failed) { files.check(has_failed); },
                                 .places = {folder.path().string()}});
}
