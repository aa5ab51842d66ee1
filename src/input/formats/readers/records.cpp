#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "input/formats/compressed/compressed_file.hpp"
#include "input/formats/readers/file_elements.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::readers {
namespace {

constexpr std::string_view kWhat = "readers::records";
constexpr std::string_view kRemedy = "Pass a file of whole records, or their right length.";

/// The bytes between header and footer, which must be whole records.
detail::FileSource open_source(const std::filesystem::path& path, const RecordOptions& options) {
  auto file = std::make_shared<const detail::InputFile>(path, kWhat);
  const std::uint64_t size = file->size_bytes();
  const auto header = static_cast<std::uint64_t>(options.header_bytes);
  const auto footer = static_cast<std::uint64_t>(options.footer_bytes);
  if (header > size || footer > size - header)
    throw detail::FileFault{size, detail::concat("a header of ", header, " bytes and a footer of ", footer,
                                                 " do not fit into it")};
  const std::uint64_t excess = (size - header - footer) % static_cast<std::uint64_t>(options.record_bytes);
  if (excess > 0)
    throw detail::FileFault{size - footer - excess, detail::concat("the last record has ", excess,
                                                                   " bytes of ", options.record_bytes)};
  return detail::FileSource(std::move(file), header, size - footer);
}

class Records {
 public:
  Records(const std::filesystem::path& path, const RecordOptions& options)
      : options_(options), source_(open_source(path, options)) {}

  std::optional<Tensor> next() {
    if (source_.max_left() == 0) return std::nullopt;
    Tensor record = Tensor::empty(Shape(options_.record_bytes), DType::u8, detail::input_device());
    source_.read(record.data(), static_cast<std::uint64_t>(options_.record_bytes), "a record");
    return record;
  }
  detail::RowBlock next_rows(std::int64_t most) {
    const auto size = static_cast<std::uint64_t>(options_.record_bytes);
    const auto num_rows = static_cast<std::int64_t>(
        std::min<std::uint64_t>(static_cast<std::uint64_t>(most), source_.max_left() / size));
    if (num_rows == 0) return {};
    const Tensor records =
        Tensor::empty(Shape(num_rows, options_.record_bytes), DType::u8, detail::input_device());
    source_.read(records.data(), static_cast<std::uint64_t>(records.nbytes()), "a record");
    return {{{records}}, num_rows};
  }
  /// The next byte.
  Position position() const { return {source_.position()}; }
  void seek(const Position& position) {
    const std::uint64_t from = source_.position();
    if (position.size() != 1 || position[0] < from ||
        (position[0] - from) % static_cast<std::uint64_t>(options_.record_bytes) != 0)
      detail::fail_position(from);
    source_.skip(position[0] - from);
  }

 private:
  RecordOptions options_;
  detail::FileSource source_;
};

/// The bytes between header and footer of a compressed file, whose size is not known: bytes that may be the
/// footer are held back.
class CompressedRecords {
 public:
  CompressedRecords(const std::filesystem::path& path, const RecordOptions& options)
      : source_(detail::open_source(path, kWhat, options.compression)),
        record_bytes_(static_cast<std::size_t>(options.record_bytes)),
        footer_bytes_(static_cast<std::size_t>(options.footer_bytes)) {
    source_->skip(static_cast<std::uint64_t>(options.header_bytes), "the header");
    hold();
  }

  std::optional<Tensor> next() {
    const std::uint64_t begin = source_->position();
    std::byte byte{};
    if (source_->read_some(&byte, 1) == 0) return std::nullopt;
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(record_bytes_ - 1, source_->max_left()));
    held_.push_back(byte);
    held_.resize(footer_bytes_ + 1 + wanted);
    const std::size_t num_read = source_->read_some(held_.data() + footer_bytes_ + 1, wanted) + 1;
    if (num_read < record_bytes_)
      source_->fail(begin - footer_bytes_,
                    detail::concat("the last record has ", num_read, " bytes of ", record_bytes_));
    Tensor record = Tensor::empty(Shape(record_bytes_), DType::u8, detail::input_device());
    std::memcpy(record.data(), held_.data(), record_bytes_);
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(record_bytes_));
    return record;
  }
  /// The next byte of the decompressed data.
  Position position() const { return {source_->position() - footer_bytes_}; }
  /// Decompresses what is before it.
  void seek(const Position& position) {
    const std::uint64_t from = source_->position() - footer_bytes_;
    if (position.size() != 1 || position[0] < from || (position[0] - from) % record_bytes_ != 0)
      detail::fail_position(from);
    if (position[0] == from) return;
    // Held bytes come before those that are still in the source.
    const std::uint64_t size_bytes = position[0] - from;
    if (size_bytes > footer_bytes_) source_->skip(size_bytes - footer_bytes_);
    const auto kept = static_cast<std::size_t>(std::min<std::uint64_t>(size_bytes, footer_bytes_));
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(kept));
    hold();
  }

 private:
  /// Reads on until as many bytes as the footer's are held.
  void hold() {
    const std::size_t num_held = held_.size(), missing = footer_bytes_ - num_held;
    source_->check_left(missing, "the footer");
    held_.resize(footer_bytes_);
    source_->read(held_.data() + num_held, missing, "the footer");
  }

  std::unique_ptr<detail::ByteSource> source_;
  std::size_t record_bytes_, footer_bytes_;
  std::vector<std::byte> held_;  // the bytes that may be the footer, between two calls
};

}  // namespace

Reader<Tensor> records(const RecordOptions& options) {
  LOCKSTEP_EXPECTS(options.record_bytes >= 1 && options.header_bytes >= 0 && options.footer_bytes >= 0,
                   InvalidArgument, kWhat, ": records of ", options.record_bytes, " bytes, a header of ",
                   options.header_bytes, ", a footer of ", options.footer_bytes,
                   ". Pass at least 1 byte for a record, and at least 0 for the others.");
  detail::check_compression(kWhat, options.compression);
  return [options](const std::filesystem::path& path) -> Elements<Tensor> {
    if (options.compression != Compression::none)
      return detail::FileElements(kWhat, path, kRemedy,
                                  [&] { return std::make_shared<CompressedRecords>(path, options); });
    return detail::FileElements(kWhat, path, kRemedy,
                                [&] { return std::make_shared<Records>(path, options); });
  };
}

}  // namespace lockstep::readers
