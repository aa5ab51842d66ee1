#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/expect.hpp"
#include "workers/control/wire.hpp"

/// What a connection sends: it is refused, or its messages are taken one after the other, and encoded again
/// are the bytes that came.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::detail::control;
  using lockstep::test::expect;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  try {
    while (auto decoded = decode(rest, {.max_bytes = kMaxHelloBytes})) {
      expect(0 < decoded->num_bytes && decoded->num_bytes <= rest.size(), "a frame has other bytes");
      const std::string_view frame = rest.substr(0, decoded->num_bytes);
      std::string again;
      encode(std::move(decoded->message), again);
      // Of another version, which the fifth byte tells, fields are left out.
      expect(frame[4] != again[4] || frame == again, "a message is encoded as other bytes");
      rest.remove_prefix(decoded->num_bytes);
    }
  } catch (const WireError& error) {
    expect(error.what()[0] != '\0', "a refusal does not say why");
  }
  return 0;
}
