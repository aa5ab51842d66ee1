#include <algorithm>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "support/communicator_group.hpp"
#include "support/dtypes.hpp"

using namespace lockstep;
using namespace lockstep::test;

namespace {

template <class T>
using Values = typename GuardedBuffer<T>::Values;

const std::vector<std::int64_t> kSizes = {0, 1, 31, 2049};

// Element i of what a rank sends: of the integers that every dtype has, by place and by sender.
template <class T>
Values<T> sent_by(int rank, std::int64_t n) {
  Values<T> values;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t mixed = static_cast<std::uint32_t>(i + 7919 * rank) * 2654435761U;
    values.push_back(static_cast<HostElement<T>>(mixed >> (std::same_as<T, bool> ? 31 : 29)));
  }
  return values;
}
template <class T>
std::vector<Values<T>> all_sent(int num_ranks, std::int64_t n) {
  std::vector<Values<T>> values;
  for (int rank = 0; rank < num_ranks; ++rank) values.push_back(sent_by<T>(rank, n));
  return values;
}
template <class T>
std::vector<Values<T>> blanks(int num_ranks, std::int64_t n) {
  return {static_cast<std::size_t>(num_ranks), Values<T>(static_cast<std::size_t>(n))};
}
template <class T>
Values<T> part(const Values<T>& values, int rank, std::int64_t size) {
  return {values.begin() + rank * size, values.begin() + (rank + 1) * size};
}
// What all_to_all makes of all_sent.
template <class T>
Values<T> exchanged(int rank, int num_ranks, std::int64_t size) {
  Values<T> expected;
  for (int source = 0; source < num_ranks; ++source) {
    const Values<T> received = part<T>(sent_by<T>(source, num_ranks * size), rank, size);
    expected.insert(expected.end(), received.begin(), received.end());
  }
  return expected;
}

TensorView moved(const TensorView& view, std::int64_t offset_bytes) {
  TensorView result = view;
  result.data = static_cast<std::byte*>(view.data) + offset_bytes;
  return result;
}

std::vector<RankViews> no_views(int num_ranks) {
  return std::vector<RankViews>(static_cast<std::size_t>(num_ranks));
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("gather concatenates ragged values in rank order, on the root alone", "[collectives]",
                        AllTypes) {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  CommunicatorGroup group(n);
  const int root = n - 1;
  for (const std::int64_t size : kSizes) {
    for (const CollectiveCase& c : kCollectiveCases) {
      // Rank r has r less than the first rows of two elements; none when there are none.
      std::vector<Values<TestType>> sent;
      Values<TestType> expected;
      for (int rank = 0; rank < n; ++rank) {
        sent.push_back(sent_by<TestType>(rank, 2 * std::max<std::int64_t>(0, size - rank)));
        expected.insert(expected.end(), sent.back().begin(), sent.back().end());
      }
      const auto rows_of = [](const Values<TestType>& values) {
        return Shape(static_cast<std::int64_t>(values.size()) / 2, 2);
      };
      Values<TestType> initial(expected.size());
      if (c.in_place) std::ranges::copy_backward(sent.back(), initial.end());
      const RankBuffers<TestType> inputs(group, sent, c.offset_bytes);
      const GuardedBuffer<TestType> output(group.stream(root), initial, c.offset_bytes);
      std::vector<RankViews> views = no_views(n);
      for (int rank = 0; rank < n; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        views[r].inputs = {inputs[rank].view(rows_of(sent[r]))};
      }
      views.back().outputs = {output.view(rows_of(expected))};
      if (c.in_place) {  // the root's own part of its output
        TensorView& input = views.back().inputs[0];
        input.data = moved(output.view(), output.view().nbytes() - input.nbytes()).data;
      }
      group.run(c.drive, views,
                [&](std::span<const RankBatch> batches) { group.communicator().gather(root, batches); });
      CAPTURE(n, size, c.in_place, c.offset_bytes);
      REQUIRE(output.values() == expected);
      for (int rank = 0; rank < n; ++rank)
        REQUIRE(inputs[rank].values() == sent[static_cast<std::size_t>(rank)]);
      REQUIRE(output.guards_intact());
    }
  }
}

TEMPLATE_LIST_TEST_CASE("scatter gives each rank its part of the root's values", "[collectives]", AllTypes) {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  CommunicatorGroup group(n);
  const int root = n / 2;
  for (const std::int64_t size : kSizes) {
    for (const CollectiveCase& c : kCollectiveCases) {
      const Values<TestType> sent = sent_by<TestType>(root, n * size);
      const GuardedBuffer<TestType> input(group.stream(root), sent, c.offset_bytes);
      const RankBuffers<TestType> outputs(group, blanks<TestType>(n, size), c.offset_bytes);
      std::vector<RankViews> views = no_views(n);
      for (int rank = 0; rank < n; ++rank)
        views[static_cast<std::size_t>(rank)].outputs = {outputs[rank].view()};
      RankViews& roots = views[static_cast<std::size_t>(root)];
      roots.inputs = {input.view()};
      if (c.in_place)  // the root's own part of its input
        roots.outputs[0].data = moved(input.view(), root * outputs[root].view().nbytes()).data;
      group.run(c.drive, views,
                [&](std::span<const RankBatch> batches) { group.communicator().scatter(root, batches); });
      CAPTURE(n, size, c.in_place, c.offset_bytes);
      REQUIRE(input.values() == sent);
      for (int rank = 0; rank < n; ++rank) {
        if (c.in_place && rank == root) continue;
        REQUIRE(outputs[rank].values() == part<TestType>(sent, rank, size));
      }
      REQUIRE(input.guards_intact());
      REQUIRE(outputs.guards_intact());
    }
  }
}

TEMPLATE_LIST_TEST_CASE("all_to_all gives each rank a part of every rank's values", "[collectives]",
                        AllTypes) {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  CommunicatorGroup group(n);
  for (const std::int64_t size : kSizes) {
    for (const CollectiveCase& c : kCollectiveCases) {
      const RankBuffers<TestType> inputs(group, all_sent<TestType>(n, n * size), c.offset_bytes);
      const RankBuffers<TestType> outputs(group, blanks<TestType>(n, n * size), c.offset_bytes);
      std::vector<RankViews> views = no_views(n);
      for (int rank = 0; rank < n; ++rank)  // outputs of any shape
        views[static_cast<std::size_t>(rank)] = {{inputs[rank].view()}, {outputs[rank].view(Shape(n, size))}};
      group.run(c.drive, views,
                [&](std::span<const RankBatch> batches) { group.communicator().all_to_all(batches); });
      CAPTURE(n, size, c.offset_bytes);
      for (int rank = 0; rank < n; ++rank) {
        REQUIRE(inputs[rank].values() == sent_by<TestType>(rank, n * size));
        REQUIRE(outputs[rank].values() == exchanged<TestType>(rank, n, size));
      }
      REQUIRE(outputs.guards_intact());
    }
  }
}

TEMPLATE_LIST_TEST_CASE("send_recv takes each rank's values to its destination", "[collectives]", AllTypes) {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  CommunicatorGroup group(n);
  std::vector<int> nowhere, self, ring, reversed, to_odd;
  for (int rank = 0; rank < n; ++rank) {
    nowhere.push_back(-1);
    self.push_back(rank);
    ring.push_back((rank + 1) % n);
    reversed.push_back(n - 1 - rank);
    to_odd.push_back(rank % 2 == 0 && rank + 1 < n ? rank + 1 : -1);
  }
  for (const std::vector<int>& destinations : {nowhere, self, ring, reversed, to_odd}) {
    for (const std::int64_t size : kSizes) {
      for (const CollectiveCase& c : kCollectiveCases) {
        // Every rank sends another number of elements.
        const auto length = [&](int rank) { return size == 0 ? 0 : size + rank; };
        std::vector<Values<TestType>> sent, received = blanks<TestType>(n, 0);
        std::vector<RankViews> views = no_views(n);
        for (int rank = 0; rank < n; ++rank) sent.push_back(sent_by<TestType>(rank, length(rank)));
        for (std::size_t rank = 0; rank < sent.size(); ++rank) {
          if (destinations[rank] >= 0) received[static_cast<std::size_t>(destinations[rank])] = sent[rank];
        }
        std::vector<Values<TestType>> initial;
        for (const auto& values : received) initial.emplace_back(values.size());
        const RankBuffers<TestType> inputs(group, sent, c.offset_bytes);
        const RankBuffers<TestType> outputs(group, initial, c.offset_bytes);
        for (std::size_t rank = 0; rank < sent.size(); ++rank) {
          if (destinations[rank] < 0) continue;
          views[rank].inputs = {inputs[static_cast<int>(rank)].view()};
          views[static_cast<std::size_t>(destinations[rank])].outputs = {outputs[destinations[rank]].view()};
        }
        group.run(c.drive, views, [&](std::span<const RankBatch> batches) {
          group.communicator().send_recv(destinations, batches);
        });
        CAPTURE(n, size, c.offset_bytes, destinations);
        for (int rank = 0; rank < n; ++rank) {
          REQUIRE(inputs[rank].values() == sent[static_cast<std::size_t>(rank)]);
          REQUIRE(outputs[rank].values() == received[static_cast<std::size_t>(rank)]);
        }
        REQUIRE(outputs.guards_intact());
      }
    }
  }
}

TEST_CASE("batches of several dtypes and sizes are transferred, what is empty included", "[collectives]") {
  const int n = GENERATE(1, 2, 3);
  const Drive drive = GENERATE(Drive::one_thread, Drive::thread_per_replica);
  CommunicatorGroup group(n);
  const RankBuffers<float> floats(group, all_sent<float>(n, 5 * n)), empty(group, blanks<float>(n, 0));
  const RankBuffers<std::uint8_t> bytes(group, all_sent<std::uint8_t>(n, 301 * n));
  const auto check = [&](bool root_sends, bool root_receives, const auto& collective, const auto& expected) {
    const RankBuffers<float> float_outputs(group, blanks<float>(n, 5 * n * n));
    const RankBuffers<std::uint8_t> byte_outputs(group, blanks<std::uint8_t>(n, 301 * n * n));
    std::vector<RankViews> views = no_views(n);
    const std::int64_t factor = root_receives ? n : 1, divisor = root_sends ? n : 1;
    for (int rank = 0; rank < n; ++rank) {
      RankViews& of_rank = views[static_cast<std::size_t>(rank)];
      if (!root_sends || rank == 0)
        of_rank.inputs = {floats[rank].view(), empty[rank].view(), bytes[rank].view()};
      if (!root_receives || rank == 0)
        of_rank.outputs = {float_outputs[rank].view(Shape(5 * n * factor / divisor)), empty[rank].view(),
                           byte_outputs[rank].view(Shape(301 * n * factor / divisor))};
    }
    group.run(drive, views, collective);
    for (int rank = 0; rank < (root_receives ? 1 : n); ++rank) {
      const Values<float> float_values = expected(rank, std::int64_t{5}, float());
      const Values<std::uint8_t> byte_values = expected(rank, std::int64_t{301}, std::uint8_t());
      auto first_floats = float_outputs[rank].values();
      first_floats.resize(float_values.size());
      REQUIRE(first_floats == float_values);
      auto first_bytes = byte_outputs[rank].values();
      first_bytes.resize(byte_values.size());
      REQUIRE(first_bytes == byte_values);
    }
  };
  check(
      false, true, [&](auto batches) { group.communicator().gather(0, batches); },
      [&]<class T>(int, std::int64_t size, T) {
        Values<T> all;
        for (const Values<T>& values : all_sent<T>(n, size * n))
          all.insert(all.end(), values.begin(), values.end());
        return all;
      });
  check(
      true, false, [&](auto batches) { group.communicator().scatter(0, batches); },
      [&]<class T>(int rank, std::int64_t size, T) { return part<T>(sent_by<T>(0, size * n), rank, size); });
  check(
      false, false, [&](auto batches) { group.communicator().all_to_all(batches); },
      [&]<class T>(int rank, std::int64_t size, T) { return exchanged<T>(rank, n, size); });
  std::vector<int> ring;
  for (int rank = 0; rank < n; ++rank) ring.push_back((rank + 1) % n);
  check(
      false, false, [&](auto batches) { group.communicator().send_recv(ring, batches); },
      [&]<class T>(int rank, std::int64_t size, T) { return sent_by<T>((rank + n - 1) % n, size * n); });
}

TEST_CASE("transfers follow each other in the order of calls, in large pieces too", "[collectives]") {
  constexpr int n = 3;
  const std::int64_t size = GENERATE(1, 100'003);  // the larger one is more than a host thread takes at once
  const Drive drive = GENERATE(Drive::one_thread, Drive::thread_per_replica);
  CommunicatorGroup group(n);
  Communicator& communicator = group.communicator();
  const Values<std::int32_t> sent = sent_by<std::int32_t>(0, n * n * size);
  const GuardedBuffer<std::int32_t> source(group.stream(0), sent),
      result(group.stream(0), Values<std::int32_t>(sent.size()));
  const RankBuffers<std::int32_t> a(group, blanks<std::int32_t>(n, n * size)),
      b(group, blanks<std::int32_t>(n, n * size));
  // All parts go round: scattered, exchanged and back again, passed on by each of three ranks, gathered.
  const std::vector<int> ring = {1, 2, 0};
  group.run(drive, no_views(n), [&](std::span<const RankBatch> ranks) {
    const auto run = [&](const auto& from, const auto& to, const auto& collective) {
      std::vector<RankViews> views = no_views(n);
      std::vector<RankBatch> batches;
      for (const RankBatch& of_rank : ranks) {
        RankViews& own = views[static_cast<std::size_t>(of_rank.rank)];
        own = {from(of_rank.rank), to(of_rank.rank)};
        batches.push_back(group.batch(of_rank.rank, own));
      }
      collective(std::span<const RankBatch>(batches));
    };
    using Views = std::vector<TensorView>;
    const auto in_a = [&](int rank) { return Views{a[rank].view()}; };
    const auto in_b = [&](int rank) { return Views{b[rank].view()}; };
    const auto root_only = [](const GuardedBuffer<std::int32_t>& buffer) {
      return [&buffer](int rank) { return rank == 0 ? Views{buffer.view()} : Views(); };
    };
    const auto pass_on = [&](auto batches) { communicator.send_recv(ring, batches); };
    run(root_only(source), in_a, [&](auto batches) { communicator.scatter(0, batches); });
    run(in_a, in_b, [&](auto batches) { communicator.all_to_all(batches); });
    run(in_b, in_a, [&](auto batches) { communicator.all_to_all(batches); });
    run(in_a, in_b, pass_on);
    run(in_b, in_a, pass_on);
    run(in_a, in_b, pass_on);
    run(in_b, root_only(result), [&](auto batches) { communicator.gather(0, batches); });
  });
  REQUIRE(result.values() == sent);
}

TEST_CASE("the transfers for one thread and one tensor for each rank do what the batches do",
          "[collectives]") {
  const int n = GENERATE(1, 3);
  CommunicatorGroup group(n);
  Communicator& communicator = group.communicator();
  const RankBuffers<float> inputs(group, all_sent<float>(n, 2 * n)), outputs(group, blanks<float>(n, 2 * n)),
      parts(group, blanks<float>(n, 2));
  communicator.all_to_all(inputs.views(), outputs.views(), group.streams());
  for (int rank = 0; rank < n; ++rank) REQUIRE(outputs[rank].values() == exchanged<float>(rank, n, 2));

  communicator.scatter(inputs[n - 1].view(), parts.views(), n - 1, group.streams());
  for (int rank = 0; rank < n; ++rank)
    REQUIRE(parts[rank].values() == part<float>(sent_by<float>(n - 1, 2 * n), rank, 2));
  communicator.gather(parts.views(), outputs[0].view(), 0, group.streams());
  REQUIRE(outputs[0].values() == sent_by<float>(n - 1, 2 * n));

  // Whoever takes no part has any views.
  std::vector<int> destinations(static_cast<std::size_t>(n), -1);
  destinations.back() = 0;
  std::vector<TensorView> sent(static_cast<std::size_t>(n)), received = sent;
  sent.back() = inputs[n - 1].view();
  received.front() = outputs[0].view();
  communicator.send_recv(destinations, sent, received, group.streams());
  REQUIRE(outputs[0].values() == sent_by<float>(n - 1, 2 * n));
}
