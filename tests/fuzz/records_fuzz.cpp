#include <lockstep/input/readers.hpp>

#include "fuzz/fuzz_file.hpp"

/// The first three bytes are the options.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  return lockstep::test::fuzz_reader(
      data + 3, size - 3,
      lockstep::readers::records(
          {.record_bytes = data[0] + 1, .header_bytes = data[1], .footer_bytes = data[2]}));
}
