#include <lockstep/input/readers.hpp>

#include "fuzz/fuzz_file.hpp"

/// The first byte chooses among options.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  lockstep::readers::TarOptions options{.max_record_bytes = 1 << 20};
  if ((data[0] & 1) != 0) options.extensions = {"a"};
  return lockstep::test::fuzz_reader(data + 1, size - 1, lockstep::readers::tar(options));
}
