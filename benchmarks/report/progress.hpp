#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

#include "options/options.hpp"

namespace lockstep::bench {

/// The number of rows of a sweep; 0: it has no end.
/// @param group_size  the number of roots of -r all.
std::int64_t num_rows(const Options& options, const Traits& operation, int group_size);

/// "row 3 of 12, about 40 s left", or "row 3" without an end.
std::string progress_text(std::int64_t rows_done, std::int64_t num_rows, double elapsed_seconds);

/// A line on a terminal that says how far a sweep is. It is erased before each row of the table, which may go
/// to the same terminal.
class Progress {
 public:
  /// @param out  null: no terminal, so nothing is written.
  Progress(std::ostream* out, std::int64_t num_rows);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// To be called before a row is printed.
  void erase();
  /// To be called after a row.
  void row_done();

 private:
  void show();

  std::ostream* out_;
  std::int64_t num_rows_;
  std::int64_t rows_done_ = 0;
  bool is_shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace lockstep::bench
