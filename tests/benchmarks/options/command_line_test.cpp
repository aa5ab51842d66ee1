#include "options/command_line.hpp"

#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "benchmarks/options/parse.hpp"

using namespace lockstep;
using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("every flag is read, in its short and its long form", "[benchmarks]") {
  const std::string flags = GENERATE(
      as<std::string>(),
      "-t 2 -g 3 -b 1K -e 4k -i 512 -f 2 -n 7 -w 3 -m 4 -N 5 -c 2 -o max -d half -r 5 -p 0 -z 3 -y 0 "
      "-T 9 -G 0 -C 1 -a 3 -R 0 -x 0 -D 0 -V 16 -S 1 -J out.json -M 1 -u 2 -I 1 -K 6",
      "--nthreads 2 --ngpus 3 --minbytes 1K --maxbytes 4k --stepbytes 512 --stepfactor 2 --iters 7 "
      "--warmup_iters 3 --agg_iters 4 --run_cycles 5 --check 2 --op max --datatype half --root 5 "
      "--parallel_init 0 --blocking 3 --stream_null 0 --timeout 9 --cudagraph 0 --report_cputime 1 "
      "--average 3 --local_register 0 --report_timestamps 1 --output_file out.json --memory 1 "
      "--unalign=2 --per_iter_timing 1 --per_iter_skip 6 --backend host --replicas 6");
  const Options options = parse(flags + " --floor");
  CHECK(options.threads == 2);
  CHECK(options.ranks_per_thread == 3);
  CHECK(options.sizes() == std::vector<std::int64_t>{1024, 2048, 4096});
  CHECK(options.step_bytes == 512);
  CHECK(options.iterations == 7);
  CHECK(options.warmup_iterations == 3);
  CHECK(options.aggregate == 4);
  CHECK(options.cycles == 5);
  CHECK(options.check == 2);
  REQUIRE(options.cases.size() == 1);
  CHECK(options.cases[0].dtype == DType::f16);
  CHECK(options.cases[0].op == ReduceOp::max);
  CHECK(parse("broadcast " + flags).root == 5);
  CHECK(options.blocking == Blocking::wait_and_untimed_barrier);
  CHECK(options.timeout_seconds == 9);
  CHECK(options.report_cpu_time);
  CHECK(options.average == Average::max);
  CHECK(options.report_timestamps);
  CHECK(options.output_file == "out.json");
  CHECK(options.report_memory);
  CHECK(options.unalign == 2);
  CHECK(options.per_iteration);
  CHECK(options.per_iteration_skip == 6);
  CHECK(options.floor);
}

TEST_CASE("a flag may be attached to its value, and the last of several wins", "[benchmarks]") {
  const Options options = parse("-b8 -e16 -i8 -n 3 -n 4");
  CHECK(options.sizes() == std::vector<std::int64_t>{8, 16});
  CHECK(options.iterations == 4);
}

TEST_CASE("unknown options and values out of range are usage errors of one line", "[benchmarks]") {
  for (const char* flags :
       {"--frobnicate", "-q", "-n 0", "-n x", "-w -1", "-z 4", "-a 4", "-t 0", "-m 0", "-c -1", "-S 2",
        "broadcast -r 1", "broadcast -r x", "broadcast -r -1", "extra", "-b"}) {
    INFO(flags);
    const Refusal refused = refusal(flags);
    CHECK(refused.status == 6);
    CHECK_FALSE(refused.message.empty());
    CHECK(refused.message.find('\n') == std::string::npos);
  }
  CHECK_THAT(refusal("--frobnicate").message, ContainsSubstring("--frobnicate"));
  CHECK_THAT(refusal("broadcast -t 2 -r 2").message, ContainsSubstring("neither all nor a rank below 2"));
  CHECK_FALSE(parse("broadcast -r all").root.has_value());
}

TEST_CASE("help is asked for with -h or --help, and names every flag", "[benchmarks]") {
  CHECK(asks_for_help({"-h"}));
  CHECK(asks_for_help({"all_reduce", "-n", "3", "--help"}));
  CHECK_FALSE(asks_for_help({"all_reduce", "-n", "3"}));
  CHECK_FALSE(asks_for_help({"--frobnicate"}));
  for (const char* flag :
       {"-b,--minbytes", "-J,--output_file", "-K,--per_iter_skip", "--replicas", "--virtual", "--floor"})
    CHECK_THAT(usage(), ContainsSubstring(flag));
  CHECK_THAT(usage(), !ContainsSubstring("2147483647"));
}

TEST_CASE("a number that is out of range is refused with the range", "[benchmarks]") {
  CHECK_THAT(refusal("-n 0").message, ContainsSubstring("'0' is not a whole number from 1 up"));
  CHECK_THAT(refusal("-n 1.5").message, ContainsSubstring("'1.5' is not a whole number from 1 up"));
  CHECK_THAT(refusal("-a 4").message,
             ContainsSubstring("--average") && ContainsSubstring("'4' is not a whole number from 0 to 3"));
}

TEST_CASE("P45 the help prints both bandwidth formulas", "[benchmarks]") {
  CHECK_THAT(usage(),
             ContainsSubstring("algbw = size / time") && ContainsSubstring("busbw = algbw x 2(n-1)/n"));
}
