#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

namespace lockstep::test {

/// A file with given bytes, gone at the end of the block.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view bytes) {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("lockstep-" + std::to_string(getpid()) + "-" + std::to_string(count++) + ".npy");
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// The bytes of a value, least or most significant first.
template <class T>
std::string bytes_of(T value, bool big_endian = false) {
  std::string bytes(reinterpret_cast<const char*>(&value), sizeof(T));
  return big_endian ? std::string(bytes.rbegin(), bytes.rend()) : bytes;
}

/// What comes before the data of a .npy file.
inline std::string npy_header(std::string_view dictionary, char major = 1) {
  std::string bytes = std::string("\x93NUMPY") + major + '\0';
  if (major == 1)
    bytes += bytes_of(static_cast<std::uint16_t>(dictionary.size()));
  else
    bytes += bytes_of(static_cast<std::uint32_t>(dictionary.size()));
  return bytes.append(dictionary);
}
inline std::string npy_header(std::string_view descr, std::string_view shape, bool fortran_order = false,
                              char major = 1) {
  return npy_header(std::string("{'descr': '").append(descr) + "', 'fortran_order': " +
                        (fortran_order ? "True" : "False") + ", 'shape': " + std::string(shape) + ", }\n",
                    major);
}

}  // namespace lockstep::test
