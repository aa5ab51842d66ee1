#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "input/formats/byte_order.hpp"
#include "input/formats/compressed/compressed_file.hpp"
#include "input/formats/compressed/crc32c.hpp"
#include "input/formats/readers/file_elements.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::readers {
namespace {

constexpr std::string_view kWhat = "readers::tf_record";
constexpr std::string_view kRemedy = "Pass a TFRecord file, and the compression that it was written with.";

/// A checksum as the format stores it: tensorflow/core/lib/hash/crc32c.h.
std::uint32_t masked_crc32c(const void* data, std::size_t size_bytes) {
  return std::rotr(detail::crc32c(data, size_bytes), 15) + 0xa282ead8U;
}

class TfRecords {
 public:
  TfRecords(const std::filesystem::path& path, const TfRecordOptions& options)
      : source_(detail::open_source(path, kWhat, options.compression)),
        max_record_bytes_(static_cast<std::uint64_t>(options.max_record_bytes)) {}

  std::optional<Tensor> next() {
    const std::uint64_t begin = source_->position();
    std::array<std::uint8_t, 12> header;  // the length, and its checksum
    const std::size_t num_read = source_->read_some(header.data(), header.size());
    if (num_read == 0) return std::nullopt;
    const std::uint64_t index = index_++;
    const auto name = [index] { return detail::concat("record ", index); };
    if (num_read < header.size())
      source_->fail(begin,
                    detail::concat(name(), ": its header has 12 bytes, but the file ends after ", num_read));
    if (!matches(header.data(), 8, header.data() + 8))
      source_->fail(begin, detail::concat(name(), ": the checksum of its length does not match"));
    const auto length = detail::load_little_endian<std::uint64_t>(header.data());
    if (length > source_->max_left()) source_->check_left(length, name());
    if (length > max_record_bytes_) {
      source_->skip(length + kFooterBytes, name());
      source_->fail_record(begin, detail::concat(name(), " has ", length,
                                                 " bytes, more than max_record_bytes, ", max_record_bytes_));
    }
    Tensor record = Tensor::empty(Shape(length), DType::u8, detail::input_device());
    std::array<std::uint8_t, kFooterBytes> footer;
    const auto read = [&](void* data, std::size_t size,
                          std::string_view what) {  // makes no name before it fails
      const std::uint64_t position = source_->position();
      const std::size_t num_bytes = source_->read_some(data, size);
      if (num_bytes < size)
        source_->fail(position, detail::concat(what, name(), " has ", size,
                                               " bytes, but the file ends after ", num_bytes));
    };
    read(record.data(), static_cast<std::size_t>(length), "");
    read(footer.data(), footer.size(), "the checksum of ");
    if (!matches(record.data(), length, footer.data()))
      source_->fail_record(begin, detail::concat(name(), ": the checksum of its data does not match"));
    return record;
  }
  /// The next byte, and the number of its record.
  Position position() const { return {source_->position(), index_}; }
  void seek(const Position& position) {
    if (position.size() != 2 || position[0] < source_->position()) detail::fail_position(source_->position());
    source_->skip(position[0] - source_->position());
    index_ = position[1];
  }

 private:
  static constexpr std::size_t kFooterBytes = 4;  // the data's checksum

  static bool matches(const void* data, std::size_t size_bytes, const std::uint8_t* checksum) {
    return !detail::kComparesChecksums ||
           masked_crc32c(data, size_bytes) == detail::load_little_endian<std::uint32_t>(checksum);
  }

  std::unique_ptr<detail::ByteSource> source_;
  std::uint64_t max_record_bytes_;
  std::uint64_t index_ = 0;  // of the next record
};

}  // namespace

Reader<Tensor> tf_record(const TfRecordOptions& options) {
  detail::check_crc32c(kWhat);
  detail::check_compression(kWhat, options.compression);
  LOCKSTEP_EXPECTS(options.max_record_bytes >= 0, InvalidArgument, kWhat, ": max_record_bytes is ",
                   options.max_record_bytes, ". Pass 0 or more.");
  return [options](const std::filesystem::path& path) -> Elements<Tensor> {
    return detail::FileElements(kWhat, path, kRemedy,
                                [&] { return std::make_shared<TfRecords>(path, options); });
  };
}

}  // namespace lockstep::readers
