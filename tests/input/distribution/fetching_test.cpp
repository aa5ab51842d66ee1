#include "input/distribution/fetching.hpp"

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/parts.hpp"

using namespace lockstep;
using detail::FetchedElement;
using detail::StagedFetcher;
using test::batch_of;
using test::sequence;
using test::Values;
using test::vector_of;

namespace {

FetchedElement fetch(detail::Fetcher& fetcher, const Values& values) {
  return fetcher.fetch(whole(batch_of({vector_of(values), Tensor::scalar<float>(1.5f)})));
}

}  // namespace

TEST_CASE("the host's memory is gathered into, other devices' is copied to", "[input][host]") {
  CHECK(dynamic_cast<detail::HostFetcher*>(detail::make_fetcher("CPU:1", 1).get()));
  detail::HostFetcher host("CPU:1");
  const FetchedElement element = fetch(host, {1, 2});
  CHECK_FALSE(element.copied);
  CHECK(element.tensors[0].device() == Device("CPU:1"));
  CHECK(element.tensors[0].to_vector<std::int64_t>() == Values{1, 2});
}

TEST_CASE("staged elements arrive whole, and stay while they are kept", "[input][host]") {
  std::vector<Tensor> kept;
  {
    StagedFetcher fetcher("CPU:1", 2);
    for (std::int64_t step = 0; step < 10; ++step) {
      FetchedElement element = fetch(fetcher, sequence(step, 2 * step));
      REQUIRE(element.copied);
      const detail::FlatElement tensors = receive(std::move(element));
      CHECK(tensors[0].device() == Device("CPU:1"));
      CHECK(tensors[1].item<float>() == 1.5f);
      kept.push_back(tensors[0]);
    }
  }
  for (std::int64_t step = 0; step < 10; ++step)
    CHECK(kept[static_cast<std::size_t>(step)].to_vector<std::int64_t>() == sequence(step, 2 * step));
}

TEST_CASE("staged elements use the same memory again", "[input][host]") {
  StagedFetcher fetcher("CPU:1", 2);
  const auto run = [&](int num_steps) {
    std::optional<FetchedElement> ahead;
    for (int step = 0; step < num_steps; ++step) {
      FetchedElement element = fetch(fetcher, Values(static_cast<std::size_t>(400 - step % 3), step));
      if (ahead) CHECK(receive(std::move(*ahead))[0].size() > 0);
      ahead = std::move(element);
    }
  };
  run(4);
  const MemoryStats before = memory_stats("CPU:1");
  run(100);
  CHECK(memory_stats("CPU:1").num_allocations == before.num_allocations);
  CHECK(memory_stats("CPU:1").in_use_bytes == before.in_use_bytes);
}

TEST_CASE("an element that was not received outlives its fetcher", "[input][host]") {
  std::optional<FetchedElement> element;
  {
    StagedFetcher fetcher("CPU:1", 1);
    element = fetch(fetcher, {1, 2, 3});
  }
  CHECK(receive(std::move(*element))[0].to_vector<std::int64_t>() == Values{1, 2, 3});
}

TEST_CASE("page-locked memory is not written before its copy is done: elements that wait stay whole",
          "[input][host]") {
  StagedFetcher fetcher("CPU:1", 8);
  std::vector<FetchedElement> ahead;
  for (std::int64_t i = 0; i < 6; ++i) ahead.push_back(fetch(fetcher, sequence(i, i + 5)));
  for (std::int64_t i = 0; i < 6; ++i)
    CHECK(receive(std::move(ahead[static_cast<std::size_t>(i)]))[0].to_vector<std::int64_t>() ==
          sequence(i, i + 5));
}

TEST_CASE("a part that cannot be fetched leaves the fetcher usable", "[input][host]") {
  StagedFetcher fetcher("CPU:1", 1);
  const detail::Part wrong{{batch_of({Tensor::zeros({1, 2})}), {{0, 1}}},
                           {batch_of({Tensor::zeros({1, 3})}), {{0, 1}}}};
  CHECK_THROWS_AS(fetcher.fetch(wrong), InvalidArgument);
  CHECK(receive(fetch(fetcher, {4}))[0].to_vector<std::int64_t>() == Values{4});
}
