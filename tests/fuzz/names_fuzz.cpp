#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <lockstep/collectives/options.hpp>
#include <lockstep/device.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#include "fuzz/expect.hpp"

namespace {

using namespace lockstep;
using test::accepts;
using test::expect;

void read_device(std::string_view text) {
  const Device device(text);
  expect(device.index() >= 0 && device.task() >= 0, "a number is negative");
  for (const std::string& name : {device.canonical_name(), device.to_string()}) {
    const Device again(name);
    expect(again == device && std::hash<Device>()(again) == std::hash<Device>()(device),
           "a device's name is that of another one");
  }
  expect(device.is_local() == (device.to_string() == Device(device.kind(), device.index()).to_string()),
         "a device of this process has a long name, or another one a short name");
}

}  // namespace

/// A name of a device, a dtype, an operator and an implementation: it is refused, or is of what has a name
/// that is taken as the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  accepts("Device: ", [&] { read_device(text); });
  constexpr std::size_t kLongest = 9;  // of the other names
  if (size > kLongest) return 0;
  accepts("parse_dtype: ", [&] {
    const DType dtype = parse_dtype(text);
    expect(parse_dtype(name(dtype)) == dtype, "a dtype's name is that of another one");
  });
  accepts("parse_reduce_op: ", [&] {
    const ReduceOp op = parse_reduce_op(text);
    expect(parse_reduce_op(name(op)) == op, "an operator's name is that of another one");
  });
  accepts("parse_communication_implementation: ",
          [&] { static_cast<void>(parse_communication_implementation(text)); });
  return 0;
}
