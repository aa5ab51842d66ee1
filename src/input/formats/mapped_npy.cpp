#include <memory>

#include <lockstep/buffer.hpp>
#include <lockstep/input/npy.hpp>

#include "detail/concat.hpp"
#include "input/formats/file_mapping.hpp"
#include "input/formats/file_shape.hpp"
#include "input/formats/npy_array.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep {
namespace {

/// Keeps a mapping while tensors see it. The tensors' storage is the empty buffer: the memory is not a
/// device's.
struct MappedArray {
  explicit MappedArray(const detail::InputFile& file) : mapping(file) {}
  detail::FileMapping mapping;
  Buffer storage;
};

void check_mappable(const detail::ByteSource& source, const detail::NpyHeader& header) {
  if (header.is_swapped) source.fail(0, "its elements have the other byte order, and cannot be mapped");
  if (header.fortran_order && header.extents.size() > 1)
    source.fail(0, "it is in Fortran order, and has no rows that could be mapped");
  if (header.dtype == DType::boolean) source.fail(0, "its bytes need not be booleans, and cannot be mapped");
  if (source.position() % size_of(header.dtype) != 0)
    source.fail(source.position(), "its elements are not aligned, and cannot be mapped");
}

}  // namespace

Tensor map_npy(const std::filesystem::path& path) {
  constexpr std::string_view kWhat = "map_npy";
  return detail::with_file_faults(
      kWhat, path, "Pass a .npy file as numpy.save writes it, or read it with load_npy.", [&] {
        const auto file = std::make_shared<const detail::InputFile>(path, kWhat);
        detail::FileSource source(file);
        const detail::NpyHeader header = detail::read_npy_header(source);
        const Shape shape = detail::checked_shape(source, header.extents, header.dtype);
        check_mappable(source, header);
        const auto array = std::make_shared<MappedArray>(*file);
        const void* const first = array->mapping.data() + source.position();
        return Tensor::adopt(std::shared_ptr<Buffer>(array, &array->storage),
                             TensorView(first, shape, header.dtype, detail::input_device()));
      });
}

}  // namespace lockstep
