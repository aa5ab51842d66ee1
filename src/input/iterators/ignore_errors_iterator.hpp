#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <lockstep/error.hpp>

#include "input/pipeline/pipeline.hpp"
#include "input/pipeline/stopping.hpp"

namespace lockstep::detail {

/// Counts and reports the errors of elements that a pass leaves out.
class IgnoredErrors {
 public:
  /// @param report  empty: the log.
  IgnoredErrors(std::int64_t max, ErrorReport report) : max_(max), report_(std::move(report)) {}
  /// Leaves out the element whose exception is being handled. @throws the exception, if there were `max`
  /// before, or if it is not about the element but about the calls.
  void add(const Error& error);
  /// The pass has ended: the log says how many elements were left out.
  void end();
  void transfer(PassState& state) { state(count_, has_ended_); }

 private:
  std::int64_t max_;
  ErrorReport report_;
  std::int64_t count_ = 0;
  bool has_ended_ = false;
};

/// Leaves out values that throw; elements, batches or row numbers.
template <class T>
class IgnoreErrorsIterator final : public Iterator<T> {
 public:
  IgnoreErrorsIterator(std::unique_ptr<Iterator<T>> input, std::int64_t max, ErrorReport report)
      : input_(std::move(input)), errors_(max, std::move(report)) {}

  std::optional<T> next() override {
    std::optional<T> value = without_errors([this] { return input_->next(); });
    if (!value) errors_.end();
    return value;
  }
  std::optional<RowBlock> next_rows(std::int64_t most) override {
    std::optional<RowBlock> rows = without_errors([&] { return input_->next_rows(most); });
    if (rows && rows->num_rows == 0) errors_.end();
    return rows;
  }
  void transfer(PassState& state) override { state(*input_, errors_); }

 private:
  template <class Take>
  auto without_errors(const Take& take) {
    for (;;) {
      check_stop();
      try {
        return take();
      } catch (const Error& error) {
        errors_.add(error);
      }
    }
  }

  std::unique_ptr<Iterator<T>> input_;
  IgnoredErrors errors_;
};

}  // namespace lockstep::detail
