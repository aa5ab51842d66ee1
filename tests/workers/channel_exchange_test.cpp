#include "workers/channel_exchange.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "support/local_channels.hpp"
#include "support/matchers.hpp"
#include "support/replicas.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using detail::ChannelExchange;
using test::on_replicas;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Lengths below, at and above what one call of the channel carries, and none.
std::string message(int worker, int round) {
  static constexpr std::size_t kLengths[] = {0, 1, 503, 504, 505, 5000};
  return std::string(kLengths[static_cast<std::size_t>(worker + round) % 6],
                     static_cast<char>('a' + (worker + 3 * round) % 26));
}

/// Has no memory for any call.
class ChannelWithoutMemory final : public backend::Channel {
 public:
  void all_gather(std::span<const std::byte>, std::span<std::byte>, backend::Deadline) override {
    throw std::bad_alloc();
  }
  void broadcast(std::span<std::byte>, int, backend::Deadline) override {}
  void barrier(backend::Deadline) override {}
  void all_to_all(std::span<const std::span<const std::byte>>, std::span<const std::span<std::byte>>,
                  backend::Deadline) override {}
  void abort(std::string_view) noexcept override {}
};

}  // namespace

TEST_CASE("messages of any length are exchanged over a channel") {
  test::LocalChannels channels(3);
  std::vector<std::unique_ptr<ChannelExchange>> exchanges;  // which go when all are done
  for (int worker = 0; worker < 3; ++worker)
    exchanges.push_back(std::make_unique<ChannelExchange>(channels.open(worker), 3));
  std::atomic<int> num_wrong{0};
  on_replicas(3, [&](int worker) {
    ChannelExchange& exchange = *exchanges[static_cast<std::size_t>(worker)];
    for (int round = 0; round < 60; ++round) {
      exchange.post(bytes_of(message(worker, round)));
      if (!exchange.wait([] { return false; }, {})) ++num_wrong;
      for (int other = 0; other < 3; ++other)
        if (text_of(exchange.message(other)) != message(other, round)) ++num_wrong;
    }
  });
  CHECK(num_wrong == 0);
}

TEST_CASE("a wait over a channel is given up, and taken up again") {
  test::LocalChannels channels(2);
  ChannelExchange first(channels.open(0), 2);
  first.post(bytes_of("early"));
  CHECK_FALSE(first.wait([] { return true; }, {}));
  CHECK_FALSE(first.wait([] { return false; }, std::chrono::steady_clock::now() + 5ms));
  std::atomic<bool> stops{false};
  std::thread other([&] {
    stops = true;
    first.interrupt();
  });
  CHECK_FALSE(first.wait([&] { return stops.load(); }, {}));
  other.join();

  ChannelExchange second(channels.open(1), 2);
  second.post(bytes_of("late"));
  CHECK(second.wait([] { return false; }, {}));
  CHECK(first.wait([] { return false; }, {}));
  CHECK(text_of(first.message(1)) == "late");
  CHECK(text_of(second.message(0)) == "early");
}

TEST_CASE("a wait over a channel that has failed says so, unless it is to stop") {
  test::LocalChannels channels(2);
  const auto other = channels.open(1);
  ChannelExchange exchange(channels.open(0), 2);
  exchange.post(bytes_of("to nobody"));
  other->abort("the other one has gone");
  CHECK_THROWS_AS(exchange.wait([] { return false; }, {}), CollectiveAborted);
  CHECK_THROWS_AS(exchange.wait([] { return false; }, {}), CollectiveAborted);
  CHECK_FALSE(exchange.wait([] { return true; }, {}));
}

TEST_CASE("where a channel's memory runs out the first wait says so, and later ones that it has ended") {
  ChannelExchange exchange(std::make_unique<ChannelWithoutMemory>(), 2);
  exchange.post(bytes_of("lost"));
  CHECK_THROWS_AS(exchange.wait([] { return false; }, {}), std::bad_alloc);
  CHECK_THROWS_MATCHES(exchange.wait([] { return false; }, {}), CollectiveAborted,
                       test::says("have ended in a call before: std::bad_alloc. Make a new strategy"));
}
