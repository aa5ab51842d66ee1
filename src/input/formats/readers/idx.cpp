#include <array>
#include <bit>
#include <memory>
#include <vector>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/concat.hpp"
#include "input/formats/byte_order.hpp"
#include "input/formats/compressed/inflate_source.hpp"
#include "input/formats/file_shape.hpp"
#include "input/formats/readers/file_elements.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::readers {
namespace {

using detail::ByteSource;

constexpr std::string_view kWhat = "readers::idx";
constexpr std::string_view kRemedy = "Pass an IDX file, plain or gzip, of rank 1 or more.";

/// The file's bytes, inflated if they begin as gzip does.
std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path) {
  auto file = std::make_shared<const detail::InputFile>(path, kWhat);
  std::array<std::uint8_t, 2> magic{};
  if (file->size_bytes() >= magic.size()) file->read_at(0, magic.data(), magic.size());
  auto source = std::make_unique<detail::FileSource>(file);
  if (magic != std::array<std::uint8_t, 2>{0x1f, 0x8b}) return source;
  return std::make_unique<detail::InflateSource>(std::move(source), detail::DeflateForm::gzip);
}

DType parse_type(const ByteSource& source, std::uint8_t code) {
  switch (code) {
    case 0x08: return DType::u8;
    case 0x09: return DType::i8;
    case 0x0b: return DType::i16;
    case 0x0c: return DType::i32;
    case 0x0d: return DType::f32;
    case 0x0e: return DType::f64;
    default:
      source.fail(2, detail::concat("the element type is ", int{code}, ", not one of 8 9 11 12 13 14"));
  }
}

class IdxRows {
 public:
  explicit IdxRows(const std::filesystem::path& path) : source_(open_source(path)) {
    std::array<std::uint8_t, 4> magic;
    source_->read(magic.data(), magic.size(), "the magic number");
    if (magic[0] != 0 || magic[1] != 0)
      source_->fail(0, "it does not begin with two zeros, so it is not an IDX file");
    dtype_ = parse_type(*source_, magic[2]);
    if (magic[3] == 0) source_->fail(3, "the rank is 0, a scalar, which has no rows");
    std::vector<std::int64_t> extents;
    for (int axis = 0; axis < magic[3]; ++axis) {
      std::array<std::uint8_t, 4> extent;
      source_->read(extent.data(), extent.size(), "an extent");
      extents.push_back(detail::load_big_endian<std::uint32_t>(extent.data()));
    }
    const Shape shape = detail::checked_shape(*source_, extents, dtype_);
    num_rows_ = shape[0];
    row_ = shape.without(0);
    if (num_rows_ > 0 && row_.empty()) source_->fail(4, "its rows have no elements");
  }

  std::optional<Tensor> next() {
    if (next_ == num_rows_) {
      source_->expect_end(detail::concat("the ", num_rows_, " rows that the header says"));
      return std::nullopt;
    }
    Tensor row = Tensor::empty(row_, dtype_, detail::input_device());
    auto* bytes = static_cast<std::byte*>(row.data());
    source_->read(bytes, static_cast<std::uint64_t>(row.nbytes()),
                  detail::concat("row ", next_, " of ", num_rows_));
    if constexpr (std::endian::native == std::endian::little)
      detail::swap_bytes(bytes, row.size(), size_of(dtype_));
    ++next_;
    return row;
  }
  /// The next row.
  Position position() const { return {static_cast<std::uint64_t>(next_)}; }
  void seek(const Position& position) {
    if (position.size() != 1 || position[0] > static_cast<std::uint64_t>(num_rows_))
      detail::fail_position(source_->position());
    source_->skip(position[0] * (static_cast<std::uint64_t>(row_.size()) * size_of(dtype_)));
    next_ = static_cast<std::int64_t>(position[0]);
  }

 private:
  std::unique_ptr<ByteSource> source_;
  DType dtype_ = DType::u8;
  Shape row_;
  std::int64_t num_rows_ = 0;
  std::int64_t next_ = 0;
};

}  // namespace

Reader<Tensor> idx() {
  return [](const std::filesystem::path& path) -> Elements<Tensor> {
    return detail::FileElements(kWhat, path, kRemedy, [&] { return std::make_shared<IdxRows>(path); });
  };
}

}  // namespace lockstep::readers
