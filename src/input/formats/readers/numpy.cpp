#include <algorithm>
#include <memory>
#include <string_view>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"
#include "input/formats/byte_order.hpp"
#include "input/formats/file_shape.hpp"
#include "input/formats/npy_array.hpp"
#include "input/formats/readers/file_elements.hpp"
#include "input/rows/host_rows.hpp"
#include "input/rows/tensor_slab.hpp"

namespace lockstep::readers {
namespace {

using detail::concat;

constexpr std::string_view kNpy = "readers::npy";

Tensor row_of(const Tensor& array, std::int64_t row) {
  return array.slice(row, row + 1).reshape(array.shape().without(0)).clone();
}

/// Checks that an array has rows, and that they have elements. @param what  the array's name in messages.
void check_rows(const Tensor& array, const std::string& what) {
  LOCKSTEP_EXPECTS(array.rank() > 0, InvalidArgument, what, " is a scalar, ", describe(array),
                   ", and has no rows. Pass an array of rank 1 or more.");
  LOCKSTEP_EXPECTS(array.size() > 0 || array.shape()[0] == 0, InvalidArgument, what, ", ", describe(array),
                   ", has rows without elements. Pass an array with elements, or without rows.");
}

/// The rows of arrays, which `make(row)` gives.
template <class Make>
class Rows {
 public:
  Rows(std::int64_t num_rows, Make make) : num_rows_(num_rows), make_(std::move(make)) {}

  auto operator()() { return next_ < num_rows_ ? std::optional(make_(next_++)) : std::nullopt; }
  /// The next row.
  Position position() const { return {static_cast<std::uint64_t>(next_)}; }
  void seek(const Position& position) {
    LOCKSTEP_EXPECTS(position.size() == 1 && position[0] <= static_cast<std::uint64_t>(num_rows_),
                     InvalidArgument, "restore_state: the array has ", num_rows_,
                     " rows, and the state's position is none of them. Restore a state that was saved with "
                     "these files.");
    next_ = static_cast<std::int64_t>(position[0]);
  }

 private:
  std::int64_t num_rows_;
  Make make_;
  std::int64_t next_ = 0;
};

/// The rows of an array as they lie in the file. One row at a time is in memory.
class NpyRows {
 public:
  explicit NpyRows(const std::filesystem::path& path)
      : source_(std::make_shared<const detail::InputFile>(path, kNpy)),
        header_(detail::read_npy_header(source_)) {
    const Shape shape = detail::checked_shape(source_, header_.extents, header_.dtype);
    is_in_rows_ = !shape.empty() && shape.rank() > 0 && (!header_.fortran_order || shape.rank() == 1);
    if (!is_in_rows_) return;
    row_ = shape.without(0);
    num_rows_ = shape[0];
  }

  bool is_in_rows() const noexcept { return is_in_rows_; }

  std::optional<Tensor> next() {
    if (next_ == num_rows_) return std::nullopt;
    Tensor row = slab_.take(row_, header_.dtype);
    read(row, "a row");
    ++next_;
    return row;
  }
  detail::RowBlock next_rows(std::int64_t most) {
    const std::int64_t num_rows = std::min(most, num_rows_ - next_);
    if (num_rows == 0) return {};
    const Tensor rows =
        Tensor::empty(detail::stacked_shape(row_, num_rows), header_.dtype, detail::input_device());
    read(rows, "a row");
    next_ += num_rows;
    return {{{rows}}, num_rows};
  }
  /// The next row.
  Position position() const { return {static_cast<std::uint64_t>(next_)}; }
  void seek(const Position& position) {
    if (position.size() != 1 || position[0] < static_cast<std::uint64_t>(next_) ||
        position[0] > static_cast<std::uint64_t>(num_rows_))
      detail::fail_position(source_.position());
    const auto row_bytes = static_cast<std::uint64_t>(row_.size()) * size_of(header_.dtype);
    source_.skip((position[0] - static_cast<std::uint64_t>(next_)) * row_bytes);
    next_ = static_cast<std::int64_t>(position[0]);
  }

 private:
  void read(const Tensor& rows, std::string_view what) {
    auto* bytes = static_cast<std::byte*>(rows.data());
    source_.read(bytes, static_cast<std::uint64_t>(rows.nbytes()), what);
    if (header_.is_swapped) detail::swap_bytes(bytes, rows.size(), size_of(header_.dtype));
    if (header_.dtype == DType::boolean) detail::make_booleans(bytes, rows.size());
  }

  detail::FileSource source_;
  detail::NpyHeader header_;
  bool is_in_rows_ = false;
  Shape row_;
  std::int64_t num_rows_ = 0, next_ = 0;
  detail::TensorSlab slab_;
};

}  // namespace

Reader<Tensor> npy() {
  return [](const std::filesystem::path& path) -> Elements<Tensor> {
    bool is_in_rows = false;
    detail::FileElements rows(kNpy, path, "Pass a .npy file as numpy.save writes it.", [&] {
      auto made = std::make_shared<NpyRows>(path);
      is_in_rows = made->is_in_rows();
      return made;
    });
    if (is_in_rows) return rows;
    const Tensor array = detail::load_npy(path, kNpy);
    check_rows(array, concat(kNpy, ": ", path));
    return Rows(array.shape()[0], [array](std::int64_t row) { return row_of(array, row); });
  };
}

Reader<std::map<std::string, Tensor>> npz(std::vector<std::string> names) {
  using Arrays = std::map<std::string, Tensor>;
  return [names = std::move(names)](const std::filesystem::path& path) -> Elements<Arrays> {
    const Arrays arrays = detail::load_npz(path, names, "readers::npz");
    LOCKSTEP_EXPECTS(!arrays.empty(), InvalidArgument, "readers::npz: ", path,
                     " has no arrays. Pass a file with at least one.");
    const auto& [first_name, first] = *arrays.begin();
    for (const auto& [name, array] : arrays) {
      check_rows(array, concat("readers::npz: ", path, ", array ", detail::in_quotes(name)));
      LOCKSTEP_EXPECTS(array.shape()[0] == first.shape()[0], InvalidArgument, "readers::npz: ", path,
                       ", array ", detail::in_quotes(name), ", ", describe(array),
                       ", has another number of rows than ", detail::in_quotes(first_name), ", ",
                       describe(first), ". Name the arrays to read.");
    }
    return Rows(first.shape()[0], [arrays](std::int64_t row) {
      Arrays rows;
      for (const auto& [name, array] : arrays) rows.emplace(name, row_of(array, row));
      return rows;
    });
  };
}

}  // namespace lockstep::readers
