#include <memory>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"
#include "input/formats/byte_order.hpp"
#include "input/formats/file_shape.hpp"
#include "input/formats/npy_array.hpp"
#include "input/rows/host_rows.hpp"

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
    num_left_ = shape[0];
  }

  bool is_in_rows() const noexcept { return is_in_rows_; }

  std::optional<Tensor> next() {
    if (num_left_ == 0) return std::nullopt;
    Tensor row = Tensor::empty(row_, header_.dtype, detail::input_device());
    auto* bytes = static_cast<std::byte*>(row.data());
    source_.read(bytes, static_cast<std::uint64_t>(row.nbytes()), "a row");
    if (header_.is_swapped) detail::swap_bytes(bytes, row.size(), size_of(header_.dtype));
    if (header_.dtype == DType::boolean) detail::make_booleans(bytes, row.size());
    --num_left_;
    return row;
  }

 private:
  detail::FileSource source_;
  detail::NpyHeader header_;
  bool is_in_rows_ = false;
  Shape row_;
  std::int64_t num_left_ = 0;
};

}  // namespace

Reader<Tensor> npy() {
  return [](const std::filesystem::path& path) -> Elements<Tensor> {
    const auto with_faults = [path](auto&& fn) {
      return detail::with_file_faults(kNpy, path, "Pass a .npy file as numpy.save writes it.", fn);
    };
    if (auto rows = with_faults([&] { return std::make_shared<NpyRows>(path); }); rows->is_in_rows())
      return [=] { return with_faults([&] { return rows->next(); }); };
    const Tensor array = detail::load_npy(path, kNpy);
    check_rows(array, concat(kNpy, ": ", path));
    return [array, next = std::int64_t{0}]() mutable {
      return next < array.shape()[0] ? std::optional(row_of(array, next++)) : std::nullopt;
    };
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
    return [arrays, num_rows = first.shape()[0], next = std::int64_t{0}]() mutable -> std::optional<Arrays> {
      if (next == num_rows) return std::nullopt;
      Arrays rows;
      for (const auto& [name, array] : arrays) rows.emplace(name, row_of(array, next));
      ++next;
      return rows;
    };
  };
}

}  // namespace lockstep::readers
