#include <cstdio>
#include <mutex>
#include <utility>

#include <lockstep/log.hpp>

#include "detail/warn.hpp"

namespace lockstep {

namespace {

struct Log {
  std::mutex mutex;  // guards `sink`, also while it is called
  LogSink sink;
};

// Never destroyed: static objects may have something to say.
Log& the_log() {
  static Log* const log = new Log;
  return *log;
}

}  // namespace

LogSink set_log_sink(LogSink sink) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  return std::exchange(log.sink, std::move(sink));
}

void detail::warn(std::string_view message) noexcept {
  try {
    Log& log = the_log();
    const std::lock_guard lock(log.mutex);
    if (log.sink) return log.sink(message);
  } catch (...) {  // the sink's
    return;
  }
  std::fprintf(stderr, "lockstep: %.*s\n", static_cast<int>(message.size()), message.data());
}

}  // namespace lockstep
