#include "device/gpus.hpp"

#include <algorithm>
#include <charconv>

#include <cuda_runtime_api.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/loaded_objects.hpp"
#include "detail/warn.hpp"
#include "device/device_guard.hpp"

namespace lockstep::cuda {
namespace {

using lockstep::detail::concat;

std::string version_text(int code) { return concat(code / 1000, ".", code % 1000 / 10); }

std::string remedy(cudaError_t code, int driver) {
  switch (code) {
    case cudaErrorInsufficientDriver:
      return concat("The driver is one for CUDA ", version_text(driver),
                    ", and this library needs one for CUDA ", version_text(CUDART_VERSION), ": update it");
    case cudaErrorSystemNotReady:
      return "On a machine with NVSwitch the fabric manager has to run: start nvidia-fabricmanager";
    case cudaErrorInitializationError:
      return "In a fork of a process that has used CUDA it cannot be used: fork before";
    default: return "Check the driver: nvidia-smi says more";
  }
}

int attribute(cudaDeviceAttr which, int ordinal, int otherwise) {
  int value = otherwise;
  if (cudaDeviceGetAttribute(&value, which, ordinal) == cudaSuccess) return value;
  cudaGetLastError();
  return otherwise;
}

/// Why the library has no code for the GPU; empty where it has.
std::string missing_code(int ordinal) {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, ordinal, 0);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor, ordinal, 0);
  if (major == 0 || has_code_for(LOCKSTEP_CUDA_ARCHITECTURES, major * 10 + minor)) return {};
  return concat("its compute capability is ", major, ".", minor, ", and this library has code for ",
                LOCKSTEP_CUDA_ARCHITECTURES, " alone. Build it with CMAKE_CUDA_ARCHITECTURES=", major, minor,
                ", or use other devices");
}

}  // namespace

int num_gpus() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess) {
    lockstep::detail::warn_if_several("libcudart.so", "two CUDA runtimes");
    return count;
  }
  cudaGetLastError();
  int driver = 0;  // stays 0 where there is no driver
  cudaDriverGetVersion(&driver);
  if (code == cudaErrorNoDevice || driver == 0) return 0;
  lockstep::detail::warn(concat("GPUs are not used: cudaGetDeviceCount failed with ", cudaGetErrorName(code),
                                " (", static_cast<int>(code), "), ", cudaGetErrorString(code), ". ",
                                remedy(code, driver)));
  return 0;
}

bool has_code_for(std::string_view architectures, int capability) {
  while (!architectures.empty()) {
    const std::string_view entry = architectures.substr(0, architectures.find(' '));
    architectures.remove_prefix(std::min(entry.size() + 1, architectures.size()));
    int number = 0;
    const auto [rest, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    const std::string_view suffix(rest, static_cast<std::size_t>(entry.data() + entry.size() - rest));
    if (error != std::errc()) continue;
    const bool same_major = number / 10 == capability / 10;
    const bool is_exact = suffix.starts_with('a');
    const bool is_of_family = suffix.starts_with('f') || suffix == "-real";
    if (number == capability || (number < capability && !is_exact && (same_major || !is_of_family)))
      return true;
  }
  return false;
}

void require_code(int ordinal, const Device& device) {
  const std::string missing = missing_code(ordinal);
  LOCKSTEP_EXPECTS(missing.empty(), Unsupported, "Opening ", device, ": ", missing, ".");
}

std::string_view mode_that_keeps_out(int ordinal) {
  switch (attribute(cudaDevAttrComputeMode, ordinal, cudaComputeModeDefault)) {
    case cudaComputeModeProhibited: return "compute mode is prohibited (nvidia-smi --compute-mode)";
    case cudaComputeModeExclusive:
    case cudaComputeModeExclusiveProcess: return "compute mode is exclusive, and another process has it";
    default: return {};
  }
}

std::string why_left_out(int ordinal, const Device& device) {
  if (std::string missing = missing_code(ordinal); !missing.empty()) return missing;
  const std::string_view mode = mode_that_keeps_out(ordinal);
  const bool is_tried = attribute(cudaDevAttrComputeMode, ordinal, 0) != cudaComputeModeProhibited;
  if (!mode.empty() && !(is_tried && can_make_context(ordinal, device))) return concat("its ", mode);
  return {};
}

}  // namespace lockstep::cuda
