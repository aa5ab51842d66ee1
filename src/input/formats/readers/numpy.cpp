#include <memory>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"
#include "input/formats/npy_array.hpp"

namespace lockstep::readers {
namespace {

using detail::concat;

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

}  // namespace

Reader<Tensor> npy() {
  return [](const std::filesystem::path& path) -> Elements<Tensor> {
    const Tensor array = detail::load_npy(path, "readers::npy");
    check_rows(array, concat("readers::npy: ", path));
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
