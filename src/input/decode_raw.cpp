#include <bit>
#include <cstring>

#include <lockstep/error.hpp>
#include <lockstep/input/decode.hpp>

#include "detail/expects.hpp"
#include "input/formats/byte_order.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep {

Tensor decode_raw(const Tensor& bytes, DType dtype, bool little_endian) {
  const std::size_t size = size_of(dtype);
  LOCKSTEP_EXPECTS(bytes.dtype() == DType::u8 && bytes.rank() == 1, InvalidArgument,
                   "decode_raw: ", describe(bytes),
                   " is no vector of bytes. Pass a u8 tensor of rank 1, as read_file gives it.");
  LOCKSTEP_EXPECTS(bytes.size() % static_cast<std::int64_t>(size) == 0, InvalidArgument,
                   "decode_raw: ", bytes.size(), " bytes are no whole number of ", dtype, ", which have ",
                   size, ". Pass the bytes of whole elements.");
  const Tensor source = detail::on_host(bytes);
  Tensor result =
      Tensor::empty(Shape(bytes.size() / static_cast<std::int64_t>(size)), dtype, detail::input_device());
  if (result.size() == 0) return result;
  auto* data = static_cast<std::byte*>(result.data());
  std::memcpy(data, source.view().data, static_cast<std::size_t>(result.nbytes()));
  if (little_endian != (std::endian::native == std::endian::little))
    detail::swap_bytes(data, result.size(), size);
  if (dtype == DType::boolean) detail::make_booleans(data, result.size());
  return result;
}

}  // namespace lockstep
