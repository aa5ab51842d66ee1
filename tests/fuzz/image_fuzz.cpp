#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include <lockstep/error.hpp>
#include <lockstep/input/decode.hpp>

/// The first byte chooses channels and dtype. Bad bytes must give an InvalidArgument of the function.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  if (size < 1) return 0;
  const Tensor bytes = Tensor::from(std::span(data + 1, size - 1), Shape(size - 1));
  try {
    const Tensor image = decode_image(bytes, data[0] % 5, (data[0] & 8) != 0 ? DType::u16 : DType::u8,
                                      {.max_pixels = 1 << 16});
    if (image.rank() != 3 || image.size() > 4 << 16) std::abort();
  } catch (const InvalidArgument& error) {
    if (std::string(error.what()).starts_with("decode_")) return 0;
    std::fprintf(stderr, "the message does not name the function: %s\n", error.what());
    std::abort();
  }
  return 0;
}
