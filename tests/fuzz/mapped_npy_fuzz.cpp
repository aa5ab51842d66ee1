#include <lockstep/input/npy.hpp>
#include <lockstep/tensor.hpp>

#include "fuzz/fuzz_file.hpp"

/// A mapped array lies in its file: all of it can be copied.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return lockstep::test::fuzz_file(data, size, [](const std::filesystem::path& path) {
    const lockstep::Tensor array = lockstep::map_npy(path);
    static_cast<void>(array.clone());
  });
}
