#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <lockstep/tensor.hpp>

/// Readers for Dataset::from_files: `reader(path)` is a callable that gives a file's elements.
namespace lockstep::readers {

/// The lines of a text file, without what ends them (\n or \r\n), as u8 tensors of rank 1; `text` makes
/// strings of them.
class LineGenerator {
 public:
  /// @throws NotFound  the file cannot be opened.
  explicit LineGenerator(std::filesystem::path path);
  /// @throws Error  the file cannot be read.
  std::optional<Tensor> operator()();

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::string line_;  // kept for its memory
};
struct Lines {
  LineGenerator operator()(const std::filesystem::path& path) const { return LineGenerator(path); }
};
inline Lines lines() { return {}; }

/// The text of such a tensor. @throws InvalidArgument  not u8.
std::string text(const Tensor& line);

/// The rows of a .npy file.
class NpyGenerator {
 public:
  /// @throws as load_npy; InvalidArgument  a scalar.
  explicit NpyGenerator(const std::filesystem::path& path);
  std::optional<Tensor> operator()();

 private:
  Tensor rows_;
  std::int64_t next_ = 0;
};
struct Npy {
  NpyGenerator operator()(const std::filesystem::path& path) const { return NpyGenerator(path); }
};
inline Npy npy() { return {}; }

}  // namespace lockstep::readers
