#include <cerrno>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <system_error>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "input/host_rows.hpp"

namespace lockstep::readers {
namespace {

class LineSource {
 public:
  explicit LineSource(const std::filesystem::path& path) : path_(path) {
    errno = 0;
    file_.open(path_, std::ios::binary);
    LOCKSTEP_EXPECTS(file_, NotFound, "readers::lines: ", path_,
                     " cannot be opened: ", std::generic_category().message(errno),
                     ". Pass the path of a text file.");
  }

  std::optional<Tensor> next() {
    if (!std::getline(file_, line_)) {
      LOCKSTEP_EXPECTS(file_.eof() && !file_.bad(), Error, "readers::lines: ", path_,
                       " cannot be read to its end: ", std::generic_category().message(errno),
                       ". Pass a text file whose lines fit into memory.");
      return std::nullopt;
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(line_.data());
    return Tensor::from(std::span(bytes, line_.size()), Shape(line_.size()), detail::input_device());
  }

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::string line_;  // kept for its memory
};

}  // namespace

Reader<Tensor> lines() {
  return [](const std::filesystem::path& path) -> Elements<Tensor> {
    return [source = std::make_shared<LineSource>(path)] { return source->next(); };
  };
}

std::string text(const Tensor& line) {
  const auto bytes = line.to_vector<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

}  // namespace lockstep::readers
