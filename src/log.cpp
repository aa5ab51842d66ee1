#include <cstdio>
#include <mutex>
#include <utility>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/log.hpp>

#include "detail/lazy.hpp"
#include "detail/warn.hpp"

namespace lockstep {

namespace {

struct Log {
  detail::Mutex mutex{"the log"};  // guards `sink`, also during its calls
  LogSink sink;
};

Log& the_log() {
  static constinit detail::Lazy<Log> log("the log, which was being made");
  return log.get([] { return new Log; });
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
    if (log.mutex.lock_unless_lost()) {
      const std::lock_guard lock(log.mutex, std::adopt_lock);
      if (log.sink) return log.sink(message);
    }
  } catch (...) {  // exceptions of the sink are dropped
    return;
  }
  std::fprintf(stderr, "lockstep: %.*s\n", static_cast<int>(message.size()), message.data());
}

}  // namespace lockstep
