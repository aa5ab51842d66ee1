#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include <lockstep/error.hpp>
#include <lockstep/input/npy.hpp>

#include "input/host_rows.hpp"
#include "input/npy_header.hpp"

namespace lockstep {
namespace {

using detail::concat;
using detail::NpyFault;
using detail::NpyHeader;

/// A file of which no more is read than it has.
class File {
 public:
  explicit File(const std::filesystem::path& path) {
    std::error_code error;
    const auto type = std::filesystem::status(path, error).type();
    // Not opened: a pipe would wait for its writer.
    if (std::filesystem::exists(std::filesystem::file_status(type)) &&
        type != std::filesystem::file_type::regular)
      throw NpyFault{0, "it is not a regular file"};
    stream_.open(path, std::ios::binary);
    LOCKSTEP_EXPECTS(stream_.is_open(), NotFound, "load_npy: ", path,
                     " cannot be opened: ", std::strerror(errno), ". Check the path.");
    size_ = std::filesystem::file_size(path);
  }

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t num_left() const noexcept { return size_ - position_; }

  /// @throws NpyFault  the file is too short for `what`.
  void read(void* data, std::uint64_t size_bytes, const char* what) {
    check_left(size_bytes, what);
    stream_.read(static_cast<char*>(data), static_cast<std::streamsize>(size_bytes));
    if (!stream_) throw NpyFault{position_, concat(what, " cannot be read")};
    position_ += size_bytes;
  }
  void check_left(std::uint64_t size_bytes, const char* what) const {
    if (size_bytes > num_left())
      throw NpyFault{position_,
                     concat(what, " has ", size_bytes, " bytes, but the file ends after ", num_left())};
  }

 private:
  std::ifstream stream_;
  std::uint64_t size_ = 0;
  std::uint64_t position_ = 0;
};

NpyHeader read_header(File& file) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  std::array<char, 6> magic;
  file.read(magic.data(), magic.size(), "the magic string");
  if (std::string_view(magic.data(), magic.size()) != kMagic)
    throw NpyFault{0, "it does not begin with \\x93NUMPY, so it is not a .npy file"};
  std::array<std::uint8_t, 2> version;
  file.read(version.data(), version.size(), "the version");
  if (version[0] < 1 || version[0] > 3 || version[1] != 0)
    throw NpyFault{6,
                   concat("version ", int{version[0]}, ".", int{version[1]}, " is not one of 1.0, 2.0, 3.0")};
  std::array<std::uint8_t, 4> bytes{};  // little-endian
  file.read(bytes.data(), version[0] == 1 ? 2 : 4, "the header's length");
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) length |= std::uint32_t{bytes[i]} << (8 * i);

  const std::uint64_t position = file.position();
  file.check_left(length, "the header");
  std::string text(length, '\0');
  file.read(text.data(), length, "the header");
  return detail::parse_npy_header(text, position);
}

/// @throws NpyFault  it is not a shape, or its elements are not all in the file.
Shape checked_shape(const NpyHeader& header, const File& file) {
  const auto& extents = header.extents;
  if (extents.size() > Shape::kMaxRank)
    throw NpyFault{file.position(),
                   concat("rank ", extents.size(), " exceeds the largest, ", int{Shape::kMaxRank})};
  const std::uint64_t most = file.num_left() / size_of(header.dtype);
  std::uint64_t num_elements = std::find(extents.begin(), extents.end(), 0) == extents.end() ? 1 : 0;
  for (const std::int64_t extent : extents)
    if (__builtin_mul_overflow(num_elements, static_cast<std::uint64_t>(extent), &num_elements))
      num_elements = most + 1;
  if (num_elements > most)
    throw NpyFault{file.position(),
                   concat("the array has more elements than the ", most, " that the file has bytes for")};
  return Shape(extents);
}

void swap_bytes(std::byte* data, std::int64_t num_elements, std::size_t element_bytes) {
  for (std::int64_t i = 0; i < num_elements; ++i, data += element_bytes)
    std::reverse(data, data + element_bytes);
}

/// A contiguous tensor from one whose first axis varies fastest.
Tensor from_fortran_order(const Tensor& columns, const Shape& shape) {
  std::vector<std::int64_t> strides;
  std::int64_t stride = 1;
  for (const std::int64_t extent : shape) {
    strides.push_back(stride);
    stride *= extent;
  }
  return Tensor::view(columns.view().data, shape, columns.dtype(), columns.device(), strides).clone();
}

Tensor read_array(File& file) {
  const NpyHeader header = read_header(file);
  const Shape shape = checked_shape(header, file);
  Tensor array = Tensor::empty(shape, header.dtype, detail::input_device());
  if (array.size() == 0) return array;
  auto* bytes = static_cast<std::byte*>(array.data());
  file.read(bytes, static_cast<std::uint64_t>(array.nbytes()), "the array");
  if (header.is_swapped) swap_bytes(bytes, array.size(), size_of(header.dtype));
  if (header.dtype == DType::boolean)  // any other byte would not be a bool
    std::transform(bytes, bytes + array.nbytes(), bytes,
                   [](std::byte b) { return std::byte(b != std::byte(0)); });
  return header.fortran_order && shape.rank() > 1 ? from_fortran_order(array, shape) : array;
}

}  // namespace

Tensor load_npy(const std::filesystem::path& path) {
  try {
    File file(path);
    return read_array(file);
  } catch (const NpyFault& fault) {
    detail::raise<InvalidArgument>({__FILE__, __LINE__, __func__},
                                   concat("load_npy: ", path, ", byte ", fault.position, ": ", fault.reason,
                                          ". Pass a .npy file as numpy.save writes it."));
  }
}

}  // namespace lockstep
