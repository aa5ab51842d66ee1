#include "input/formats/npy_array.hpp"

#include <array>
#include <string>
#include <vector>

#include "detail/concat.hpp"
#include "input/formats/byte_order.hpp"
#include "input/formats/file_shape.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::detail {
namespace {

/// Converts an array whose first axis varies fastest into a contiguous tensor.
Tensor from_fortran_order(const Tensor& columns, const Shape& shape) {
  std::vector<std::int64_t> strides;
  std::int64_t stride = 1;
  for (const std::int64_t extent : shape) {
    strides.push_back(stride);
    stride *= extent;
  }
  return Tensor::view(columns.view().data, shape, columns.dtype(), columns.device(), strides).clone();
}

}  // namespace

NpyHeader read_npy_header(ByteSource& source) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::uint64_t begin = source.position();
  std::array<char, 6> magic;
  source.read(magic.data(), magic.size(), "the magic string");
  if (std::string_view(magic.data(), magic.size()) != kMagic)
    source.fail(begin, "it does not begin with \\x93NUMPY, so it is not a .npy file");
  std::array<std::uint8_t, 2> version;
  source.read(version.data(), version.size(), "the version");
  if (version[0] < 1 || version[0] > 3 || version[1] != 0)
    source.fail(begin + magic.size(),
                concat("version ", int{version[0]}, ".", int{version[1]}, " is not one of 1.0, 2.0, 3.0"));
  std::array<std::uint8_t, 4> bytes{};
  source.read(bytes.data(), version[0] == 1 ? 2 : 4, "the header's length");
  const auto length = load_little_endian<std::uint32_t>(bytes.data());

  const std::uint64_t position = source.position();
  source.check_left(length, "the header");
  std::string text(length, '\0');
  source.read(text.data(), length, "the header");
  try {
    return parse_npy_header(text, position);
  } catch (const FileFault& fault) {
    source.fail(fault.position, fault.reason);
  }
}

Tensor read_npy(ByteSource& source) {
  const NpyHeader header = read_npy_header(source);
  const Shape shape = checked_shape(source, header.extents, header.dtype);
  Tensor array = Tensor::empty(shape, header.dtype, input_device());
  if (array.size() == 0) return array;
  auto* bytes = static_cast<std::byte*>(array.data());
  source.read(bytes, static_cast<std::uint64_t>(array.nbytes()), "the array");
  if (header.is_swapped) swap_bytes(bytes, array.size(), size_of(header.dtype));
  if (header.dtype == DType::boolean) make_booleans(bytes, array.size());
  return header.fortran_order && shape.rank() > 1 ? from_fortran_order(array, shape) : array;
}

}  // namespace lockstep::detail
