#include <cerrno>
#include <cstdint>
#include <span>
#include <system_error>
#include <utility>

#include <lockstep/error.hpp>
#include <lockstep/input/npy.hpp>
#include <lockstep/input/readers.hpp>

#include "input/host_rows.hpp"

namespace lockstep::readers {

LineGenerator::LineGenerator(std::filesystem::path path) : path_(std::move(path)) {
  errno = 0;
  file_.open(path_, std::ios::binary);
  LOCKSTEP_EXPECTS(file_, NotFound, "readers::lines: ", path_,
                   " cannot be opened: ", std::generic_category().message(errno),
                   ". Pass the path of a text file.");
}

std::optional<Tensor> LineGenerator::operator()() {
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

std::string text(const Tensor& line) {
  const auto bytes = line.to_vector<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

NpyGenerator::NpyGenerator(const std::filesystem::path& path) : rows_(load_npy(path)) {
  LOCKSTEP_EXPECTS(rows_.rank() > 0, InvalidArgument, "readers::npy: ", path, " is a scalar, ",
                   describe(rows_), ", and has no rows. Pass an array of rank 1 or more.");
}

std::optional<Tensor> NpyGenerator::operator()() {
  if (next_ == rows_.shape()[0]) return std::nullopt;
  const Tensor row = rows_.slice(next_, next_ + 1);
  ++next_;
  return row.reshape(rows_.shape().without(0)).clone();
}

}  // namespace lockstep::readers
