#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "input/formats/block_reader.hpp"
#include "input/formats/compressed/compressed_file.hpp"
#include "input/formats/readers/file_elements.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::readers {
namespace {

constexpr std::string_view kWhat = "readers::lines";
constexpr std::string_view kRemedy = "Pass the path of a text file.";

class Lines {
 public:
  Lines(const std::filesystem::path& path, const LineOptions& options)
      : block_(detail::open_source(path, kWhat, options.compression)),
        max_line_bytes_(static_cast<std::size_t>(options.max_line_bytes)) {}

  std::optional<Tensor> next() {
    std::size_t searched = 0;
    for (;;) {
      const std::string_view rest = block_.rest();
      const std::size_t size = rest.find('\n', searched);
      const bool has_ended = size != std::string_view::npos;
      searched = rest.size();
      if (!has_ended && searched <= max_line_bytes_ + 1 && block_.fill()) continue;
      if (!has_ended && rest.empty()) return std::nullopt;
      ++index_;
      std::string_view line = rest.substr(0, size);
      if (has_ended && line.ends_with('\r')) line.remove_suffix(1);
      if (line.size() > max_line_bytes_) fail_too_long(has_ended ? size + 1 : rest.size(), has_ended);
      Tensor result = Tensor::empty(Shape(line.size()), DType::u8, detail::input_device());
      if (!line.empty()) std::memcpy(result.data(), line.data(), line.size());
      block_.take(has_ended ? size + 1 : rest.size());
      return result;
    }
  }
  /// The next byte, and the number of its line.
  Position position() const { return {block_.position(), index_}; }
  void seek(const Position& position) {
    if (position.size() != 2 || position[0] < block_.position()) detail::fail_position(block_.position());
    block_.skip(position[0] - block_.position());
    index_ = position[1];
  }

 private:
  /// @param size  the line's bytes that were read.
  [[noreturn]] void fail_too_long(std::size_t size, bool has_ended) {
    const std::uint64_t begin = block_.position();
    for (block_.take(size); !has_ended && (!block_.rest().empty() || block_.fill());) {
      const std::size_t end = block_.rest().find('\n');
      has_ended = end != std::string_view::npos;
      block_.take(has_ended ? end + 1 : block_.rest().size());
    }
    block_.source().fail_record(
        begin, detail::concat("line ", index_, " is longer than max_line_bytes, ", max_line_bytes_));
  }

  detail::BlockReader block_;
  std::size_t max_line_bytes_;
  std::uint64_t index_ = 0;  // number of the line
};

}  // namespace

Reader<Tensor> lines(const LineOptions& options) {
  detail::check_compression(kWhat, options.compression);
  LOCKSTEP_EXPECTS(options.max_line_bytes >= 0, InvalidArgument, kWhat, ": max_line_bytes is ",
                   options.max_line_bytes, ". Pass 0 or more.");
  return [options](const std::filesystem::path& path) -> Elements<Tensor> {
    return detail::FileElements(kWhat, path, kRemedy, [&] { return std::make_shared<Lines>(path, options); });
  };
}

std::string text(const Tensor& line) {
  const auto bytes = line.to_vector<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

}  // namespace lockstep::readers
