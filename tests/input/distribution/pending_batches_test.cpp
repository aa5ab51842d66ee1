#include "input/distribution/pending_batches.hpp"

#include <stdexcept>

#include <catch2/catch_test_macros.hpp>

#include "input/rows/host_rows.hpp"
#include "input/rows/part.hpp"
#include "support/input.hpp"

using namespace lockstep;
using detail::BatchHandle;
using detail::IterationKey;
using detail::PassState;
using detail::PendingBatches;
using detail::ShareSource;
using test::Values;

namespace {

/// Batches 0 1 | 2 3 | …, of which the one with `bad` throws, and as the share of one of two workers.
std::shared_ptr<const ShareSource> source(std::int64_t bad, std::int64_t index = 0) {
  return std::make_shared<const ShareSource>(ShareSource{[bad](std::int64_t num_shards, std::int64_t share) {
                                                           return Dataset::range(12)
                                                               .shard(num_shards, share)
                                                               .map([bad](const Tensor& x) {
                                                                 if (x.item<std::int64_t>() == bad)
                                                                   throw std::runtime_error("bad");
                                                                 return x;
                                                               })
                                                               .batch(2)
                                                               .pipeline();
                                                         },
                                                         2, index});
}

PendingBatches opened(const std::shared_ptr<const ShareSource>& source) {
  const IterationKey key = IterationKey::next(source->pipeline(2, source->index)->counts);
  return {source, &key};
}

std::string state_of(PendingBatches& batches) {
  PassState state;
  state(batches);
  return state.take();
}

PendingBatches restored(const std::shared_ptr<const ShareSource>& source,
                        const std::vector<std::string>& states) {
  PendingBatches batches(source, nullptr);
  for (const std::string& bytes : states) {
    PassState state(bytes);
    state(batches);
    state.expect_end();
  }
  return batches;
}

/// The rows of the batches that are left; -1: one that throws.
Values rest_of(PendingBatches& batches) {
  Values rows;
  for (;;) try {
      const auto batch = batches.next();
      if (!batch) return rows;
      for (const std::int64_t row :
           detail::gather(detail::whole(*batch), detail::input_device())[0].to_vector<std::int64_t>())
        rows.push_back(row);
    } catch (const Error&) {
      rows.push_back(-1);
    }
}

}  // namespace

TEST_CASE("batches that the user has not seen are in the state, whether or not they were read",
          "[input][host]") {
  PendingBatches batches = opened(source(-1));
  for (int i = 0; i < 3; ++i) CHECK(batches.next());
  PendingBatches all = restored(source(-1), {state_of(batches)});
  CHECK(rest_of(all) == Values{0, 2, 4, 6, 8, 10});
  batches.set_seen({{1, 0, 0}, 1});
  PendingBatches later = restored(source(-1), {state_of(batches)});
  CHECK(rest_of(later) == Values{4, 6, 8, 10});
  batches.set_seen({{1, 1, 0}, 2});
  PendingBatches within = restored(source(-1), {state_of(batches)});
  CHECK(rest_of(within) == Values{6, 8, 10});
  // A state of a pass that has just been restored.
  PendingBatches again = restored(source(-1), {state_of(batches)});
  CHECK(again.next());
  PendingBatches twice = restored(source(-1), {state_of(again)});
  CHECK(rest_of(twice) == Values{6, 8, 10});
  CHECK(rest_of(batches) == Values{});
}

TEST_CASE("an exception that the user has had is not in the state, one that is yet to come is",
          "[input][host]") {
  PendingBatches batches = opened(source(6));
  CHECK(batches.next());
  CHECK_THROWS(batches.next());
  PendingBatches yet = restored(source(6), {state_of(batches)});
  CHECK(rest_of(yet) == Values{0, 2, -1, 4, 8, 10});
  batches.set_seen({{0, 0, 0}, 2});  // the batch before it is kept for the next step
  PendingBatches had = restored(source(6), {state_of(batches)});
  CHECK(rest_of(had) == Values{0, 2, 4, 8, 10});
  batches.set_seen({{2, 0, 0}, 2});
  PendingBatches after = restored(source(6), {state_of(batches)});
  CHECK(rest_of(after) == Values{4, 8, 10});
}

TEST_CASE("a worker goes on with the shares of several", "[input][host]") {
  PendingBatches first = opened(source(-1)), second = opened(source(-1, 1));
  CHECK(first.next());
  first.set_seen({{1, 0, 0}, 1});
  const std::vector<std::string> states{state_of(first), state_of(second)};
  PendingBatches both = restored(source(-1), states);
  CHECK(both.next());
  both.set_seen({{1, 0, 0}, 1});
  PendingBatches again = restored(source(-1), {state_of(both)});
  CHECK(rest_of(again) == Values{8, 10, 1, 3, 5, 7, 9, 11});
  PendingBatches none(source(-1), nullptr);
  CHECK_FALSE(none.next());
  PendingBatches still_none = restored(source(-1), {state_of(none)});
  CHECK_FALSE(still_none.next());
}
