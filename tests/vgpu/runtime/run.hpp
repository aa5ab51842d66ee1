// What an operation does when its turn comes.
#pragma once

#include "runtime/state.hpp"

namespace vgpu::rt {

// End in a Fault where the operation faults. Where it is counted, `counts` is not null. `pause` as
// Launch::pause.
void run_kernel(const Op& op, const KernelWork& work, Counts* counts, std::function<bool(bool)> pause);
void run_copy(const Op& op, const CopyWork& work, Counts* counts);
void run_set(const Op& op, const SetWork& work, Counts* counts);
void run_free(const FreeWork& work);
// How long it takes, in nanoseconds of the made-up clock.
double cost(const Op& op);
// A well-mixed function of `value`.
std::uint64_t mix(std::uint64_t value);

}  // namespace vgpu::rt
