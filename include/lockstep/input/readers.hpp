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
#include <lockstep/input/bad_record.hpp>
#include <lockstep/input/compression.hpp>
#include <lockstep/input/detail/positioned.hpp>
#include <lockstep/scalar.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

/// Readers for Dataset::from_files. A reader is a function of a path; it returns a function that returns the
/// file's elements on the host, one per call, and then nothing. Several threads may use one reader, but only
/// one thread at a time may use a function that it returned.
///
/// Any callable of this form is a reader; its elements may be any nest of Tensors. This reader returns the
/// bytes of a file:
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
/// A reader reports an error by throwing. The dataset adds path and element to the message and continues with
/// the next file, or after a BadRecord with the next record: `ignore_errors` leaves out what was wrong.
///
/// What a reader returns may know its position, so that DatasetIterator::restore_state goes on there and
/// reads nothing before it: `Position position() const` says where the next element begins, and `void
/// seek(const Position&)` goes there, on an object that has given no element yet; if no element begins there,
/// it throws InvalidArgument. Without them the elements before the position are read again and dropped.
///
/// The readers below throw NotFound if the file cannot be opened, and InvalidArgument if it is not a regular
/// file or not in the reader's format: path, position (bytes from the start, of the decompressed data if that
/// is what is wrong) and reason. They do not trust files: no allocation is larger than what the file
/// can hold (1032 times its size with gzip and zlib; some 32,768 times, and 128 MiB, with zstd) or a fixed
/// buffer, and where records have no fixed length, larger than twice what the options allow: a small
/// compressed file may hold very much. With zstd all throw Unsupported if lockstep was built
/// without libzstd.
namespace lockstep::readers {

/// The elements of a file that is being read: one per call, and then nothing. Copies share the position in
/// the file.
template <class E>
class Elements {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Elements> &&
           std::is_invocable_r_v<std::optional<E>, std::decay_t<F>&>) Elements(F&& next)
      : source_(std::make_shared<SourceOf<std::decay_t<F>>>(std::forward<F>(next))) {}
  std::optional<E> operator()() const { return source_->next(); }
  /// For the library, as Iterator's: elements at once, where the library's own readers can give them so.
  std::optional<detail::RowBlock> next_rows(std::int64_t most) const { return source_->next_rows(most); }
  [[nodiscard]] bool owns_memory() const { return source_->owns_memory(); }
  /// Where the next element begins: the function's own position, or the number of calls so far.
  [[nodiscard]] Position position() const { return source_->position(); }
  /// Goes to a position that these elements have given, before the first call. @throws InvalidArgument  no
  /// element begins there.
  void seek(const Position& position) const { source_->seek(position); }

 private:
  struct Source {
    virtual ~Source() = default;
    virtual std::optional<E> next() = 0;
    virtual std::optional<detail::RowBlock> next_rows(std::int64_t most) = 0;
    virtual bool owns_memory() const = 0;
    virtual Position position() const = 0;
    virtual void seek(const Position& position) = 0;
  };
  template <class F>
  struct SourceOf final : Source {
    template <class G>
    explicit SourceOf(G&& given) : function(std::forward<G>(given)) {}
    std::optional<E> next() override { return function(); }
    std::optional<detail::RowBlock> next_rows(std::int64_t most) override { return function.next_rows(most); }
    bool owns_memory() const override { return function.owns_memory(); }
    Position position() const override { return function.position(); }
    void seek(const Position& position) override { function.seek(position); }
    detail::Positioned<F> function;
  };

  std::shared_ptr<Source> source_;  // owners: the copies
};
template <class E>
using Reader = detail::SharedFunction<Elements<E>(const std::filesystem::path&)>;

/// The most bytes of a record, unless options say otherwise: 256 MiB.
inline constexpr std::int64_t kMaxRecordBytes = std::int64_t{1} << 28;

struct LineOptions {
  Compression compression = Compression::none;
  std::int64_t max_line_bytes = kMaxRecordBytes;  ///< Without the line's end. At least 0.
};

/// The lines of a text file, without their ends (`\n` or `\r\n`), as u8 tensors of rank 1; `text` turns them
/// into strings. @throws InvalidArgument  options are out of range. From the reader: @throws BadRecord  a
/// line is longer than max_line_bytes.
[[nodiscard]] Reader<Tensor> lines(const LineOptions& options = {});
/// The text of such a tensor. @throws InvalidArgument  the dtype is not u8.
[[nodiscard]] std::string text(const Tensor& line);

/// The rows of a .npy file, read as by load_npy; one row, or one batch, at a time is in memory, unless the
/// array is in Fortran order. @throws InvalidArgument  also if the array is a scalar or its rows have no
/// elements.
[[nodiscard]] Reader<Tensor> npy();

/// The rows of a .npz file's arrays together, by name, read as by load_npz.
/// @param names  the arrays to read; an empty list: all.
/// @throws NotFound  also if an array is missing. @throws InvalidArgument  also if an array is a scalar or
/// its rows have no elements, or if the arrays differ in their numbers of rows.
[[nodiscard]] Reader<std::map<std::string, Tensor>> npz(std::vector<std::string> names = {});

/// The rows of an IDX file (http://yann.lecun.com/exdb/mnist, "the IDX file format"), plain or gzip, with
/// elements u8 i8 i16 i32 f32 f64. One row at a time is in memory. @throws InvalidArgument  also if the array
/// is a scalar or its rows have no elements, and if the file has fewer elements than its header says (at
/// once; for gzip after the rows that exist) or more (after the last row).
[[nodiscard]] Reader<Tensor> idx();

/// The form of the files that `records` reads.
struct RecordOptions {
  std::int64_t record_bytes = 0;  ///< Length of each record. At least 1.
  std::int64_t header_bytes = 0;  ///< Skipped at the beginning of each file.
  std::int64_t footer_bytes = 0;  ///< Skipped at the end of each file.
  Compression compression = Compression::none;
};

/// Records of one length, with nothing between them, as u8 tensors [record_bytes].
/// @throws InvalidArgument  options are out of range. From the reader: the file's bytes are not whole
/// records.
[[nodiscard]] Reader<Tensor> records(const RecordOptions& options);

struct TfRecordOptions {
  Compression compression = Compression::none;      ///< As the writer's compression_type.
  std::int64_t max_record_bytes = kMaxRecordBytes;  ///< At least 0.
};

/// The records of TensorFlow's TFRecord files, as u8 tensors of rank 1. The checksums (CRC-32C, masked) of
/// lengths and data are compared. One record at a time is in memory.
/// @throws Unsupported  lockstep was built without ISA-L. @throws InvalidArgument  options are out of range.
/// From the reader: @throws InvalidArgument  a length's checksum does not match, or the file is cut short.
/// @throws BadRecord  a record's checksum does not match, or it is longer than max_record_bytes; the message
/// has its number.
[[nodiscard]] Reader<Tensor> tf_record(const TfRecordOptions& options = {});

struct TarOptions {
  /// The parts to read, as "jpg": other members are passed over, and a sample without one is bad. Empty: all
  /// parts.
  std::vector<std::string> extensions{};
  std::int64_t max_record_bytes = kMaxRecordBytes;  ///< Of a sample: all its parts together. At least 0.
};

/// The samples of a tar archive, as WebDataset has them: members that follow each other, and whose paths are
/// equal up to the first dot of the file's name, are the parts of one sample. A sample is a map from what
/// comes after that dot, in lower case, to the member's bytes, a u8 tensor of rank 1; "__key__" has what
/// comes before it. Only regular files count; those without a dot, and paths that begin as "__index__/", are
/// passed over. The archive may be compressed by gzip, bzip2, xz or zstd. One sample at a time is in memory.
/// @throws Unsupported  lockstep was built without libarchive. @throws InvalidArgument  max_record_bytes < 0.
/// From the reader: @throws InvalidArgument  the file is no archive, or is cut short. @throws BadRecord  a
/// sample is too large, lacks a part, has one twice, or a header in it or before it is damaged; the message
/// has its number and key.
[[nodiscard]] Reader<std::map<std::string, Tensor>> tar(TarOptions options = {});

/// The type of a column's fields: numbers of a dtype, or text.
struct CsvColumn {
  /// Numbers as std::from_chars reads them, optionally with a plus sign and surrounding blanks; for boolean
  /// 0, 1, true, false.
  /// @param value_if_missing  the value of an empty field, a number that `type` can hold, rounded if
  /// necessary; without it an empty field is an error.
  CsvColumn(DType type, std::optional<Scalar> value_if_missing = {})
      : dtype(type), default_value(std::move(value_if_missing)) {}
  /// Fields as u8 tensors of rank 1, unchanged and possibly empty; `readers::text` turns them into strings.
  [[nodiscard]] static CsvColumn text() {
    CsvColumn column(DType::u8);
    column.is_text = true;
    return column;
  }

  DType dtype;
  std::optional<Scalar> default_value;
  bool is_text = false;
};

/// The form of the files that `csv` reads.
struct CsvOptions {
  std::vector<CsvColumn> columns{};  ///< One for each field, or for each selected field. At least one.
  bool header = false;               ///< The first record has names and is skipped.
  char delimiter = ',';              ///< Separates fields; not a quote or a line end.
  bool quotes = true;                ///< Whether a field may be in double quotes.
  std::string missing{};             ///< A field with this text counts as empty too.
  std::vector<std::int64_t> select_columns{};  ///< Numbers of fields from 0, ascending; empty: all fields.
  Compression compression = Compression::none;
  /// 0: an element is a record, with a scalar for each column. n: it is n records, with a tensor [n] for each
  /// column, and fewer at a file's end; that is many times faster. No column may be text then.
  std::int64_t batch_size = 0;
  std::int64_t max_record_bytes = kMaxRecordBytes;  ///< At least 0.
};

/// Comma-separated values (RFC 4180; `\n` ends a record as well as `\r\n`; lines without characters and a
/// byte-order mark are skipped). Each record becomes a list with a scalar for each column. The records of a
/// file have equal numbers of fields. One record, or one batch, at a time is in memory.
/// @throws InvalidArgument  options contradict each other, or a column cannot hold its default. From the
/// reader:
/// @throws BadRecord  a record does not match the options, or is longer than max_record_bytes; the message
/// also has its line and field. The pass goes on behind the next end of a line. @throws InvalidArgument  a
/// quoted field has no end.
[[nodiscard]] Reader<std::vector<Tensor>> csv(CsvOptions options);

}  // namespace lockstep::readers

#pragma GCC visibility pop
