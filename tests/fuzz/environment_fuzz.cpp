#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include <lockstep/backend/backend.hpp>
#include <lockstep/host/host_backend.hpp>
#include <lockstep/log.hpp>

#include "fuzz/expect.hpp"
#include "trace/call_ring.hpp"

/// The value of a variable that is a number, chosen by the first byte: it is refused by name, or is the
/// number.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  using test::expect;
  static bool is_logged = false;
  static const auto usual = set_log_sink([](std::string_view) { is_logged = true; });
  if (size < 1) return 0;
  const std::string text = std::string(data + 1, data + size).c_str();  // as a variable is, without zeros
  const auto is_text_of = [&](auto number) {
    return std::to_string(number) == text.substr(text.find_first_not_of('0'));
  };
  if ((data[0] & 1) == 0) {
    ::setenv("LOCKSTEP_HOST_DEVICES", text.c_str(), 1);
    test::accepts("LOCKSTEP_HOST_DEVICES", [&] {
      const int n = host::make_backend()->num_devices();
      expect(text.empty() ? n == 1 : 1 <= n && n <= 4096 && is_text_of(n), "there are other devices");
    });
    return 0;
  }
  ::setenv("LOCKSTEP_CALLS", text.c_str(), 1);
  is_logged = false;
  const std::size_t capacity = detail::CallRing::default_capacity();
  expect(capacity <= 1 << 16 && (capacity == 0 || std::has_single_bit(capacity)), "a ring has another size");
  expect(is_logged ? capacity == 64 : text.empty() || std::stoull(text) <= capacity, "a number is not taken");
  return 0;
}
