#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/detail/shared_function.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/scalar.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

/// Readers for Dataset::from_files. Each is a function of a path that gives a function which gives the file's
/// elements, on the host, one by one and then nothing. Threads may use one reader together, a function that
/// it gave one at a time.
///
/// Any callable of this form is a reader; its elements may be any nest of Tensors. This one gives the bytes
/// of a file:
///
///     struct Bytes {
///       auto operator()(const std::filesystem::path& path) const {
///         return [file = std::ifstream(path)]() mutable -> std::optional<ls::Tensor> {
///           const int byte = file.get();
///           if (byte < 0) return std::nullopt;
///           return ls::Tensor::scalar(static_cast<std::uint8_t>(byte), "CPU:0");
///         };
///       }
///     };
///     auto bytes = ls::Dataset::from_files(paths, Bytes());
///
/// A reader says what is wrong by throwing; the dataset adds path and element to the message and goes on with
/// the next file.
///
/// The readers below throw NotFound where the file cannot be opened, and InvalidArgument where it is not what
/// it should be, also no regular file: path, position (bytes from the start) and reason. They do not trust
/// files: no allocation is larger than the file, times 1032 where it is compressed, or a fixed buffer of 64
/// KiB.
namespace lockstep::readers {

/// The elements of a file that is being read, one for each call and then nothing. Copies go on where one has
/// stopped.
template <class E>
class Elements {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Elements> &&
           std::is_invocable_r_v<std::optional<E>, std::decay_t<F>&>) Elements(F&& next)
      : source_(std::make_shared<SourceOf<std::decay_t<F>>>(std::forward<F>(next))) {}
  std::optional<E> operator()() const { return source_->next(); }

 private:
  struct Source {
    virtual ~Source() = default;
    virtual std::optional<E> next() = 0;
  };
  template <class F>
  struct SourceOf final : Source {
    template <class G>
    explicit SourceOf(G&& given) : function(std::forward<G>(given)) {}
    std::optional<E> next() override { return function(); }
    F function;
  };

  std::shared_ptr<Source> source_;  // owners: the copies
};
template <class E>
using Reader = detail::SharedFunction<Elements<E>(const std::filesystem::path&)>;

/// The lines of a text file, without what ends them (\n or \r\n), as u8 tensors of rank 1; `text` makes
/// strings of them.
[[nodiscard]] Reader<Tensor> lines();
/// The text of such a tensor. @throws InvalidArgument  not u8.
[[nodiscard]] std::string text(const Tensor& line);

/// The rows of a .npy file, as load_npy reads it. @throws InvalidArgument  also for a scalar, and for rows
/// without elements.
[[nodiscard]] Reader<Tensor> npy();

/// The rows of the arrays of a .npz file together, by name, as load_npz reads it.
/// @param names  the arrays to read; none: all.
/// @throws NotFound  also for an array that is not there. @throws InvalidArgument  also for a scalar, for
/// rows without elements, and where the arrays differ in their numbers of rows.
[[nodiscard]] Reader<std::map<std::string, Tensor>> npz(std::vector<std::string> names = {});

/// The rows of an IDX file (http://yann.lecun.com/exdb/mnist, "the IDX file format"), plain or gzip: elements
/// u8 i8 i16 i32 f32 f64. A row at a time is in memory. @throws InvalidArgument  also for a scalar, for rows
/// without elements, and where the file has fewer elements than it says (at once; of gzip after the rows that
/// are there) or more (after the last row).
[[nodiscard]] Reader<Tensor> idx();

struct RecordOptions {
  std::int64_t record_bytes = 0;  ///< Of each record. At least 1.
  std::int64_t header_bytes = 0;  ///< Passed over at the beginning of each file.
  std::int64_t footer_bytes = 0;  ///< Passed over at its end.
};

/// Records of one length, without anything between them, as u8 tensors [record_bytes].
/// @throws InvalidArgument  options out of range. From the reader: a file whose bytes are not whole records.
[[nodiscard]] Reader<Tensor> records(const RecordOptions& options);

/// How the fields of a column are read: as numbers of a dtype, or as text.
struct CsvColumn {
  /// Numbers as std::from_chars takes them, with or without a plus sign, with blanks around; for boolean 0,
  /// 1, true, false.
  /// @param value_if_missing  where a field is empty, a number that a `type` can be but for rounding; none:
  /// an empty field is an error.
  CsvColumn(DType type, std::optional<Scalar> value_if_missing = {})
      : dtype(type), default_value(std::move(value_if_missing)) {}
  /// Fields as they are, also empty ones: u8 tensors of rank 1, of which `readers::text` makes strings.
  [[nodiscard]] static CsvColumn text() {
    CsvColumn column(DType::u8);
    column.is_text = true;
    return column;
  }

  DType dtype;
  std::optional<Scalar> default_value;
  bool is_text = false;
};

struct CsvOptions {
  std::vector<CsvColumn> columns{};  ///< One for each field, or for each that is selected. At least one.
  bool header = false;               ///< The first record has names and is passed over.
  char delimiter = ',';              ///< Between fields; not a quote or an end of a line.
  bool quotes = true;                ///< Whether a field may be in double quotes.
  std::string missing{};             ///< A field with this text is empty too.
  std::vector<std::int64_t> select_columns{};  ///< Numbers of fields from 0, ascending; none: all.
};

/// Comma-separated values (RFC 4180; \n ends a record as well as \r\n, lines without a character are passed
/// over, a byte-order mark too): each record a list with a scalar for each column. Records of a file have
/// equal numbers of fields. A record at a time is in memory.
/// @throws InvalidArgument  options that contradict each other, a default that its column cannot hold. From
/// the reader: a record that is not as the options say: its line and field too.
[[nodiscard]] Reader<std::vector<Tensor>> csv(CsvOptions options);

}  // namespace lockstep::readers

#pragma GCC visibility pop
