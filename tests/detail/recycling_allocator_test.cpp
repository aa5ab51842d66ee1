#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/detail/recycling_allocator.hpp>

#include "support/child_process.hpp"
#include "support/num_allocations.hpp"

using namespace lockstep;
using detail::give_recycled;
using detail::RecycledString;
using detail::RecycledVector;
using detail::take_recycled;
using test::num_allocations;

namespace {

/// How often `n` blocks at a time take memory from the heap.
std::int64_t allocations_of(std::size_t n, std::size_t size_bytes) {
  std::vector<void*> blocks(n);
  const std::int64_t before = num_allocations();
  for (void*& block : blocks) block = take_recycled(size_bytes);
  const std::int64_t taken = num_allocations() - before;
  for (void* const block : blocks) give_recycled(block, size_bytes);
  return taken;
}

}  // namespace

TEST_CASE("memory that was given back is given out again", "[detail][host]") {
  for (const std::size_t size : {0, 1, 64, 65, 1000, 5000, 100'000, 1 << 20}) {
    CAPTURE(size);
    allocations_of(3, size);
    CHECK(allocations_of(3, size) == 0);
  }
  const auto fill = [] {
    RecycledVector<int> numbers;
    for (int i = 0; i < 1000; ++i) numbers.push_back(i);
    RecycledString text;
    for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + numbers[static_cast<std::size_t>(i)] % 7);
    return text;
  };
  const RecycledString first = fill();
  { const RecycledString second = fill(); }
  const std::int64_t before = num_allocations();
  const RecycledString third = fill();
  const std::int64_t after = num_allocations();
  CHECK(after == before);
  CHECK(third == first);
}

TEST_CASE("blocks begin with a cache line", "[detail][host]") {
  for (int round = 0; round < 2; ++round) {
    for (const std::size_t size : {1, 100, 5000, 2 << 20}) {
      void* const block = take_recycled(size);
      CHECK(reinterpret_cast<std::uintptr_t>(block) % detail::kRecycledAlignment == 0);
      give_recycled(block, size);
    }
  }
  struct alignas(detail::kRecycledAlignment) Line {
    int value;
  };
  const RecycledVector<Line> lines(3);
  CHECK(reinterpret_cast<std::uintptr_t>(&lines[0]) % alignof(Line) == 0);
}

TEST_CASE("blocks of one size do not overlap", "[detail][host]") {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::pair<std::byte*, std::byte>> blocks;
    for (int i = 0; i < 100; ++i) {
      auto* const block = static_cast<std::byte*>(take_recycled(100));
      blocks.emplace_back(block, static_cast<std::byte>(i));
      for (int k = 0; k < 100; ++k) block[k] = static_cast<std::byte>(i);
    }
    bool same = true;
    for (const auto& [block, value] : blocks)
      for (int k = 0; k < 100; ++k) same &= block[k] == value;
    CHECK(same);
    for (const auto& [block, value] : blocks) give_recycled(block, 100);
  }
}

TEST_CASE("a thread that only takes memory keeps none when it ends", "[detail][host]") {
  constexpr std::size_t kSize = 3000, kNum = 64;
  allocations_of(kNum, kSize);
  void* block = nullptr;
  std::thread([&] { allocations_of(kNum, kSize); }).join();  // what this thread had is everybody's now
  std::thread([&] { block = take_recycled(kSize); }).join();
  give_recycled(block, kSize);
  CHECK(allocations_of(kNum, kSize) == 0);
}

TEST_CASE("no more than so much memory is kept", "[detail][host]") {
  constexpr std::size_t kSize = std::size_t{64} << 10;
  allocations_of(200, kSize);
  CHECK(allocations_of(200, kSize) == 200 - (4 << 20) / (64 << 10));
  constexpr std::size_t kLarge = (std::size_t{1} << 20) + 1;
  allocations_of(1, kLarge);
  CHECK(allocations_of(1, kLarge) == 1);
}

TEST_CASE("memory goes round between threads that only take and threads that only give", "[detail][host]") {
  constexpr int kRounds = 1000;
  constexpr std::int64_t kMaxKept = 32;  // by the two threads, on the way, and left over
  std::atomic<void*> passed = nullptr;
  const std::int64_t before = num_allocations();
  std::thread giver([&] {
    for (int i = 0; i < kRounds; ++i) {
      void* block = nullptr;
      while ((block = passed.exchange(nullptr)) == nullptr) std::this_thread::yield();
      give_recycled(block, 3000);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    void* const block = take_recycled(3000);
    while (passed.load() != nullptr) std::this_thread::yield();
    passed = block;
  }
  giver.join();
  CHECK(num_allocations() - before <= kMaxKept);
}

TEST_CASE("what a thread kept is everybody's after its end", "[detail][host]") {
  std::thread([] { allocations_of(4, 7000); }).join();
  CHECK(allocations_of(4, 7000) == 0);
}

TEST_CASE("a fork finds the memory usable", "[detail][host]") {
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) allocations_of(50, 200);
  });
  int num_right = 0;
  for (int i = 0; i < 20; ++i)
    num_right += test::in_child([] {
                   allocations_of(50, 200);
                   return 3;
                 }) == 3;
  stop = true;
  busy.join();
  CHECK(num_right == 20);
}
