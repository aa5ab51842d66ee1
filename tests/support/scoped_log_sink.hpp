#pragma once

#include <utility>

#include <lockstep/log.hpp>

namespace lockstep::test {

/// Sends the log to `sink` while it lives, however a test ends.
class ScopedLogSink {
 public:
  explicit ScopedLogSink(LogSink sink) : before_(set_log_sink(std::move(sink))) {}
  ScopedLogSink(const ScopedLogSink&) = delete;
  ScopedLogSink& operator=(const ScopedLogSink&) = delete;
  ~ScopedLogSink() { set_log_sink(std::move(before_)); }

 private:
  LogSink before_;
};

}  // namespace lockstep::test
