#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "input/formats/block_reader.hpp"
#include "input/formats/compressed/compressed_file.hpp"
#include "input/formats/readers/byte_index.hpp"
#include "input/formats/readers/file_elements.hpp"
#include "input/rows/row_runs.hpp"
#include "input/rows/tensor_slab.hpp"

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
    if (!find_line()) return std::nullopt;
    ++index_;
    check_length();
    Tensor result = slab_.take(Shape(line_.size()), DType::u8);
    if (!line_.empty()) std::memcpy(result.data(), line_.data(), line_.size());
    block_.take(taken_);
    return result;
  }
  /// Lines that lie in one block.
  detail::RowBlock next_rows(std::int64_t most) {
    if (!find_line()) return {};
    ++index_;
    check_length();
    lines_.assign(1, line_);
    std::size_t size_bytes = line_.size();
    const char* const begin = block_.rest().data();
    const char* const end = begin + block_.rest().size();
    const char* next = begin + taken_;
    while (static_cast<std::int64_t>(lines_.size()) < most) {
      const char* const found = ends_.find(next, end);
      if (found == end) break;
      const std::size_t size =
          static_cast<std::size_t>(found - next) - (found > next && found[-1] == '\r' ? 1 : 0);
      if (size > max_line_bytes_) break;  // the next call reports it
      lines_.emplace_back(next, size);
      size_bytes += size;
      next = found + 1;
    }
    const auto num_rows = static_cast<std::int64_t>(lines_.size());
    detail::RunBuilder rows(num_rows, static_cast<std::int64_t>(size_bytes));
    for (const std::string_view line : lines_) rows.add(line.data(), line.size());
    block_.take(static_cast<std::size_t>(next - begin));
    index_ += static_cast<std::uint64_t>(num_rows - 1);
    return {{std::move(rows).take()}, num_rows};
  }
  /// The next byte, and the number of its line.
  Position position() const { return {block_.position(), index_}; }
  void seek(const Position& position) {
    if (position.size() != 2 || position[0] < block_.position()) detail::fail_position(block_.position());
    block_.skip(position[0] - block_.position());
    ends_.reset();
    index_ = position[1];
  }

 private:
  /// Finds the line at the front of the block, if its end is there.
  bool find_in_block() {
    const std::string_view rest = block_.rest();
    const char* const end = rest.data() + rest.size();
    const char* const found = ends_.find(rest.data(), end);
    if (found == end) return false;
    set_line(rest.substr(0, static_cast<std::size_t>(found - rest.data())), true);
    return true;
  }
  /// Finds the next line, whose end need not be in the file. @return false at the end of the file.
  bool find_line() {
    while (!find_in_block()) {
      const std::string_view rest = block_.rest();
      const bool is_long = rest.size() > max_line_bytes_ + 1;
      const bool has_more = !is_long && block_.fill();
      ends_.reset();
      if (has_more) continue;
      if (block_.rest().empty()) return false;
      set_line(block_.rest(), false);
      return true;
    }
    return true;
  }
  void set_line(std::string_view line, bool has_ended) {
    has_ended_ = has_ended;
    taken_ = line.size() + (has_ended ? 1 : 0);
    if (has_ended && line.ends_with('\r')) line.remove_suffix(1);
    line_ = line;
  }
  void check_length() {
    if (line_.size() <= max_line_bytes_) return;
    const std::uint64_t begin = block_.position();
    bool has_ended = has_ended_;
    for (block_.take(taken_); !has_ended && (!block_.rest().empty() || block_.fill());) {
      const std::size_t end = block_.rest().find('\n');
      has_ended = end != std::string_view::npos;
      block_.take(has_ended ? end + 1 : block_.rest().size());
    }
    ends_.reset();
    block_.source().fail_record(
        begin, detail::concat("line ", index_, " is longer than max_line_bytes, ", max_line_bytes_));
  }

  detail::BlockReader block_;
  std::size_t max_line_bytes_;
  std::uint64_t index_ = 0;  // number of the line
  detail::ByteIndex ends_{{'\n', '\n', '\n'}};
  std::string_view line_;                // in the block, without its end
  std::size_t taken_ = 0;                // bytes of the line with its end
  bool has_ended_ = false;               // whether its end was found
  std::vector<std::string_view> lines_;  // of the rows that are being made
  detail::TensorSlab slab_;
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
