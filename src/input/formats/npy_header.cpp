#include "input/formats/npy_header.hpp"

#include <bit>
#include <charconv>
#include <optional>

#include "detail/concat.hpp"
#include "detail/in_quotes.hpp"

namespace lockstep::detail {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Parses the subset of Python's literals that headers use.
class Parser {
 public:
  Parser(std::string_view text, std::uint64_t position) : text_(text), position_(position) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      const std::size_t begin = skip_spaces();
      const std::string_view key = parse_string();
      expect(':');
      if (key == "descr")
        once(descr_, begin, key, parse_descr());
      else if (key == "fortran_order")
        once(fortran_order_, begin, key, parse_boolean());
      else if (key == "shape")
        once(extents_, begin, key, parse_extents());
      else
        fail(begin, concat("the key ", in_quotes(key), " is not one of descr, fortran_order, shape"));
      if (accept('}')) break;
      expect(',');
    }
    const std::size_t end = skip_spaces();
    if (end != text_.size()) fail(end, "there is more after the dictionary");
    if (!descr_) fail(0, "the key 'descr' is missing");
    if (!fortran_order_) fail(0, "the key 'fortran_order' is missing");
    if (!extents_) fail(0, "the key 'shape' is missing");
    return {descr_->dtype, descr_->is_swapped, *fortran_order_, *extents_};
  }

 private:
  struct Descr {
    DType dtype;
    bool is_swapped;
  };

  [[noreturn]] void fail(std::size_t at, std::string reason) const {
    throw FileFault{position_ + at, std::move(reason)};
  }

  template <class T>
  void once(std::optional<T>& value, std::size_t at, std::string_view key, T found) {
    if (value) fail(at, concat("the key '", key, "' occurs twice"));
    value = std::move(found);
  }

  std::size_t skip_spaces() {
    while (next_ < text_.size() && is_space(text_[next_])) ++next_;
    return next_;
  }

  bool accept(char c) {
    if (skip_spaces() == text_.size() || text_[next_] != c) return false;
    ++next_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(next_, concat("expected '", c, "'"));
  }

  std::string_view parse_string() {
    const std::size_t begin = skip_spaces();
    if (begin == text_.size() || (text_[begin] != '\'' && text_[begin] != '"'))
      fail(begin, "expected a string");
    const std::size_t end = text_.find(text_[begin], begin + 1);
    if (end == std::string_view::npos) fail(begin, "a string has no end");
    next_ = end + 1;
    return text_.substr(begin + 1, end - begin - 1);
  }

  bool parse_boolean() {
    const std::size_t begin = skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(begin, word.size()) != word) continue;
      next_ = begin + word.size();
      return word == "True";
    }
    fail(begin, "expected True or False");
  }

  std::vector<std::int64_t> parse_extents() {
    std::vector<std::int64_t> extents;
    expect('(');
    while (!accept(')')) {
      extents.push_back(parse_extent());
      if (accept(')')) {
        if (extents.size() == 1) fail(next_ - 1, "a tuple of one needs a comma");
        break;
      }
      expect(',');
    }
    return extents;
  }

  std::int64_t parse_extent() {
    const std::size_t begin = skip_spaces();
    std::int64_t extent = 0;
    const auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + text_.size(), extent);
    if (error == std::errc::result_out_of_range) fail(begin, "an extent does not fit 64 bits");
    if (error != std::errc()) fail(begin, "expected an extent");
    if (extent < 0) fail(begin, "an extent is negative");
    next_ = static_cast<std::size_t>(end - text_.data());
    if (next_ < text_.size() && text_[next_] == 'L') ++next_;  // suffix in Python 2
    return extent;
  }

  Descr parse_descr() {
    const std::size_t begin = skip_spaces();
    if (begin < text_.size() && text_[begin] == '[') fail(begin, "structured elements cannot be read");
    const std::string_view descr = parse_string();
    std::string_view type = descr;
    bool is_swapped = false;
    if (!type.empty() && std::string_view("<>|=").find(type[0]) != std::string_view::npos) {
      is_swapped = type[0] == (std::endian::native == std::endian::little ? '>' : '<');
      type.remove_prefix(1);
    }
    constexpr std::pair<std::string_view, DType> kTypes[] = {
        {"f2", DType::f16}, {"f4", DType::f32}, {"f8", DType::f64}, {"i1", DType::i8},
        {"i2", DType::i16}, {"i4", DType::i32}, {"i8", DType::i64}, {"u1", DType::u8},
        {"u2", DType::u16}, {"u4", DType::u32}, {"u8", DType::u64}, {"b1", DType::boolean}};
    for (const auto& [name, dtype] : kTypes)
      if (type == name) return {dtype, is_swapped};
    fail(begin,
         concat("elements ", in_quotes(descr), " cannot be read, only f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1"));
  }

  std::string_view text_;
  std::uint64_t position_;
  std::size_t next_ = 0;
  std::optional<Descr> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> extents_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, std::uint64_t position) {
  return Parser(text, position).parse();
}

}  // namespace lockstep::detail
