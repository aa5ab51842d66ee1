#include <lockstep/input/readers.hpp>

#include "fuzz/fuzz_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return lockstep::test::fuzz_reader(data, size, lockstep::readers::lines());
}
