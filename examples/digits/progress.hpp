#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "trainer.hpp"

namespace digits {

/// "12,345"
std::string with_thousands(std::int64_t number);
/// "97.5 %"
std::string percent(double fraction);

/// The results of one epoch.
struct EpochReport {
  int epoch = 1;  ///< From 1.
  Score training;
  Score test;
  double images_per_second = 0;  ///< In training, over all replicas.
};

/// Prints the progress of training: one line for each epoch and, on a terminal, a growing bar below them.
class Progress {
 public:
  /// @param num_rows  the number of images in each epoch.
  Progress(std::ostream& out, bool is_terminal, int num_epochs, std::int64_t num_rows)
      : out_(out), is_terminal_(is_terminal), num_epochs_(num_epochs), num_rows_(num_rows) {}

  /// Redraws the bar if it has grown.
  void step(int epoch, std::int64_t rows_seen);
  /// Replaces the bar with the epoch's line.
  void finish_epoch(const EpochReport& report);

 private:
  std::string epoch_label(int epoch) const;

  std::ostream& out_;
  bool is_terminal_;
  int num_epochs_;
  std::int64_t num_rows_;
  int filled_ = -1;  // filled characters of the bar on the screen; -1: no bar
};

}  // namespace digits
