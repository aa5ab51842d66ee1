#include <memory>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "input/formats/byte_source.hpp"
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

}  // namespace

Reader<Tensor> records(const RecordOptions& options) {
  LOCKSTEP_EXPECTS(options.record_bytes >= 1 && options.header_bytes >= 0 && options.footer_bytes >= 0,
                   InvalidArgument, kWhat, ": records of ", options.record_bytes, " bytes, a header of ",
                   options.header_bytes, ", a footer of ", options.footer_bytes,
                   ". Pass at least 1 byte for a record, and at least 0 for the others.");
  return [options](const std::filesystem::path& path) -> Elements<Tensor> {
    return detail::FileElements(kWhat, path, kRemedy,
                                [&] { return std::make_shared<Records>(path, options); });
  };
}

}  // namespace lockstep::readers
