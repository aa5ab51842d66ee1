#include "usage.hpp"

#include <catch2/catch_test_macros.hpp>

namespace lockstep::soak {
namespace {

std::string growth_of(auto usage_of_life) {
  UsageHistory history;
  for (int life = 0; life < 40; ++life) history.add(usage_of_life(life));
  return history.growth();
}

TEST_CASE("soak: what grows from life to life is told") {
  CHECK(growth_of([](int life) { return Usage{.resident_kib = 20'000 + 100 * life}; }) ==
        "resident KiB from 21000 to 23000; ");
  CHECK(growth_of([](int life) { return Usage{.num_threads = 2 + life / 20}; }) == "threads from 2 to 3; ");
  CHECK(growth_of([](int life) { return Usage{.num_descriptors = 6 + life / 30}; }) ==
        "descriptors from 6 to 7; ");
  CHECK(growth_of([](int life) { return Usage{.num_mappings = 200 + life}; }) ==
        "mappings from 210 to 230; ");
}

TEST_CASE("soak: what is made once, or comes and goes, is no growth") {
  CHECK(growth_of([](int life) {
          return Usage{.resident_kib = life < 5 ? 10'000 : 20'000 + life % 3 * 4'000,
                       .num_threads = 2 + life % 2,
                       .num_descriptors = 6,
                       .num_mappings = 200 + life % 5};
        }).empty());
}

TEST_CASE("soak: usage is that of this process") {
  const Usage usage = Usage::now();
  CHECK(usage.resident_kib > 1000);
  CHECK(usage.num_threads >= 1);
  CHECK(usage.num_descriptors >= 3);
  CHECK(usage.num_mappings > 10);
}

TEST_CASE("soak: a short history is not compared") {
  UsageHistory history;
  for (int life = 0; life < 3; ++life) history.add({});
  CHECK(history.growth() == "too few lives to compare");
}

}  // namespace
}  // namespace lockstep::soak
