/// lockstep_fault_program PART [one_gpu]: a small program whose CUDA, NCCL and cuBLAS calls are made to fail
/// one by one (fault_injection.sh). Whatever fails must end in one of the library's exceptions, with the
/// caller's current device as it was. Afterwards a new strategy on the same GPUs reduces, unless the
/// exception has said that a device is lost. With one_gpu both replicas are virtual devices of one GPU.
///
/// Says "untouched" when nothing failed, else which exception came. Exit status 1: another exception, a wrong
/// result or state, another current device, or no strategy after a failure.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <typeinfo>

#include <cuda_runtime_api.h>

#include <lockstep/lockstep.hpp>

#include "cuda/faults/fault_parts.hpp"

namespace ls = lockstep;

namespace {

enum class Outcome { untouched, failed, device_lost, fault };

Outcome fault(const std::string& what) {
  std::printf("FAULT: %s\n", what.c_str());
  return Outcome::fault;
}

Outcome outcome_of(void (*part)()) {
  try {
    part();
  } catch (const ls::Error& error) {
    std::printf("%s: %s\n", typeid(error).name(), error.what());
    const auto* const device_error = dynamic_cast<const ls::DeviceError*>(&error);
    const bool is_lost = device_error != nullptr && device_error->is_fatal();
    const bool says_so = std::string_view(error.what()).find("cannot be used again") != std::string::npos;
    if (is_lost != says_so) return fault("the message and is_fatal() do not agree");
    return is_lost ? Outcome::device_lost : Outcome::failed;
  } catch (const std::exception& error) {
    return fault(std::string("not one of the library's exceptions: ") + typeid(error).name() + ": " +
                 error.what());
  }
  return Outcome::untouched;
}

Outcome attempt(void (*part)()) {
  const Outcome outcome = outcome_of(part);
  int current = -1;
  cudaGetLastError();
  if (cudaGetDevice(&current) != cudaSuccess || current != 0)
    return fault("the current device is " + std::to_string(current));
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  const auto parts = ls::test::fault_parts();
  const auto part = std::ranges::find(parts, name, &ls::test::FaultPart::name);
  if (part == parts.end()) {
    std::printf("there is no part %s\n", argc > 1 ? argv[1] : "without a name");
    return 2;
  }
  if (argc > 2) ls::DeviceManager::instance().set_virtual_devices("GPU:0", 2);
  const Outcome first = attempt(part->run);
  Outcome last = first;
  if (first == Outcome::untouched || first == Outcome::failed) last = attempt(ls::test::reduce_anew);
  if (first == Outcome::untouched && last == Outcome::untouched) std::puts("untouched");
  if (first == Outcome::untouched && last == Outcome::failed) last = attempt(ls::test::reduce_anew);
  if (last == Outcome::failed) fault("a new strategy on the same GPUs fails");
  return last == Outcome::failed || last == Outcome::fault ? 1 : 0;
}
