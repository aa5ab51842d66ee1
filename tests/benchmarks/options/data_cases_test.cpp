#include "options/data_cases.hpp"

#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "benchmarks/options/parse.hpp"
#include "report/names.hpp"

using namespace lockstep;
using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("all stands for every operator and datatype, and what it leaves out is said", "[benchmarks]") {
  const Options ops = parse("-o all");
  CHECK(ops.cases.size() == 5);
  CHECK_THAT(ops.skipped_cases.at(0), ContainsSubstring("mulsum"));
  CHECK(parse("-d all").cases.size() == 12);
  const Options all = parse("-o all -d all");
  CHECK(all.cases.size() == 5 * 12 - 6);  // no avg of the integers
  CHECK_THAT(all.skipped_cases.at(1), ContainsSubstring("avg of int8"));
  CHECK(parse("-o avg -d all").cases.size() == 6);
}

TEST_CASE("operators and datatypes have nccl-tests' names", "[benchmarks]") {
  for (const char* name : {"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double",
                           "bfloat16", "f8e4m3", "f8e5m2"})
    CHECK(bench_name(parse(std::string("-d ") + name).cases.at(0).dtype) == name);
  for (const char* name : {"sum", "prod", "min", "max", "avg"})
    CHECK(bench_name(parse(std::string("-o ") + name).cases.at(0).op) == name);
  CHECK(parse("-d float32").cases.at(0).dtype == DType::f32);  // and the library's
  CHECK(parse("-d float16 -o mean").cases.at(0).op == ReduceOp::mean);
  CHECK_THAT(refusal("-d float17").message,
             ContainsSubstring("-d (--datatype) 'float17' is none of: int8 uint8"));
  CHECK_THAT(refusal("-o xor").message,
             ContainsSubstring("-o (--op) 'xor' is none of: sum prod max min avg all"));
}

TEST_CASE("what lockstep cannot reduce is refused by name", "[benchmarks]") {
  CHECK(refusal("-o mulsum").status == 5);
  CHECK_THAT(refusal("-o mulsum").message, ContainsSubstring("-o (--op) mulsum"));
  CHECK(refusal("-o avg -d int32").status == 5);
  CHECK_THAT(refusal("-o avg -d int32").message,
             ContainsSubstring("avg of int32") && ContainsSubstring("float64"));
}

TEST_CASE("what works on no data has one row, and an update none for integers", "[benchmarks]") {
  CHECK(parse("run").sizes() == std::vector<std::int64_t>{0});
  CHECK(parse("update -d all").cases.size() == 6);
  CHECK(parse("update -d all").skipped_cases.size() == 6);
  CHECK(refusal("update -d int32").status == 5);
  CHECK_THAT(refusal("update -d int32").message, ContainsSubstring("int32: update is for floating-point"));
}
