#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "options.hpp"
#include "results.hpp"

namespace lockstep::bench {

/// The same results as JSON, version 3 of nccl-tests' format. Booleans are the strings "true" and "false",
/// NaN is "nan".
class JsonReport {
 public:
  /// @param environment  "NAME=value" each.
  JsonReport(const std::vector<std::string>& arguments, const std::vector<std::string>& environment);

  void add_config(const Options& options, std::span<const RankInfo> ranks);
  void add_row(const Options& options, const Row& row);
  void add_summary(const Summary& summary);
  void add_error(std::string_view message);
  /// The whole document; ends it.
  std::string finish();

 private:
  nlohmann::ordered_json document_;
};

/// A file that did not exist before. Written with `write`, once.
class NewFile {
 public:
  /// Creates `path`, or, if there is such a file, path.0, path.1, ... None: it cannot be created.
  static std::optional<NewFile> create(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return path_; }
  /// @return whether everything was written.
  bool write(std::string_view text);

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  NewFile(std::filesystem::path path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// Those of all environment variables that may bear upon a result; a report is passed on, and the others may
/// be secrets.
std::vector<std::string> relevant_environment(const char* const* environment);

}  // namespace lockstep::bench
