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

#include "options/options.hpp"
#include "report/results.hpp"

namespace lockstep::bench {

/// A file that did not exist before.
class NewFile {
 public:
  /// Creates `path`, or path.0, path.1, ... if the file exists. Nothing where it cannot be created.
  static std::optional<NewFile> create(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return path_; }
  /// Overwrites the file from `offset_bytes` on. @return whether everything was written.
  bool write(std::int64_t offset_bytes, std::string_view text);

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  NewFile(std::filesystem::path path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// The same results as JSON, version 3 of nccl-tests' format. Booleans are the strings "true" and "false",
/// NaN is "nan".
///
/// After each call the file is a complete document, which lacks only later results, and end_time until it is
/// finished.
class JsonReport {
 public:
  /// @param environment  "NAME=value" each.
  JsonReport(NewFile file, const std::vector<std::string>& arguments,
             const std::vector<std::string>& environment);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  void add_config(const Options& options, std::span<const RankInfo> ranks);
  void add_row(const Options& options, const Row& row);
  void add_summary(const Summary& summary);
  void add_error(std::string_view message);
  /// Ends the document. @return whether all of it was written.
  bool finish();

 private:
  void add_member(std::string_view key, const nlohmann::ordered_json& value);
  void close_results();
  void append(std::string_view text);

  NewFile file_;
  std::int64_t size_bytes_ = 0;  // without what closes the document
  std::string closing_ = "\n}\n";
  bool has_members_ = false, has_rows_ = false, is_good_ = true;
  std::vector<std::string> errors_;
};

/// The environment variables that may affect a result. A report is passed on, and other variables may be
/// secrets.
std::vector<std::string> relevant_environment(const char* const* environment);

}  // namespace lockstep::bench
