#include <cstdint>
#include <string>

#include "fuzz/expect.hpp"
#include "options/options.hpp"

/// A size on lockstep_bench's command line: it is refused, or is the one that its digits say.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::bench;
  using lockstep::test::expect;
  // As arguments are, without zeros.
  const std::string text = std::string(data, data + size).c_str();
  std::int64_t bytes = 0;
  try {
    bytes = parse_size(text, "-b");
  } catch (const OptionError& error) {
    expect(error.status() == ExitStatus::bad_size && std::string(error.what()).starts_with("-b '"),
           "a refusal does not name the flag");
    return 0;
  }
  expect(bytes >= 0, "a size is negative");
  constexpr std::int64_t kExact = std::int64_t{1} << 43;  // such a size in K fits a double
  if (bytes >= kExact) return 0;
  expect(parse_size(std::to_string(bytes), "-b") == bytes, "a size is another one");
  expect(parse_size(std::to_string(bytes) + "K", "-b") == bytes << 10, "a size in K is another one");
  return 0;
}
