#include "report/progress.hpp"

#include <cmath>
#include <ostream>

#include "detail/concat.hpp"

namespace lockstep::bench {

std::int64_t num_rows(const Options& options, const Traits& operation, int group_size) {
  const int num_roots = operation.has_root && !options.root ? group_size : 1;
  return static_cast<std::int64_t>(options.cycles) * static_cast<std::int64_t>(options.cases.size()) *
         static_cast<std::int64_t>(options.sizes().size()) * num_roots;
}

std::string progress_text(std::int64_t rows_done, std::int64_t num_rows, double elapsed_seconds) {
  std::string text = detail::concat("row ", rows_done + 1);
  if (num_rows == 0) return text;
  text += detail::concat(" of ", num_rows);
  if (rows_done == 0) return text;
  const double per_row = elapsed_seconds / static_cast<double>(rows_done);
  const double left = std::ceil(per_row * static_cast<double>(num_rows - rows_done));
  return text + detail::concat(", about ", static_cast<std::int64_t>(left), " s left");
}

Progress::Progress(std::ostream* out, std::int64_t num_rows) : out_(out), num_rows_(num_rows) {
  if (num_rows == 1) out_ = nullptr;
  show();
}

Progress::~Progress() { erase(); }

void Progress::erase() {
  if (is_shown_) *out_ << "\r\033[K" << std::flush;  // to the start of the line; erase it
  is_shown_ = false;
}

void Progress::row_done() {
  ++rows_done_;
  if (rows_done_ != num_rows_) show();
}

void Progress::show() {
  if (out_ == nullptr) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  is_shown_ = true;
  *out_ << "# " << progress_text(rows_done_, num_rows_, elapsed.count()) << std::flush;
}

}  // namespace lockstep::bench
