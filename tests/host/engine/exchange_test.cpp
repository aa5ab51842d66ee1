#include "host/engine/exchange.hpp"

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/local_channels.hpp"
#include "support/replicas.hpp"

using namespace lockstep;
using test::on_replicas;

TEST_CASE("a stream of bytes is packed where it lies in several pieces, and unpacked to them", "[host]") {
  std::string memory = "0123456789";
  host::ByteStream stream;
  stream.add(memory.data() + 6, 3);
  stream.add(memory.data() + 9, 1);  // behind it: one piece with it
  stream.add(memory.data(), 0);
  stream.add(memory.data() + 1, 2);
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  CHECK(text(stream.packed(0, 100)) == "678912");
  CHECK(text(stream.packed(2, 3)) == "891");
  CHECK(stream.packed(1, 3).data() == reinterpret_cast<std::byte*>(memory.data() + 7));
  CHECK(text(stream.packed(4, 9)) == "12");
  CHECK(stream.packed(6, 1).empty());

  const std::span<std::byte> room = stream.room(3, 3);
  REQUIRE(room.size() == 3);
  const std::string brought = "abc";
  std::memcpy(room.data(), brought.data(), 3);
  stream.unpack(3, room);
  CHECK(memory == "0bc345678a");
  stream.clear();
  CHECK(stream.packed(0, 100).empty());
}

TEST_CASE("an exchange moves everything in rounds of bounded size, whatever each pair's amount", "[host]") {
  constexpr int n = 3;
  // Of several rounds, of one, and nothing.
  const auto size_of = [](int from, int to) { return from == 2 ? 0 : (from + 1) * (to + 2) * 1'500'001; };
  test::LocalChannels channels(n);
  std::vector<std::string> wrong(n);
  on_replicas(n, [&](int process) {
    const auto channel = channels.open(process);
    host::Exchange exchange(*channel, process, n);
    std::vector<std::vector<std::byte>> sent, received;
    for (int p = 0; p < n; ++p) {
      sent.emplace_back(size_of(process, p), static_cast<std::byte>(10 * process + p + 1));
      received.emplace_back(size_of(p, process));
    }
    for (int p = 0; p < n; ++p) {
      if (p == process) continue;
      const auto size = static_cast<std::int64_t>(sent[p].size());
      exchange.send(p, sent[p].data() + size / 3, size - size / 3);  // the bytes are all the same
      exchange.send(p, sent[p].data(), size / 3);
      exchange.receive(p, received[p].data(), static_cast<std::int64_t>(received[p].size()));
    }
    exchange.run(size_of(1, 2));
    for (int p = 0; p < n; ++p) {
      if (p != process && received[p] != std::vector<std::byte>(size_of(p, process),
                                                                static_cast<std::byte>(10 * p + process + 1)))
        wrong[process] += "from " + std::to_string(p) + " ";
    }
    exchange.run(0);
  });
  CHECK(wrong == std::vector<std::string>(n));
  CHECK(channels.num_calls() == 3);  // 12 million bytes, 4 MiB in each
}

TEST_CASE("an exchange from one to all is a broadcast in rounds", "[host]") {
  constexpr int n = 3;
  constexpr std::int64_t kSize = 5'000'001;
  test::LocalChannels channels(n);
  std::vector<int> num_right(n);
  on_replicas(n, [&](int process) {
    const auto channel = channels.open(process);
    host::Exchange exchange(*channel, process, n);
    std::vector<std::uint16_t> value(kSize), received(kSize);
    std::iota(value.begin(), value.end(), std::uint16_t{});
    for (int root = 0; root < n; ++root) {
      std::ranges::fill(received, std::uint16_t{});
      if (process == root) {
        exchange.send(root, value.data(), 2 * kSize);
      } else {
        exchange.receive(root, received.data(), 4);
        exchange.receive(root, received.data() + 2, 2 * kSize - 4);
      }
      exchange.run_broadcast(root, 2 * kSize);
      num_right[process] += received == value ? 1 : 0;
    }
  });
  CHECK(num_right == std::vector<int>(n, n - 1));
  CHECK(channels.num_calls() == n * 3);
}
