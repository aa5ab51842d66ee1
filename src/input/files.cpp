#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include <glob.h>

#include <lockstep/error.hpp>
#include <lockstep/input/files.hpp>

#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"
#include "input/formats/byte_source.hpp"
#include "input/pipeline/pipeline.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep {
namespace {

/// What glob(3) found.
class Matches {
 public:
  /// GLOB_PERIOD: a wildcard matches files whose names begin with a dot, as TensorFlow's does.
  /// As there, a folder that may not be read has no files; one that cannot be read is an error.
  explicit Matches(const std::string& pattern) {
    const auto is_fatal = [](const char*, int error) {
      return static_cast<int>(error != EACCES && error != ENOENT && error != ENOTDIR && error != ELOOP);
    };
    const int failed = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_PERIOD, is_fatal, &found_);
    const int error = errno;
    if (failed == 0 || failed == GLOB_NOMATCH) return;
    ::globfree(&found_);
    if (failed == GLOB_NOSPACE) throw std::bad_alloc();
    detail::raise<Error>({__FILE__, __LINE__, __func__},
                         detail::concat("list_files: the folders of ", detail::in_quotes(pattern),
                                        " cannot be read: ", std::generic_category().message(error),
                                        ". Check the folders, or the limit on open files."),
                         {.operation = "list_files", .code = error});
  }
  ~Matches() { ::globfree(&found_); }
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;

  char** begin() const noexcept { return found_.gl_pathv; }
  char** end() const noexcept { return found_.gl_pathv + found_.gl_pathc; }

 private:
  ::glob_t found_{};
};

/// Whether a wildcard stands for the folder itself, "." or "..", which are no files in it.
bool matches_folder_itself(const std::filesystem::path& found, const std::filesystem::path& pattern) {
  for (auto part = found.begin(), wanted = pattern.begin(); part != found.end() && wanted != pattern.end();
       ++part, ++wanted)
    if ((*part == "." || *part == "..") && *part != *wanted) return true;
  return false;
}

std::vector<std::filesystem::path> matching_files(const std::vector<std::string>& patterns) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& pattern : patterns)
    for (const char* const path : Matches(pattern))
      if (!matches_folder_itself(path, pattern)) paths.emplace_back(path);
  const auto bytes_less = [](const auto& a, const auto& b) { return a.native() < b.native(); };
  std::sort(paths.begin(), paths.end(), bytes_less);
  paths.erase(std::unique(paths.begin(), paths.end(),
                          [](const auto& a, const auto& b) { return a.native() == b.native(); }),
              paths.end());
  return paths;
}

Tensor bytes_tensor(const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  return Tensor::from(std::span(bytes, text.size()), Shape(text.size()), detail::input_device());
}

/// A "reader" whose one element is the path: it is what files are shared out by.
auto path_itself(const std::filesystem::path& path) {
  return [path, has_ended = false]() mutable {
    return std::exchange(has_ended, true) ? std::nullopt : std::optional(bytes_tensor(path.native()));
  };
}

}  // namespace

TypedDataset<Tensor> list_files(const std::vector<std::string>& patterns, bool shuffle,
                                std::optional<std::uint64_t> seed) {
  std::vector<std::filesystem::path> paths = matching_files(patterns);
  LOCKSTEP_EXPECTS(!paths.empty(), InvalidArgument, "list_files: no file matches ",
                   patterns.empty() ? "no pattern" : detail::in_quotes(patterns[0]),
                   patterns.size() > 1 ? ", nor any of the other patterns" : "", ". Check the pattern.");
  const auto count = static_cast<std::int64_t>(paths.size());
  detail::Pipeline counted = *Dataset::from_files(std::move(paths), path_itself).pipeline();
  counted.cardinality = count;
  const TypedDataset<Tensor> files(std::make_shared<const detail::Pipeline>(std::move(counted)));
  return shuffle ? files.shuffle(count, seed) : files;
}

TypedDataset<Tensor> list_files(const std::string& pattern, bool shuffle, std::optional<std::uint64_t> seed) {
  return list_files(std::vector{pattern}, shuffle, seed);
}

Tensor read_file(const std::filesystem::path& path) {
  constexpr std::string_view kWhat = "read_file";
  return detail::with_file_faults(kWhat, path, "Pass the path of a file that can be read.", [&] {
    const detail::InputFile file(path, kWhat);
    Tensor bytes = Tensor::empty(Shape(file.size_bytes()), DType::u8, detail::input_device());
    if (file.size_bytes() > 0) file.read_at(0, bytes.data(), static_cast<std::size_t>(file.size_bytes()));
    return bytes;
  });
}

}  // namespace lockstep
