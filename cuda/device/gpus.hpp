#pragma once

#include <string>
#include <string_view>

#include <lockstep/device.hpp>

/// Which of the machine's GPUs can be used.
namespace lockstep::cuda {

/// How many GPUs the CUDA runtime sees: 0 where there is no driver or no visible GPU. Where the driver does
/// not work it is 0 too, and a line in the log says what to do.
int num_gpus();

/// Whether GPUs of a compute capability (times ten: 90) run code for `architectures`, which are
/// CMAKE_CUDA_ARCHITECTURES with spaces, e.g. "80-real 90a 100-virtual": machine code runs on its own major
/// version, from its minor version on; PTX on every later one; both on that one alone where a letter a
/// follows.
bool has_code_for(std::string_view architectures, int capability);

/// Throws Unsupported for a GPU that this library has no code for.
void require_code(int ordinal, const Device& device);

/// The compute mode of a GPU on which this process can have no context: "compute mode is prohibited
/// (nvidia-smi --compute-mode)". Empty where the mode lets processes in.
std::string_view mode_that_keeps_out(int ordinal);

/// Why a GPU is not among the default devices: the library has no code for it, or its compute mode keeps this
/// process out. Empty where it is one. A GPU in an exclusive mode is tried.
std::string why_left_out(int ordinal, const Device& device);

}  // namespace lockstep::cuda
