#include "options/options.hpp"

#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/version.hpp>

#include "benchmarks/options/parse.hpp"

using namespace lockstep;
using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("without flags the options are nccl-tests' defaults", "[benchmarks]") {
  const Options options = parse("");
  CHECK(options.collective == "all_reduce");
  CHECK(options.num_ranks() == 1);
  CHECK(options.sizes() == std::vector<std::int64_t>{32 << 20});
  CHECK(options.step_bytes == 1 << 20);
  CHECK(options.iterations == 20);
  CHECK(options.warmup_iterations == 1);
  CHECK(options.aggregate == 1);
  CHECK(options.cycles == 1);
  CHECK(options.check == 1);
  REQUIRE(options.cases.size() == 1);
  CHECK(options.cases[0].dtype == DType::f32);
  CHECK(options.cases[0].op == ReduceOp::sum);
  CHECK(options.root == 0);
  CHECK(options.blocking == Blocking::none);
  CHECK(options.average == Average::mean);
  CHECK(options.timeout_seconds == 0);
  CHECK_FALSE(options.floor);
  CHECK_FALSE(options.pass_mark_gbps);
}

TEST_CASE("replicas are shared out among threads", "[benchmarks]") {
  const auto ranks = [](const std::string& flags) {
    const Options options = parse(flags);
    return std::pair(options.threads, options.ranks_per_thread);
  };
  CHECK(ranks("--replicas 4") == std::pair(4, 1));
  CHECK(ranks("--replicas 4 -t 2") == std::pair(2, 2));
  CHECK(ranks("--replicas 4 -g 2") == std::pair(2, 2));
  CHECK(ranks("--replicas 4 -t 1 -g 4") == std::pair(1, 4));
  CHECK(ranks("-t 3") == std::pair(3, 1));
  CHECK(ranks("-g 3") == std::pair(1, 3));
  for (const char* flags :
       {"--replicas 4 -t 3", "--replicas 4 -g 3", "--replicas 4 -t 2 -g 3", "--replicas 2 -g 4"}) {
    INFO(flags);
    CHECK(refusal(flags).status == 6);
    CHECK_THAT(refusal(flags).message, ContainsSubstring("--replicas"));
  }
  CHECK_THAT(refusal("-t 4096 -g 2").message, ContainsSubstring("more than 4096 ranks"));
}

TEST_CASE("sizes are 1024-based and end at the maximum", "[benchmarks]") {
  CHECK(parse_size("8", "-b") == 8);
  CHECK(parse_size("3k", "-b") == 3072);
  CHECK(parse_size("1.5M", "-b") == 1572864);
  CHECK(parse_size("2g", "-b") == std::int64_t{2} << 30);
  CHECK(parse_size("1KB", "-b") == 1024);  // as sscanf reads them for nccl-tests
  CHECK(parse_size("1 K", "-b") == 1024);
  CHECK(parse_size("1Gfoo", "-b") == std::int64_t{1} << 30);
  CHECK(parse_size(" 7 ", "-b") == 7);
  CHECK(parse("-b 10 -e 35 -i 10").sizes() == std::vector<std::int64_t>{10, 20, 30});
  CHECK(parse("-b 1 -e 30 -f 3").sizes() == std::vector<std::int64_t>{1, 3, 9, 27});
  CHECK(parse("-b 8 -e 16 -i 8 -f 1").sizes() == std::vector<std::int64_t>{8, 16});
  CHECK(parse("-b 0 -e 8 -i 4").sizes() == std::vector<std::int64_t>{0, 4, 8});
  CHECK(parse("-b 0 -e 0 -f 2").sizes() == std::vector<std::int64_t>{0});
  CHECK(parse("-b 1G -e 2305843009213693952 -f 1073741824").sizes() ==
        std::vector<std::int64_t>{std::int64_t{1} << 30, std::int64_t{1} << 60});
}

TEST_CASE("bad sizes exit with -1 and name the flag", "[benchmarks]") {
  CHECK(refusal("-b 0 -e 4G -i 1").status == 255);
  CHECK_THAT(refusal("-b 0 -e 4G -i 1").message,
             ContainsSubstring("-i (--stepbytes) 1 gives more than 1048576 sizes"));
  CHECK(parse("-b 0 -e 1M -i 2").sizes().size() == (1 << 19) + 1);
  for (const char* text : {"", "x", "8X", "8 XK", "-8", "nan", "inf", "K", "9e99"}) {
    INFO(text);
    try {
      parse_size(text, "-b (--minbytes)");
      FAIL("accepted");
    } catch (const OptionError& error) {
      CHECK(error.status() == ExitStatus::bad_size);
      CHECK_THAT(error.what(),
                 ContainsSubstring("-b (--minbytes) '" + std::string(text) + "' is not a size"));
    }
  }
  CHECK(static_cast<int>(ExitStatus::bad_size) == 255);
  CHECK(refusal("-e huge").status == 255);
  CHECK(refusal("-b 2M -e 1M").status == 255);
  CHECK_THAT(refusal("-b 2M -e 1M").message,
             ContainsSubstring("-b (--minbytes) 2097152 is larger than -e (--maxbytes) 1048576"));
  CHECK_THAT(refusal("-b 0 -e 8 -f 2").message, ContainsSubstring("never leaves -b 0"));
  CHECK_THAT(refusal("-b 4 -e 8 -i 0").message, ContainsSubstring("-i (--stepbytes) 0 never reaches"));
}

TEST_CASE("a backend that is not built in is refused", "[benchmarks]") {
  CHECK(refusal("--backend tpu").status == 5);
  CHECK_THAT(refusal("--backend tpu").message, ContainsSubstring("--backend 'tpu' is not built in"));
  if (LOCKSTEP_HAS_CUDA == 0) {
    CHECK(refusal("--backend cuda").status == 5);
    CHECK_THAT(refusal("--backend cuda").message, ContainsSubstring("--backend 'cuda' is not built in"));
  } else {
    CHECK(parse("--backend cuda").device_kind == DeviceKind::gpu);
    CHECK(parse("--backend cuda --floor").floor);
    CHECK(parse("--backend cuda -G 2").graph_launches == 2);
  }
}

TEST_CASE("a GPU is split into virtual devices, for as many ranks unless told", "[benchmarks]") {
  CHECK(refusal("--virtual 4").status == 5);
  CHECK_THAT(refusal("--virtual 4").message,
             ContainsSubstring("--virtual cannot be used with --backend host: any number of replicas is"));
  CHECK(refusal("--virtual 0").status == 6);
  if (LOCKSTEP_HAS_CUDA == 0) return;
  const Options options = parse("--backend cuda --virtual 4");
  CHECK(options.virtual_devices == 4);
  CHECK(options.threads == 4);
  CHECK(options.ranks_per_thread == 1);
  CHECK(parse("--backend cuda").virtual_devices == 0);
  CHECK(parse("--backend cuda --virtual 4 -g 4").threads == 1);
  CHECK(parse("--backend cuda --virtual 4 -t 2").num_ranks() == 2);
  CHECK(parse("--backend cuda --virtual 4 --replicas 3").num_ranks() == 3);
  CHECK(refusal("--backend cuda --virtual 4 --replicas 5").status == 6);
  CHECK_THAT(refusal("--backend cuda --virtual 4 --replicas 5").message,
             ContainsSubstring("--virtual 4 makes fewer devices than the 5 ranks"));
}

TEST_CASE("nccl-tests' hypercube is refused, and the message says what can be measured", "[benchmarks]") {
  try {
    parse_options({"hypercube"}, kOperations, [](const char*) -> const char* { return nullptr; });
    FAIL("accepted");
  } catch (const OptionError& error) {
    CHECK(error.status() == ExitStatus::not_implemented);
    CHECK_THAT(error.what(), ContainsSubstring("hypercube") && ContainsSubstring("one of: all_reduce"));
  }
}

TEST_CASE("what -I and -K cannot be is turned off and said, as in nccl-tests", "[benchmarks]") {
  const auto note = [](const std::string& flags) { return parse(flags).notes.at(0); };
  CHECK_THAT(note("-I 1 -n 5 -K 5"), ContainsSubstring("-K (--per_iter_skip) 5 is not from 0 to 4"));
  CHECK_THAT(note("-I 1 -n 5 -K -1"), ContainsSubstring("-K (--per_iter_skip) -1 is not from 0 to 4"));
  CHECK_THAT(note("-K 2"), ContainsSubstring("-K (--per_iter_skip) 2 needs -I 1"));
  CHECK_THAT(note("-I 2"), ContainsSubstring("-I (--per_iter_timing) 2 is neither 0 nor 1"));
  CHECK_FALSE(parse("-I 2").per_iteration);
  CHECK(parse("-I 1 -n 5 -K 5").per_iteration);
  CHECK(parse("-I 1 -n 5 -K 5").per_iteration_skip == 0);
  CHECK(parse("-K 2").per_iteration_skip == 0);
  CHECK(parse("-I 1 -K 2").per_iteration_skip == 2);
  CHECK(parse("-I 1 -K 2").notes.empty());
}

TEST_CASE("an unknown collective is refused with the known ones", "[benchmarks]") {
  const auto none = [](const char*) -> const char* { return nullptr; };
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{}, {"all_to_none"}}) {
    try {
      parse_options(arguments, kOperations, none);
      FAIL("accepted");
    } catch (const OptionError& error) {
      CHECK(error.status() == ExitStatus::usage);
      CHECK_THAT(error.what(), ContainsSubstring("is none of: all_reduce"));
    }
  }
}
