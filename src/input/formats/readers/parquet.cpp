#include <lockstep/error.hpp>
#include <lockstep/input/parquet.hpp>

#include "detail/expects.hpp"
#include "input/formats/absent_format.hpp"

#ifdef LOCKSTEP_HAS_PARQUET

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <span>
#include <type_traits>
#include <utility>

#include <parquet/api/reader.h>

#include "detail/in_quotes.hpp"
#include "input/formats/readers/file_elements.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::readers {
namespace {

// Not `parquet::`, which is the reader's name here.
namespace pq = ::parquet;
using detail::concat;
using Row = std::map<std::string, Tensor>;

constexpr std::string_view kWhat = "readers::parquet";
constexpr std::string_view kRemedy = "Pass a Parquet file, and columns that are in it.";
constexpr std::int64_t kRowsAtATime = 4096;

[[noreturn]] void fail(std::string reason) { throw detail::FileFault{0, std::move(reason)}; }

/// Calls fn() and turns Arrow's exceptions into faults.
template <class F>
auto with_arrow_faults(F&& fn) {
  try {
    return fn();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

struct Column {
  std::string name;
  int index = 0;
  std::int16_t max_level = 0;  // the definition level of values that are not null
  pq::Type::type stored = pq::Type::UNDEFINED;
  DType dtype = DType::u8;
  bool is_text = false;
};

[[noreturn]] void fail_type(const std::string& name, const std::string& type) {
  fail(concat("column ", detail::in_quotes(name), " is of the type ", type,
              ", which is not read: write it as numbers, booleans or text, or leave it out of `columns`"));
}

/// The dtype of integers of so many bits.
DType integers(int bits, bool is_signed) {
  switch (bits) {
    case 8: return is_signed ? DType::i8 : DType::u8;
    case 16: return is_signed ? DType::i16 : DType::u16;
    case 32: return is_signed ? DType::i32 : DType::u32;
    default: return is_signed ? DType::i64 : DType::u64;
  }
}

Column column_of(const pq::ColumnDescriptor& given, int index) {
  Column column{given.path()->ToDotString(), index, given.max_definition_level(), given.physical_type()};
  const auto& logical = given.logical_type();
  const bool is_decimal = logical && logical->is_decimal();
  if (given.max_repetition_level() > 0 || is_decimal)
    fail_type(column.name, is_decimal ? logical->ToString() : "List");
  switch (column.stored) {
    case pq::Type::BOOLEAN: column.dtype = DType::boolean; break;
    case pq::Type::INT32: column.dtype = DType::i32; break;
    case pq::Type::INT64: column.dtype = DType::i64; break;
    case pq::Type::FLOAT: column.dtype = DType::f32; break;
    case pq::Type::DOUBLE: column.dtype = DType::f64; break;
    case pq::Type::BYTE_ARRAY: column.is_text = true; break;
    default: fail_type(column.name, pq::TypeToString(column.stored));
  }
  if (logical && logical->is_int()) {
    const auto& type = static_cast<const pq::IntLogicalType&>(*logical);
    if ((type.bit_width() == 64) != (column.stored == pq::Type::INT64))
      fail_type(column.name, type.ToString());
    column.dtype = integers(type.bit_width(), type.is_signed());
  }
  return column;
}

/// Calls fn with the null pointer of a type that holds a dtype's values in memory.
template <class F>
void with_integers(DType dtype, const F& fn) {
  switch (dtype) {
    case DType::i8: return fn(static_cast<std::int8_t*>(nullptr));
    case DType::u8: return fn(static_cast<std::uint8_t*>(nullptr));
    case DType::i16: return fn(static_cast<std::int16_t*>(nullptr));
    case DType::u16: return fn(static_cast<std::uint16_t*>(nullptr));
    case DType::u32: return fn(static_cast<std::uint32_t*>(nullptr));
    default: return fn(static_cast<std::int32_t*>(nullptr));
  }
}

class ParquetRows {
 public:
  ParquetRows(const std::filesystem::path& path, const ParquetOptions& options) : options_(options) {
    const detail::InputFile exists(path, kWhat);  // NotFound, if it does not
    with_arrow_faults([&] {
      file_ = pq::ParquetFileReader::OpenFile(path.string());
      const pq::SchemaDescriptor& schema = *file_->metadata()->schema();
      if (options.columns.empty())
        for (int index = 0; index < schema.num_columns(); ++index) add(schema, index);
      for (const std::string& name : options.columns) {
        const int index = schema.ColumnIndex(name);
        if (index < 0) fail(concat("there is no column ", detail::in_quotes(name)));
        add(schema, index);
      }
    });
  }

  std::optional<Row> next() {
    return with_arrow_faults([&]() -> std::optional<Row> {
      if (columns_.empty() || !find_rows()) return std::nullopt;
      if (options_.batch_size > 0) {
        const std::int64_t size = std::min(options_.batch_size, num_rows_ - row_);
        Row batch;
        for (std::size_t i = 0; i < columns_.size(); ++i) batch.emplace(columns_[i].name, numbers(i, size));
        row_ += size;
        return batch;
      }
      if (next_ready_ == num_ready_) fill();
      Row row;
      for (std::size_t i = 0; i < columns_.size(); ++i)
        row.emplace(columns_[i].name, columns_[i].is_text ? std::move(texts_[i][ready_index()]) : scalar(i));
      ++next_ready_;
      ++row_;
      return row;
    });
  }
  /// A row group, and the next row in it.
  Position position() const { return {static_cast<std::uint64_t>(group_), static_cast<std::uint64_t>(row_)}; }
  void seek(const Position& position) {
    const auto num_groups = static_cast<std::uint64_t>(file_->metadata()->num_row_groups());
    if (position.size() != 2 || position[0] > num_groups || (position[0] == num_groups && position[1] > 0))
      detail::fail_position(0);
    with_arrow_faults([&] {
      group_ = static_cast<int>(position[0]);
      if (position[1] == 0) return;
      open_group();
      if (position[1] > static_cast<std::uint64_t>(num_rows_)) detail::fail_position(0);
      row_ = static_cast<std::int64_t>(position[1]);
      for (std::size_t i = 0; i < columns_.size(); ++i) skip(i, row_);
    });
  }

 private:
  void add(const pq::SchemaDescriptor& schema, int index) {
    columns_.push_back(column_of(*schema.Column(index), index));
    if (columns_.back().is_text && options_.batch_size > 0)
      fail(concat(
          "column ", detail::in_quotes(columns_.back().name),
          " is text, of which no batches are made: pass batch_size = 0, or leave it out of `columns`"));
  }

  void open_group() {
    const auto group = file_->RowGroup(group_);
    num_rows_ = group->metadata()->num_rows();
    if (num_rows_ < 0) fail(concat("row group ", group_, " has ", num_rows_, " rows"));
    readers_.clear();
    for (const Column& column : columns_) readers_.push_back(group->Column(column.index));
    row_ = next_ready_ = num_ready_ = 0;
  }

  /// Goes to a row group that has rows left. @return false at the end.
  bool find_rows() {
    for (;;) {
      if (!readers_.empty() && row_ < num_rows_) return true;
      if (!readers_.empty()) ++group_;
      readers_.clear();
      row_ = 0;
      if (group_ >= file_->metadata()->num_row_groups()) return false;
      open_group();
    }
  }

  /// Calls fn(reader) with a column's reader, as one of the column's type.
  template <class F>
  void with_reader(std::size_t i, const F& fn) {
    pq::ColumnReader& reader = *readers_[i];
    switch (columns_[i].stored) {
      case pq::Type::BOOLEAN: return fn(static_cast<pq::BoolReader&>(reader));
      case pq::Type::INT32: return fn(static_cast<pq::Int32Reader&>(reader));
      case pq::Type::INT64: return fn(static_cast<pq::Int64Reader&>(reader));
      case pq::Type::FLOAT: return fn(static_cast<pq::FloatReader&>(reader));
      case pq::Type::DOUBLE: return fn(static_cast<pq::DoubleReader&>(reader));
      default: return fn(static_cast<pq::ByteArrayReader&>(reader));
    }
  }

  void skip(std::size_t i, std::int64_t size) {
    with_reader(i, [&](auto& reader) {
      if (reader.Skip(size) != size) fail_short(i, 0);
    });
  }

  [[noreturn]] void fail_short(std::size_t i, std::int64_t row) const {
    fail(concat("row group ", group_, " has ", num_rows_, " rows, but its column ",
                detail::in_quotes(columns_[i].name), " ends after ", row));
  }

  /// Reads values of a column from row `first` on. @param take  takes those of one call: their place, and
  /// them.
  template <class Reader, class Value, class Take>
  void read(std::size_t i, Reader& reader, std::int64_t first, std::int64_t size, Value* values,
            const Take& take) {
    const Column& column = columns_[i];
    levels_.resize(static_cast<std::size_t>(size));
    for (std::int64_t done = 0; done < size;) {
      std::int64_t num_values = 0;
      const std::int64_t num_rows =
          reader.ReadBatch(size - done, levels_.data(), nullptr, values, &num_values);
      if (num_rows <= 0) fail_short(i, first + done);
      if (num_values < num_rows) {
        const auto null = std::find_if(levels_.begin(), levels_.begin() + num_rows,
                                       [&](std::int16_t level) { return level < column.max_level; });
        fail(concat(
            "row group ", group_, ", row ", first + done + (null - levels_.begin()), ": column ",
            detail::in_quotes(column.name),
            " is null, for which tensors have no value: fill nulls where the file is written, or leave "
            "the column out of `columns`"));
      }
      take(done, num_rows);
      done += num_rows;
    }
  }

  /// The next rows of a column, [size].
  Tensor numbers(std::size_t i, std::int64_t size) {
    const Column& column = columns_[i];
    Tensor tensor = Tensor::empty(Shape(size), column.dtype, detail::input_device());
    auto* const data = static_cast<std::byte*>(tensor.data());
    with_reader(i, [&]<class Reader>(Reader& reader) {
      using Value = typename Reader::T;
      if constexpr (std::is_arithmetic_v<Value>) {
        const auto values = std::make_unique_for_overwrite<Value[]>(static_cast<std::size_t>(size));
        read(i, reader, row_, size, values.get(), [&](std::int64_t begin, std::int64_t count) {
          const auto copy = [&]<class T>(T*) {
            T* const out = reinterpret_cast<T*>(data) + begin;
            std::transform(values.get(), values.get() + count, out,
                           [](Value x) { return static_cast<T>(x); });
          };
          if constexpr (std::is_same_v<Value, std::int32_t>)
            with_integers(column.dtype, copy);
          else
            copy(static_cast<Value*>(nullptr));
        });
      }
    });
    return tensor;
  }

  /// The next rows of a column of texts.
  std::vector<Tensor> texts(std::size_t i, std::int64_t size) {
    std::vector<Tensor> result;
    const auto values = std::make_unique<pq::ByteArray[]>(static_cast<std::size_t>(size));
    auto& reader = static_cast<pq::ByteArrayReader&>(*readers_[i]);
    read(i, reader, row_, size, values.get(), [&](std::int64_t, std::int64_t count) {
      for (const pq::ByteArray& value : std::span(values.get(), static_cast<std::size_t>(count))) {
        if (std::int64_t{value.len} > options_.max_record_bytes)
          fail(concat("row group ", group_, ", row ", row_ + std::ssize(result), ": column ",
                      detail::in_quotes(columns_[i].name), " has ", value.len,
                      " bytes, more than max_record_bytes, ", options_.max_record_bytes));
        Tensor& text =
            result.emplace_back(Tensor::empty(Shape(value.len), DType::u8, detail::input_device()));
        if (value.len > 0) std::memcpy(text.data(), value.ptr, value.len);
      }
    });
    return result;
  }

  void fill() {
    const std::int64_t size = std::min(kRowsAtATime, num_rows_ - row_);
    numbers_.assign(columns_.size(), Tensor());
    texts_.assign(columns_.size(), {});
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].is_text)
        texts_[i] = texts(i, size);
      else
        numbers_[i] = numbers(i, size);
    }
    next_ready_ = 0;
    num_ready_ = size;
  }

  std::size_t ready_index() const { return static_cast<std::size_t>(next_ready_); }

  Tensor scalar(std::size_t i) const {
    Tensor value = Tensor::empty({}, columns_[i].dtype, detail::input_device());
    const auto size = static_cast<std::size_t>(value.nbytes());
    std::memcpy(value.data(), static_cast<const std::byte*>(numbers_[i].view().data) + size * ready_index(),
                size);
    return value;
  }

  ParquetOptions options_;
  std::unique_ptr<pq::ParquetFileReader> file_;
  std::vector<Column> columns_;
  int group_ = 0;
  std::vector<std::shared_ptr<pq::ColumnReader>> readers_;  // of the row group; empty: it is not open
  std::int64_t num_rows_ = 0, row_ = 0;                     // of the row group, and the next one
  std::vector<std::int16_t> levels_;
  std::vector<Tensor> numbers_;             // of each column, the rows that have been read
  std::vector<std::vector<Tensor>> texts_;  // as numbers_
  std::int64_t next_ready_ = 0, num_ready_ = 0;
};

}  // namespace

Reader<Row> parquet(ParquetOptions options) {
  LOCKSTEP_EXPECTS(options.batch_size >= 0 && options.max_record_bytes >= 0, InvalidArgument, kWhat,
                   ": batch_size is ", options.batch_size, ", and max_record_bytes ",
                   options.max_record_bytes, ". Pass 0 or more.");
  std::set<std::string> names;
  for (const std::string& name : options.columns)
    LOCKSTEP_EXPECTS(names.insert(name).second, InvalidArgument, kWhat, ": the column ",
                     detail::in_quotes(name), " is asked for twice. Name each once.");
  return [options = std::move(options)](const std::filesystem::path& path) -> Elements<Row> {
    return detail::FileElements(kWhat, path, kRemedy,
                                [&] { return std::make_shared<ParquetRows>(path, options); });
  };
}

}  // namespace lockstep::readers

#else

namespace lockstep::readers {

Reader<std::map<std::string, Tensor>> parquet(ParquetOptions) {
  detail::raise_absent_format("readers::parquet", "Arrow", "libparquet-dev of Arrow's own repository");
}

}  // namespace lockstep::readers

#endif
