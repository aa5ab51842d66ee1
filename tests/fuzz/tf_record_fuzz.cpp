#include <lockstep/input/readers.hpp>

#include "fuzz/fuzz_file.hpp"

/// The first byte chooses among options.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::readers;
  if (size < 1) return 0;
  TfRecordOptions options{.compression = Compression{static_cast<std::uint8_t>(data[0] % 4)}};
  if ((data[0] & 4) != 0) options.max_record_bytes = 16;
  return lockstep::test::fuzz_reader(data + 1, size - 1, tf_record(options));
}
