#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "input/formats/byte_source.hpp"
#include "input/formats/readers/file_elements.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::readers {
namespace {

constexpr std::string_view kWhat = "readers::lines";
constexpr std::string_view kRemedy = "Pass the path of a text file.";

class Lines {
 public:
  explicit Lines(const std::filesystem::path& path)
      : source_(std::make_shared<const detail::InputFile>(path, kWhat)) {}

  std::optional<Tensor> next() {
    line_.clear();
    bool has_ended = false;
    for (bool is_first = true; !has_ended; is_first = false) {
      if (rest_.empty() && !fill()) {
        if (is_first) return std::nullopt;
        break;
      }
      const std::size_t size = rest_.find('\n');
      has_ended = size != std::string_view::npos;
      detail::append_within(line_, rest_.substr(0, size), source_.position() + source_.max_left());
      rest_.remove_prefix(has_ended ? size + 1 : rest_.size());
    }
    if (has_ended && line_.ends_with('\r')) line_.pop_back();
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(line_.data());
    return Tensor::from(std::span(bytes, line_.size()), Shape(line_.size()), detail::input_device());
  }
  /// The next byte.
  Position position() const { return {source_.position() - rest_.size()}; }
  void seek(const Position& position) {
    if (position.size() != 1) detail::fail_position(0);
    source_.skip(position[0]);
  }

 private:
  /// @return false at the end of the file.
  bool fill() {
    constexpr std::size_t kBufferBytes = 1 << 14;
    buffer_.resize(kBufferBytes);
    rest_ = {buffer_.data(), source_.read_some(buffer_.data(), buffer_.size())};
    return !rest_.empty();
  }

  detail::FileSource source_;
  std::vector<char> buffer_;
  std::string_view rest_;  // bytes of the buffer that have not been taken
  std::string line_;       // a member to reuse its memory
};

}  // namespace

Reader<Tensor> lines() {
  return [](const std::filesystem::path& path) -> Elements<Tensor> {
    return detail::FileElements(kWhat, path, kRemedy, [&] { return std::make_shared<Lines>(path); });
  };
}

std::string text(const Tensor& line) {
  const auto bytes = line.to_vector<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

}  // namespace lockstep::readers
