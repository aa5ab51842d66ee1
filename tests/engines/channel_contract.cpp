#include "engines/channel_contract.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include <lockstep/error.hpp>

#include "host/processes/engine_communicator.hpp"
#include "support/fixed_group.hpp"

namespace lockstep::test {

using namespace std::chrono_literals;
using backend::Channel;
using std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

void expect(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

namespace {

// What process `from` sends to `to`: different for each pair.
Bytes message(int from, int to, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 7 + i / 251) + static_cast<std::size_t>(31 * from + 5 * to));
  return bytes;
}

// None, one, an odd number, and so many that an engine sends them in pieces.
std::vector<std::size_t> sizes(const ChannelCase& here) {
  return {0, 1, 1009, 1'000'003, here.num_processes == 2 ? (40u << 20) + 1 : (17u << 20) + 1};
}

backend::Deadline soon() { return steady_clock::now() + 60s; }

void all_gather(const ChannelCase& here) {
  const auto channel = here.open_channel();
  for (const std::size_t size : sizes(here)) {
    const Bytes own = message(here.process, 0, size);
    Bytes all(size * here.num_processes), expected;
    for (int p = 0; p < here.num_processes; ++p) {
      const Bytes part = message(p, 0, size);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    channel->all_gather(own, all, soon());
    expect(all == expected, "all_gather brings every process's bytes");
  }
}

void broadcast(const ChannelCase& here) {
  const auto channel = here.open_channel();
  for (int root = 0; root < here.num_processes; ++root) {
    for (const std::size_t size : sizes(here)) {
      Bytes buffer = here.process == root ? message(root, 0, size) : Bytes(size);
      channel->broadcast(buffer, root, soon());
      expect(buffer == message(root, 0, size), "broadcast brings the root's bytes");
    }
  }
}

void barrier(const ChannelCase& here) {
  const auto channel = here.open_channel();
  for (int i = 0; i < 100; ++i) {
    // The clock is one for all processes of a machine.
    const std::int64_t came = steady_clock::now().time_since_epoch().count();
    channel->barrier(soon());
    const std::int64_t left = steady_clock::now().time_since_epoch().count();
    const std::int64_t own[2] = {came, left};
    std::vector<std::int64_t> all(2 * here.num_processes);
    channel->all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)), std::nullopt);
    for (std::size_t p = 0; p < all.size(); p += 2)
      expect(all[p] <= left, "nobody leaves a barrier before all have come");
  }
}

void all_to_all(const ChannelCase& here) {
  const auto channel = here.open_channel();
  for (const std::size_t size : sizes(here)) {
    // Some pairs send nothing.
    const auto size_of = [&](int from, int to) {
      return (from + to) % 3 == 2 ? std::size_t{0} : size + static_cast<std::size_t>(from + 2 * to);
    };
    std::vector<Bytes> sent, received, expected;
    for (int p = 0; p < here.num_processes; ++p) {
      sent.push_back(message(here.process, p, size_of(here.process, p)));
      received.emplace_back(size_of(p, here.process));
      expected.push_back(message(p, here.process, size_of(p, here.process)));
    }
    const std::vector<std::span<const std::byte>> sends(sent.begin(), sent.end());
    const std::vector<std::span<std::byte>> receives(received.begin(), received.end());
    channel->all_to_all(sends, receives, soon());
    expect(received == expected, "all_to_all brings what each process sends to this one");
  }
}

void two_channels(const ChannelCase& here) {
  const auto first = here.open_channel();
  const auto second = here.open_channel();
  const auto gather = [&](Channel& channel, int salt) {
    for (int i = 0; i < 200; ++i) {
      const Bytes own = message(here.process, salt + i, 100);
      Bytes all(100u * here.num_processes), expected;
      for (int p = 0; p < here.num_processes; ++p) {
        const Bytes part = message(p, salt + i, 100);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      channel.all_gather(own, all, soon());
      if (all != expected) return false;
    }
    return true;
  };
  bool is_right = false;
  std::thread other([&] { is_right = gather(*second, 1000); });
  const bool is_own_right = gather(*first, 0);
  other.join();
  expect(is_right && is_own_right, "calls of two channels run at the same time and do not mix");
}

// Bits are the matter of engine_communicator_test.cpp, whose channels are not an engine's.
void communicator(const ChannelCase& here) {
  FixedGroup group(here.process, here.num_processes);
  const auto n = static_cast<std::size_t>(here.num_processes);
  host::EngineCommunicator communicator({&group, std::vector<int>(n, 1)}, here.open_channel());
  std::vector<float> value(3'000'003, 1.5f * static_cast<float>(here.process + 1)), sum(value.size());
  const auto count = static_cast<std::int64_t>(value.size());
  std::vector<backend::Segment> segments(n, {nullptr, nullptr, count, DType::f32});
  segments[here.process] = {value.data(), sum.data(), count, DType::f32};
  std::vector<backend::RankCall> calls;
  for (int rank = 0; rank < here.num_processes; ++rank) calls.push_back({rank, {}, {&segments[rank], 1}});
  communicator.all_reduce({"all_reduce(sum)", calls, std::span(calls).subspan(here.process, 1)});
  const float right = 1.5f * static_cast<float>(here.num_processes * (here.num_processes + 1) / 2);
  expect(sum == std::vector<float>(sum.size(), right), "a communicator over the channel sums");
}

// Half of the processes call one channel and half another, so that none of these calls can end.
template <class F>
void with_calls_that_cannot_end(const ChannelCase& here, const F& f) {
  const auto even = here.open_channel();
  const auto odd = here.open_channel();
  f(here.process % 2 == 0 ? *even : *odd);
}

template <class Kind, class F>
std::string message_of(const F& f, const char* what) {
  try {
    f();
  } catch (const Kind& error) {
    return error.what();
  }
  throw std::logic_error(what);
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

void deadline(const ChannelCase& here) {
  with_calls_that_cannot_end(here, [](Channel& channel) {
    const auto begin = steady_clock::now();
    const std::string late = message_of<CollectiveTimeout>(
        [&] { channel.barrier(begin + 50ms); }, "a call after its deadline throws CollectiveTimeout");
    expect(steady_clock::now() - begin >= 50ms, "a call does not end before its deadline");
    expect(steady_clock::now() - begin < 20s, "a call ends soon after its deadline");
    expect(has(late, "barrier") && has(late, "did not come within the time limit"), late.c_str());
    message_of<CollectiveAborted>([&] { channel.barrier(std::nullopt); },
                                  "a channel whose call was late is not used again");
  });
}

void abort(const ChannelCase& here) {
  with_calls_that_cannot_end(here, [](Channel& channel) {
    std::atomic<bool> is_called{false};
    std::thread aborting([&] {
      while (!is_called.load()) std::this_thread::yield();
      const auto end = steady_clock::now() + 20ms;  // most likely it waits then; before is as good
      while (steady_clock::now() < end) std::this_thread::yield();
      channel.abort("worker 7 has left");
      channel.abort("a later cause");
    });
    is_called.store(true);
    std::string text, again;
    try {
      text = message_of<CollectiveAborted>([&] { channel.barrier(std::nullopt); },
                                           "abort releases a call that waits, with CollectiveAborted");
    } catch (...) {
      aborting.join();
      throw;
    }
    aborting.join();
    // Another process may have aborted before, and its connections are gone.
    const auto has_cause = [](const std::string& said) {
      return has(said, "worker 7 has left") || (has(said, "process ") && has(said, " is lost ("));
    };
    expect(has(text, "barrier") && has_cause(text), text.c_str());
    std::byte byte{};
    again = message_of<CollectiveAborted>(
        [&] {
          channel.broadcast({&byte, 1}, 0, std::nullopt);
        },
        "an aborted channel refuses later calls");
    expect(has(again, "broadcast") && has_cause(again), again.c_str());
  });
}

void abort_of_an_unused_channel(const ChannelCase& here) {
  const auto channel = here.open_channel();
  const auto other = here.open_channel();
  channel->abort("nobody needs it");
  const std::string text = message_of<CollectiveAborted>([&] { channel->barrier(std::nullopt); },
                                                         "an aborted channel refuses calls");
  expect(has(text, "nobody needs it"), text.c_str());
  other->barrier(soon());
}

}  // namespace

const std::vector<NamedChannelCase>& channel_contract() {
  static const std::vector<NamedChannelCase> cases = {
      {"all_gather", &all_gather, false},
      {"broadcast", &broadcast, false},
      {"barrier", &barrier, false},
      {"all_to_all", &all_to_all, false},
      {"two_channels", &two_channels, false},
      {"communicator", &communicator, false},
      {"abort_of_an_unused_channel", &abort_of_an_unused_channel, false},
      {"deadline", &deadline, true},
      {"abort", &abort, true},
  };
  return cases;
}

}  // namespace lockstep::test
