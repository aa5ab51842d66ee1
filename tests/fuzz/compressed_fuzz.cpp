#include <lockstep/input/readers.hpp>

#include "fuzz/fuzz_file.hpp"

/// The first byte chooses the compression and the reader.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::readers;
  if (size < 1) return 0;
  const Compression compression{static_cast<std::uint8_t>(data[0] % 4)};
  if ((data[0] & 4) != 0)
    return lockstep::test::fuzz_reader(
        data + 1, size - 1,
        records({.record_bytes = 3, .header_bytes = 2, .footer_bytes = 1, .compression = compression}));
  return lockstep::test::fuzz_reader(data + 1, size - 1,
                                     lines({.compression = compression, .max_line_bytes = 1 << 16}));
}
