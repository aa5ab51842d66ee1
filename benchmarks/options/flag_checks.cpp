#include "options/flag_checks.hpp"

#include <initializer_list>

#include "detail/concat.hpp"
#include "report/names.hpp"

namespace lockstep::bench {

using detail::concat;

void require_backend_has(const Options& options, const CommandLine& given) {
  if (given.device_implementation != 0 && given.local_register != 2)
    throw OptionError(ExitStatus::bad_size, "-D (--device_implementation) needs -R 2");
  const bool is_host = options.device_kind == DeviceKind::cpu;
  const auto require = [&](bool is_default, const char* flag, const char* on_host, const char* on_gpu) {
    if (!is_default)
      throw OptionError(ExitStatus::not_implemented,
                        concat(flag, " cannot be used with --backend ", options.backend_name(), ": ",
                               is_host ? on_host : on_gpu));
  };
  require(given.parallel_init == 0, "-p (--parallel_init)",
          "one call makes the communicator of all host ranks",
          "one call makes the communicator of all ranks");
  require(given.stream_null == 0, "-y (--stream_null)", "there is no CUDA null stream",
          "each rank has a stream of its own");
  require(given.cuda_graph == 0 || !is_host, "-G (--cudagraph)", "host work is not captured into graphs", "");
  require(given.cuda_graph == 0 || (given.per_iteration == 0 && given.blocking == 0 && !options.count),
          "-G (--cudagraph) with -I, -z or --count", "", "a launch has all iterations");
  require(given.local_register == 0, "-R (--local_register)", "host memory needs no registration",
          "buffers are not registered with NCCL");
  require(given.cta_policy == 0 || given.cta_policy == -1, "-x (--cta_policy)", "there are no thread blocks",
          "the policy is the Communicator's own");
  require(given.device_implementation == 0, "-D (--device_implementation)", "there are no device kernels",
          "the Communicator has no device-side implementations to choose from");
  require(given.device_ctas == 16, "-V (--device_cta_count)", "there are no thread blocks",
          "the Communicator has no device-side implementations to choose from");
  require(options.virtual_devices == 0 || !is_host, "--virtual",
          "any number of replicas is virtual there (--replicas)", "");
  require(options.virtual_devices == 0 || options.launch.num_processes == 1, "--virtual in several processes",
          "", "NCCL joins the processes, and takes a GPU once; start one process, or give each rank a GPU");
  require(!options.floor || given.report_cpu_time == 0 || is_host, "--floor with -C 1", "",
          "a copy's time ends with the copy, and would be compared with that of calls alone");
  require(
      !options.count || !is_host, "--count",
      "virtual GPUs count what they do, the host does not; start it as 'vgpu-run -n GPUS lockstep_bench ... "
      "--backend cuda --count'",
      "");
}

void require_operation_takes(const CLI::App& app, const Traits& operation) {
  const auto refuse = [&](std::initializer_list<const char*> flags, const char* reason) {
    for (const char* flag : flags)
      if (app.count(flag) > 0)
        throw OptionError(ExitStatus::usage,
                          concat(flag, " makes no sense with ", operation.name, ": ", reason));
  };
  if (!operation.has_shape) refuse({"--shape"}, "only axis_reduce has a shape");
  if (!operation.has_size_list)
    refuse({"--sizes", "--sizes_file"}, "only batch_reduce has a list of sizes");
  else
    refuse({"--minbytes", "--maxbytes", "--stepbytes", "--stepfactor"}, "--sizes or --sizes_file says them");
  if (!operation.is_strategy) return;
  refuse({"--ngpus"}, "a strategy has a thread for each replica; use --replicas");
  refuse({"--root"}, "it has no root");
  refuse({"--cudagraph"}, "a function of a strategy makes graphs of whole steps");
  refuse({"--unalign"}, "its tensors are allocated by the library, which aligns them");
  if (operation.floor.empty()) refuse({"--floor"}, "there is no simpler way of doing its work");
  if (!operation.reduces) refuse({"--op"}, "it has no operator");
  if (!operation.has_size)
    refuse({"--minbytes", "--maxbytes", "--stepbytes", "--stepfactor", "--datatype"},
           "it has no choice of data");
}

void require_processes_take(const Options& options, const Traits& operation) {
  if (options.launch.num_processes == 1) return;
  const auto refuse = [&](const std::string& what, std::string_view reason) {
    throw OptionError(ExitStatus::usage, concat(what, " makes no sense in ", options.launch.num_processes,
                                                " processes: ", reason));
  };
  if (!operation.alone.empty()) refuse(std::string(operation.name), operation.alone);
  if (options.algorithm != Algorithm::automatic && options.algorithm != Algorithm::rank_order)
    refuse(concat("--algorithm ", bench_name(options.algorithm)),
           "a MultiWorkerMirroredStrategy takes no CrossDeviceOps");
}

}  // namespace lockstep::bench
