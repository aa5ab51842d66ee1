#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include <lockstep/error.hpp>
#include <lockstep/input/bad_record.hpp>

namespace lockstep::test {

/// A file in memory with the fuzzer's bytes, one for all inputs.
class FuzzFile {
 public:
  FuzzFile() : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  ~FuzzFile() { close(descriptor_); }
  FuzzFile(const FuzzFile&) = delete;
  FuzzFile& operator=(const FuzzFile&) = delete;

  void write(const std::uint8_t* data, std::size_t size) const {
    // Not cut to nothing before, which would give its memory back each time.
    if (descriptor_ < 0 || pwrite(descriptor_, data, size, 0) != static_cast<ssize_t>(size) ||
        ftruncate(descriptor_, static_cast<off_t>(size)) != 0)
      std::abort();
  }
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  int descriptor_;
  std::filesystem::path path_;
};

/// Calls read(path) for a file of these bytes. Bad bytes must give an InvalidArgument that names the file;
/// everything else ends the program.
template <class F>
int fuzz_file(const std::uint8_t* data, std::size_t size, F&& read) {
  static const FuzzFile file;
  file.write(data, size);
  try {
    read(file.path());
  } catch (const InvalidArgument& error) {
    if (std::string(error.what()).find(file.path().string()) == std::string::npos) {
      std::fprintf(stderr, "the message does not name the file: %s\n", error.what());
      std::abort();
    }
  }
  return 0;
}

/// Reads all elements, those behind bad records too, of which there are fewer than bytes; but not many more
/// than kMostElements, which a few compressed bytes can hold.
/// @param take  takes elements, and returns how many. @return their number and that of bad records.
template <class Elements, class Take>
std::pair<std::size_t, std::size_t> read_all(Elements elements, const std::filesystem::path& path,
                                             std::size_t size, const Take& take) {
  constexpr std::size_t kMostElements = 1000;
  std::pair<std::size_t, std::size_t> counts;
  for (;;) {
    if (counts.first + counts.second >= kMostElements) return {kMostElements, 0};
    try {
      const std::size_t num_taken = take(elements);
      if (num_taken == 0) return counts;
      counts.first += num_taken;
    } catch (const readers::BadRecord& error) {
      if (std::string(error.what()).find(path.string()) == std::string::npos || counts.second++ > size)
        std::abort();
    }
  }
}

/// Reads all elements, one by one and at once, as many either way.
template <class Reader>
int fuzz_reader(const std::uint8_t* data, std::size_t size, const Reader& reader) {
  return fuzz_file(data, size, [&](const std::filesystem::path& path) {
    const auto one = [](auto& elements) -> std::size_t { return elements() ? 1 : 0; };
    const auto some = [&one](auto& elements) -> std::size_t {
      const auto rows = elements.next_rows(3);
      return rows ? static_cast<std::size_t>(rows->num_rows) : one(elements);
    };
    auto elements = reader(path);  // a file that is refused here is refused either way
    std::optional<std::pair<std::size_t, std::size_t>> at_once;
    try {
      at_once = read_all(std::move(elements), path, size, some);
    } catch (const InvalidArgument&) {  // which reading one by one throws, too
    }
    if (at_once != read_all(reader(path), path, size, one)) std::abort();
  });
}

}  // namespace lockstep::test
