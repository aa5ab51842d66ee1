#include "cluster/worker_connection.hpp"

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "support/scoped_log_sink.hpp"
#include "workers/control/control_fixture.hpp"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("reports of another worker that are not understood are logged, and change nothing", "[workers]") {
  const std::vector<std::string> addresses = free_addresses(2);
  std::mutex mutex;
  std::condition_variable changed;
  std::string logged;
  const ScopedLogSink sink([&](std::string_view text) {
    const std::lock_guard lock(mutex);
    logged += text;
    changed.notify_all();
  });
  const auto is_logged = [&](std::string_view what) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 30s, [&] { return logged.find(what) != logged.npos; });
  };
  rethrow_first(on_threads(2, [&](int worker) {
    if (worker == 1) {
      ControlWorker other({.worker = 1, .addresses = addresses});
      other.connection->announce_failure(0, "short");
      other.connection->announce_failure(0, std::string("\0\0\0\0?\0\0\0\0\0\0\0\0the kind is none", 29));
      other.connection->announce_failure(0, std::string("\xff\xff\xff\xff"
                                                        "f\0\0\0\0\0\0\0\0no such group",
                                                        26));
      other.connection->leave();
    } else {
      const auto own = detail::WorkerConnection::open_own({.addresses = addresses}, {});
      CHECK(is_logged("A report of worker 1 is not understood: a message of another worker ends after"));
      CHECK(is_logged("it has the kind 63"));
      own->control().leave();
    }
  }));
}

}  // namespace
}  // namespace lockstep::test
