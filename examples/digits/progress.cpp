#include "progress.hpp"

#include <cstdio>
#include <ostream>

namespace digits {
namespace {

constexpr int kBarWidth = 40;
constexpr const char* kClearLine = "\r\033[K";

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

}  // namespace

std::string with_thousands(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t end = digits.size(); end > sign + 3;) digits.insert(end -= 3, 1, ',');
  return digits;
}

std::string percent(double fraction) { return format("%.1f %%", 100 * fraction); }

std::string Progress::epoch_label(int epoch) const {
  const int width = static_cast<int>(std::to_string(num_epochs_).size());
  return format("epoch %*d/%d", width, epoch, num_epochs_);
}

void Progress::step(int epoch, std::int64_t rows_seen) {
  if (!is_terminal_) return;
  const int filled = static_cast<int>(kBarWidth * rows_seen / num_rows_);
  if (filled == filled_) return;
  filled_ = filled;
  out_ << kClearLine << epoch_label(epoch) << "  [" << std::string(static_cast<std::size_t>(filled), '#')
       << std::string(static_cast<std::size_t>(kBarWidth - filled), '.') << "]  " << with_thousands(rows_seen)
       << " images" << std::flush;
}

void Progress::finish_epoch(const EpochReport& report) {
  if (is_terminal_) out_ << kClearLine;
  filled_ = -1;
  out_ << epoch_label(report.epoch) << format("  loss %.4f", report.training.loss) << "  train accuracy "
       << percent(report.training.accuracy()) << "  test accuracy " << percent(report.test.accuracy()) << "  "
       << with_thousands(static_cast<std::int64_t>(report.images_per_second)) << " images/s" << std::endl;
}

}  // namespace digits
