#include "options.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <unistd.h>

#include <lockstep/version.hpp>

#include "report/names.hpp"

using namespace lockstep;
using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::vector<Traits> kOperations{
    {.name = "all_reduce", .reduces = true},
    {.name = "broadcast", .has_root = true},
    {.name = "all_gather"},
    {.name = "run", .is_strategy = true, .has_size = false},
    {.name = "update", .is_strategy = true, .is_floating = true},
    {.name = "axis_reduce", .reduces = true, .is_strategy = true, .has_shape = true, .floor = "a loop"},
    {.name = "batch_reduce", .reduces = true, .is_strategy = true, .has_size_list = true}};

// Flags of all_reduce, unless they begin with the name of another operation.
Options parse(const std::string& flags, const std::map<std::string, std::string>& environment = {}) {
  std::vector<std::string> arguments;
  const std::string first = flags.substr(0, flags.find(' '));
  if (std::ranges::find(kOperations, first, &Traits::name) == kOperations.end())
    arguments.emplace_back("all_reduce");
  std::istringstream words(flags);
  for (std::string word; words >> word;) arguments.push_back(word);
  return parse_options(arguments, kOperations, [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

struct Refusal {
  int status = 0;
  std::string message;
};

Refusal refusal(const std::string& flags, const std::map<std::string, std::string>& environment = {}) {
  try {
    parse(flags, environment);
  } catch (const OptionError& error) {
    return {static_cast<int>(error.status()), error.what()};
  }
  return {};
}

}  // namespace

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

TEST_CASE("flags without a meaning on the host are refused, unless they have their default", "[benchmarks]") {
  for (const char* flags : {"-p 1", "-y 1", "-G 10", "-R 1", "-R 2", "-x 1", "-D 1 -R 2", "-V 32"}) {
    INFO(flags);
    const Refusal refused = refusal(flags);
    CHECK(refused.status == 5);
    CHECK_THAT(refused.message, ContainsSubstring("cannot be used with --backend host: "));
    CHECK(refused.message.find('\n') == std::string::npos);
  }
  CHECK_THAT(refusal("-G 10").message, ContainsSubstring("-G (--cudagraph)"));
  CHECK(refusal("-D 1").status == 255);
  CHECK_THAT(refusal("-D 1").message, ContainsSubstring("needs -R 2"));
}

TEST_CASE("the CTA policy may be nccl-tests' default", "[benchmarks]") {
  CHECK_NOTHROW(parse("-x -1"));
  CHECK_NOTHROW(parse("-x 0"));
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
    CHECK_THAT(refusal("--backend cuda -G 2").message, ContainsSubstring("--backend cuda"));
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

TEST_CASE("a floor on GPUs is compared with whole times alone", "[benchmarks]") {
  CHECK(parse("--floor -C 1").floor);  // on the host a call's time is the operation's
  if (LOCKSTEP_HAS_CUDA == 0) return;
  CHECK(refusal("--backend cuda --floor -C 1").status == 5);
  CHECK_THAT(refusal("--backend cuda --floor -C 1").message,
             ContainsSubstring("--floor with -C 1 cannot be used with --backend cuda: "));
}

TEST_CASE("a floor is another one on GPUs where the operation says so", "[benchmarks]") {
  const Traits same{.floor = "a loop"}, other{.floor = "a loop", .gpu_floor = "a copy"};
  CHECK(same.floor_on(DeviceKind::gpu) == "a loop");
  CHECK(other.floor_on(DeviceKind::gpu) == "a copy");
  CHECK(other.floor_on(DeviceKind::cpu) == "a loop");
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

TEST_CASE("options that mean nothing to an operation are usage errors that name both", "[benchmarks]") {
  for (const char* flags : {"run -b 1K",
                            "run -e 1K",
                            "run -i 4",
                            "run -f 2",
                            "run -d half",
                            "run -o sum",
                            "run -r 0",
                            "run -g 1",
                            "run -u 1",
                            "run --floor",
                            "update --floor",
                            "batch_reduce --sizes 4 --floor",
                            "run --sizes 4",
                            "run --shape 1,2,3",
                            "update -o sum",
                            "update -r 0",
                            "axis_reduce --sizes 4",
                            "axis_reduce --sizes_file x",
                            "batch_reduce --sizes 4 -b 8",
                            "batch_reduce --sizes 4 -f 2",
                            "batch_reduce --sizes 4 --shape 1,2,3",
                            "all_reduce --shape 1,2,3",
                            "all_reduce --sizes 1"}) {
    INFO(flags);
    const Refusal refused = refusal(flags);
    const std::string operation = std::string(flags).substr(0, std::string(flags).find(' '));
    CHECK(refused.status == 6);
    CHECK_THAT(refused.message, ContainsSubstring(" makes no sense with " + operation + ": "));
  }
  CHECK_THAT(refusal("run -b 1K").message, ContainsSubstring("--minbytes makes no sense"));
  // nccl-tests ignores these, too
  CHECK(parse("broadcast -o prod").cases.size() == 1);
  CHECK(parse("broadcast -o all -d all").cases.size() == 12);
  for (const char* root : {"0", "7", "x", "-1", "all"})
    CHECK(parse(std::string("all_reduce -r ") + root).root == 0);
}

TEST_CASE("what works on no data has one row, and an update none for integers", "[benchmarks]") {
  CHECK(parse("run").sizes() == std::vector<std::int64_t>{0});
  CHECK(parse("update -d all").cases.size() == 6);
  CHECK(parse("update -d all").skipped_cases.size() == 6);
  CHECK(refusal("update -d int32").status == 5);
  CHECK_THAT(refusal("update -d int32").message, ContainsSubstring("int32: update is for floating-point"));
}

TEST_CASE("a strategy's operations have a floor where they say what it is", "[benchmarks]") {
  CHECK(parse("axis_reduce --floor").floor);
  CHECK_THAT(refusal("update --floor").message, ContainsSubstring("--floor makes no sense with update"));
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
}

TEST_CASE("a batch's sizes come from a list or a file", "[benchmarks]") {
  CHECK(parse("batch_reduce --sizes 4K,20,1.5M").batch_sizes_bytes ==
        std::vector<std::int64_t>{4096, 20, 1572864});
  CHECK(parse("batch_reduce --sizes 4K,20").sizes() == std::vector<std::int64_t>{4116});
  CHECK(refusal("batch_reduce").status == 6);
  CHECK_THAT(refusal("batch_reduce").message, ContainsSubstring("needs either --sizes or --sizes_file"));
  CHECK(refusal("batch_reduce --sizes 4,x").status == 255);
  CHECK(refusal("batch_reduce --sizes 4,,4").status == 255);

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

TEST_CASE("a split keeps the root in every group, and strategies whole", "[benchmarks]") {
  const std::map<std::string, std::string> halves{{"NCCL_TESTS_SPLIT", "MOD 2"}};
  CHECK(parse("broadcast --replicas 4 -r 1", halves).root == 1);
  CHECK(refusal("broadcast --replicas 4 -r 2", halves).status == 6);
  CHECK_THAT(refusal("broadcast --replicas 4 -r 2", halves).message,
             ContainsSubstring("-r (--root) 2 names a rank that a group of 2 ranks"));
  CHECK(refusal("broadcast --replicas 3 -r all", halves).status == 6);
  CHECK(parse("broadcast --replicas 4 -r all", halves).split.color(3) == 1);
  CHECK(parse("all_reduce --replicas 4 -r 3", halves).split.color(3) == 1);
  CHECK(refusal("run --replicas 4", halves).status == 6);
  CHECK(parse("all_gather --replicas 4", halves).split.color(3) == 1);
  CHECK(parse("all_reduce --replicas 5", halves).split.color(3) == 1);
  CHECK(refusal("all_gather --replicas 5", halves).status == 6);
  CHECK_THAT(refusal("all_gather --replicas 5", halves).message, ContainsSubstring("groups of 2 to 3 ranks"));
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

TEST_CASE("help is asked for with -h or --help, and names every flag", "[benchmarks]") {
  CHECK(parse("-h").help);
  CHECK(parse("--help").help);
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

TEST_CASE("the environment sets first device, pass mark and split", "[benchmarks]") {
  CHECK(parse("", {{"NCCL_TESTS_DEVICE", "3"}}).first_device == 3);
  CHECK(parse("", {{"NCCL_TESTS_MIN_BW", "12.5"}}).pass_mark_gbps == 12.5);
  const auto color = [](const char* variable, const char* text) {
    return parse("", {{variable, text}}).split.color(5);
  };
  CHECK(color("NCCL_TESTS_SPLIT", "AND 0x3") == 1);
  CHECK(color("NCCL_TESTS_SPLIT", "AND 0b100") == 4);
  CHECK(color("NCCL_TESTS_SPLIT", "MOD0B11") == 2);
  CHECK(color("NCCL_TESTS_SPLIT", "OR 2") == 7);
  CHECK(color("NCCL_TESTS_SPLIT", "MOD 3") == 2);
  CHECK(color("NCCL_TESTS_SPLIT", "DIV2") == 2);
  CHECK(color("NCCL_TESTS_SPLIT", "&4") == 4);
  CHECK(color("NCCL_TESTS_SPLIT", "|8") == 13);
  CHECK(color("NCCL_TESTS_SPLIT", "%2") == 1);
  CHECK(color("NCCL_TESTS_SPLIT", "/4") == 1);
  CHECK(color("NCCL_TESTS_SPLIT", "mod 3") == 2);
  CHECK(color("NCCL_TESTS_SPLIT_MASK", "6") == 4);
  CHECK(color("NCCL_TESTS_SPLIT_MASK", "0x6") == 4);
  CHECK(parse("").split.color(5) == 0);
  for (const auto& [variable, text] :
       std::multimap<std::string, std::string>{{"NCCL_TESTS_DEVICE", "first"},
                                               {"NCCL_TESTS_MIN_BW", "-1"},
                                               {"NCCL_TESTS_SPLIT", "XOR 3"},
                                               {"NCCL_TESTS_SPLIT", "AND 0b"},
                                               {"NCCL_TESTS_SPLIT_MASK", "zz"}}) {
    CHECK(refusal("", {{variable, text}}).status == 6);
    CHECK_THAT(refusal("", {{variable, text}}).message, ContainsSubstring(variable));
  }
  CHECK(refusal("", {{"NCCL_TESTS_SPLIT", "MOD 0"}}).status == 6);
}
