#include "options/operation_options.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <unistd.h>

#include "benchmarks/options/parse.hpp"

using namespace lockstep;
using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("an algorithm is chosen where there is a choice", "[benchmarks]") {
  CHECK(parse("").algorithm == Algorithm::automatic);
  CHECK(parse("--algorithm rank_order").algorithm == Algorithm::rank_order);
  CHECK(parse("batch_reduce --sizes 4 --algorithm rank_order").algorithm == Algorithm::rank_order);
  CHECK(parse("batch_reduce --sizes 4 --algorithm one_device").algorithm == Algorithm::one_device);
  CHECK(parse("batch_reduce --sizes 4 --algorithm hierarchical").algorithm == Algorithm::hierarchical);
  CHECK(parse("batch_reduce --sizes 4 --algorithm packed").algorithm == Algorithm::packed);
  for (const char* flags : {"--algorithm packed", "broadcast --algorithm rank_order",
                            "axis_reduce --algorithm rank_order", "run --algorithm one_device"}) {
    INFO(flags);
    CHECK(refusal(flags).status == 6);
    CHECK_THAT(refusal(flags).message, ContainsSubstring("makes no sense with"));
  }
  CHECK(refusal("--algorithm tree").status == 6);
  CHECK_THAT(refusal("--algorithm tree").message, ContainsSubstring("--algorithm 'tree' is none of: auto"));
}

TEST_CASE("an axis reduction has a shape, whose outer extent the size may say", "[benchmarks]") {
  const AxisShape usual = parse("axis_reduce -b 1M -e 1M").shape;
  CHECK_FALSE(usual.outer.has_value());
  CHECK(usual.axis == 64);
  CHECK(usual.inner == 64);
  const Options fixed = parse("axis_reduce --shape 2,3,5");
  CHECK(fixed.shape.outer == 2);
  CHECK(fixed.shape.axis == 3);
  CHECK(fixed.shape.inner == 5);
  CHECK(fixed.sizes().size() == 1);
  const Options open = parse("axis_reduce --shape *,3,5 -b 60 -e 120 -f 2");
  CHECK_FALSE(open.shape.outer.has_value());
  CHECK(open.sizes().size() == 2);
  for (const char* shape : {"1,2", "1,2,3,4", "1,*,3", "0,2,3", "1,2,-3", "1,2,3x", "a,2,3", "1,,3"}) {
    INFO(shape);
    CHECK(refusal(std::string("axis_reduce --shape ") + shape).status == 6);
    CHECK_THAT(refusal(std::string("axis_reduce --shape ") + shape).message,
               ContainsSubstring("is not OUTER,AXIS,INNER"));
  }
  CHECK(refusal("axis_reduce --shape 1,2,3 -b 8 -e 8").status == 6);
  for (const char* shape : {"*,2147483647,2147483647", "2147483647,2147483647,1"}) {
    CHECK(refusal(std::string("axis_reduce --shape ") + shape).status == 255);
    CHECK_THAT(refusal(std::string("axis_reduce --shape ") + shape).message,
               ContainsSubstring("has more than 2^59 elements"));
  }
  CHECK(parse("axis_reduce --shape *,1073741824,536870912").shape.axis == 1 << 30);
}

TEST_CASE("a batch's sizes come from a list or a file", "[benchmarks]") {
  CHECK(parse("batch_reduce --sizes 4K,20,1.5M").batch_sizes_bytes ==
        std::vector<std::int64_t>{4096, 20, 1572864});
  CHECK(parse("batch_reduce --sizes 4K,20").sizes() == std::vector<std::int64_t>{4116});
  CHECK(refusal("batch_reduce").status == 6);
  CHECK_THAT(refusal("batch_reduce").message, ContainsSubstring("needs either --sizes or --sizes_file"));
  CHECK(refusal("batch_reduce --sizes 4,x").status == 255);
  CHECK(refusal("batch_reduce --sizes 4,,4").status == 255);
  const std::string half = "2147483648G";  // of 2^62
  CHECK(parse("batch_reduce --sizes 4611686018427387392").max_bytes == (std::int64_t{1} << 62) - 512);
  CHECK(refusal("batch_reduce --sizes " + half + ',' + half + ',' + half + ',' + half).status == 255);
  CHECK_THAT(refusal("batch_reduce --sizes " + half + ',' + half).message,
             ContainsSubstring("have 2^62 bytes together, or more"));

  const auto path = std::filesystem::temp_directory_path() / ("lockstep_sizes_" + std::to_string(getpid()));
  const auto parse_file = [&](const char* text) {
    std::ofstream(path) << text;
    return "batch_reduce --sizes_file " + path.string();
  };
  CHECK(parse(parse_file("# a model\nconv1.weight 36K\n\n  256  # bias\n")).batch_sizes_bytes ==
        std::vector<std::int64_t>{36864, 256});
  CHECK(refusal(parse_file("conv1.weight 36K\nconv1.bias lots\n")).status == 255);
  CHECK_THAT(refusal(parse_file("conv1.weight 36K\nconv1.bias lots\n")).message,
             ContainsSubstring("line 2: 'lots' is not a size"));
  CHECK_THAT(refusal(parse_file("# nothing\n")).message, ContainsSubstring("has no sizes"));
  CHECK(refusal(parse_file("4\n") + " --sizes 4").status == 6);
  std::filesystem::remove(path);
  CHECK(refusal("batch_reduce --sizes_file " + path.string()).status == 6);
  CHECK_THAT(refusal("batch_reduce --sizes_file " + path.string()).message,
             ContainsSubstring("cannot be read"));
}
