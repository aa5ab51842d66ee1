#include <lockstep/input/readers.hpp>

#include "fuzz/fuzz_file.hpp"

/// The first byte chooses among options.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using lockstep::DType;
  using namespace lockstep::readers;
  if (size < 1) return 0;
  CsvOptions options{.columns = {DType::f32, {DType::i64, 0}, CsvColumn::text(), {DType::boolean, false}},
                     .header = (data[0] & 1) != 0,
                     .delimiter = (data[0] & 2) != 0 ? ';' : ',',
                     .quotes = (data[0] & 4) == 0,
                     .missing = "NA"};
  if ((data[0] & 8) != 0) options.select_columns = {0, 2, 3, 5};
  if ((data[0] & 16) != 0) options.columns[0] = DType::f16;
  if ((data[0] & 32) != 0) options.columns[1] = DType::u8;
  if ((data[0] & 64) != 0) {
    options.columns[2] = DType::i16;
    options.batch_size = 2;
    options.max_record_bytes = 100;
  }
  return lockstep::test::fuzz_reader(data + 1, size - 1, csv(options));
}
