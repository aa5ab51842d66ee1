#include "trace/region.hpp"

#include <string>
#include <string_view>
#include <thread>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/trace.hpp>

namespace lockstep::detail {

TEST_CASE("regions of a thread nest", "[trace][host]") {
  CHECK(RegionPath::own().view().empty());
  {
    const trace::Region train("train");
    CHECK(RegionPath::own().view() == "train");
    {
      const trace::Region backward(std::string("backward"));
      CHECK(RegionPath::own().view() == "train/backward");
      std::thread([] { CHECK(RegionPath::own().view().empty()); }).join();
    }
    CHECK(RegionPath::own().view() == "train");
  }
  CHECK(RegionPath::own().view().empty());
}

TEST_CASE("of long names the end is kept", "[trace][host]") {
  const trace::Region outer("0123456789");
  const trace::Region inner("abcdefghijklmnopqrstuvwxy");
  CHECK(RegionPath::own().view() == "456789/abcdefghijklmnopqrstuvwxy");
  const trace::Region longer("the end of this name, which is the longest, stays");
  CHECK(RegionPath::own().view() ==
        std::string_view("the end of this name, which is the longest, stays").substr(17));
}

TEST_CASE("another thread's regions hold for a scope", "[trace][host]") {
  const trace::Region outer("outer");
  const RegionPath path = RegionPath::own();
  std::thread([&] {
    const trace::Region own("own");
    {
      const RegionScope scope(path);
      CHECK(RegionPath::own().view() == "outer");
    }
    CHECK(RegionPath::own().view() == "own");
  }).join();
}

TEST_CASE("a recording has regions as spans", "[trace][host]") {
  trace::start();
  { const trace::Region region("a region"); }
  trace::stop();
  const trace::Summary summary = trace::summary();
  REQUIRE(summary.rows.size() == 1);
  CHECK(summary.rows[0].kind == "region");
  CHECK(summary.rows[0].name == "a region");
}

}  // namespace lockstep::detail
