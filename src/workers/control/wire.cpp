#include "workers/control/wire.hpp"

#include <concepts>
#include <string_view>
#include <type_traits>
#include <utility>

#include "detail/concat.hpp"

namespace lockstep::detail::control {
namespace {

constexpr std::string_view kMagic = "LKSP";
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 10;  // magic, version, kind, size of the fields
constexpr std::size_t kSizeOffset = 6;

class Writer {
 public:
  explicit Writer(std::string& bytes) : bytes_(bytes) {}

  template <std::integral T>
  void operator()(T value) {
    const auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<char>(bits >> (8 * i) & 0xff));
  }
  void operator()(ErrorKind kind) { (*this)(static_cast<std::uint8_t>(kind)); }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  void operator()(const std::vector<std::string>& texts) {
    (*this)(static_cast<std::uint32_t>(texts.size()));
    for (const std::string& text : texts) (*this)(text);
  }

 private:
  std::string& bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <std::integral T>
  void operator()(T& value) {
    const std::string_view taken = take(sizeof(T));
    std::make_unsigned_t<T> bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bits |= static_cast<std::make_unsigned_t<T>>(
          static_cast<std::make_unsigned_t<T>>(static_cast<unsigned char>(taken[i])) << (8 * i));
    value = static_cast<T>(bits);
  }
  void operator()(ErrorKind& kind) {
    std::uint8_t number = 0;
    (*this)(number);
    if (number >= kNumErrorKinds) throw WireError(concat("there is no kind of error ", int{number}));
    kind = static_cast<ErrorKind>(number);
  }
  void operator()(std::string& text) {
    std::uint32_t size = 0;
    (*this)(size);
    if (size > kMaxTextBytes) throw WireError(concat("a text of ", size, " bytes is too long"));
    text = take(size);
  }
  void operator()(std::vector<std::string>& texts) {
    std::uint32_t count = 0;
    (*this)(count);
    // Each has at least its size: a count is believed only as far as there are bytes.
    if (count > bytes_.size() / sizeof(std::uint32_t)) throw WireError(concat(count, " texts do not fit"));
    texts.resize(count);
    for (std::string& text : texts) (*this)(text);
  }

  bool is_at_end() const noexcept { return bytes_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) throw WireError("a field goes beyond its frame");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
};

template <std::size_t kind = 0>
Message make_message(std::size_t number) {
  if constexpr (kind < std::variant_size_v<Message>) {
    return number == kind ? Message(std::in_place_index<kind>) : make_message<kind + 1>(number);
  } else {
    throw WireError(concat("there is no message of kind ", number));
  }
}

void read_fields(Message& message, Reader& reader) {
  std::visit(
      [&](auto& fields) { std::apply([&](auto&... field) { (reader(field), ...); }, fields.fields()); },
      message);
  if (!reader.is_at_end()) throw WireError("a frame is longer than its fields");
}

/// Of another version only what refuses it can be understood.
void read_other_version(Message& message, Reader& reader, std::uint8_t version) {
  if (Hello* const hello = std::get_if<Hello>(&message)) {
    reader(hello->version);
  } else if (Refused* const refused = std::get_if<Refused>(&message)) {
    reader(refused->kind);
    reader(refused->text);
  } else if (std::holds_alternative<Challenge>(message) || std::holds_alternative<Join>(message) ||
             std::holds_alternative<Welcome>(message)) {
    read_fields(message, reader);
  } else {
    throw WireError(concat("the protocol has version ", int{version}));
  }
}

}  // namespace

void encode(Message message, std::string& bytes) {
  const std::size_t begin = bytes.size();
  bytes += kMagic;
  Writer writer(bytes);
  writer(kVersion);
  writer(static_cast<std::uint8_t>(message.index()));
  writer(std::uint32_t{0});
  std::visit(
      [&](auto& fields) { std::apply([&](auto&... field) { (writer(field), ...); }, fields.fields()); },
      message);
  std::string size;
  Writer write_size(size);
  write_size(static_cast<std::uint32_t>(bytes.size() - begin - kHeaderBytes));
  bytes.replace(begin + kSizeOffset, size.size(), size);
}

std::optional<Decoded> decode(std::string_view bytes, const FrameLimits& limits) {
  const std::string_view magic = bytes.substr(0, kMagic.size());
  if (magic != kMagic.substr(0, magic.size())) throw WireError("a frame does not begin as one");
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  Reader header(bytes.substr(kMagic.size(), kHeaderBytes - kMagic.size()));
  std::uint8_t version = 0, kind = 0;
  std::uint32_t size = 0;
  header(version);
  header(kind);
  header(size);
  if (limits.only_kind && kind != *limits.only_kind)
    throw WireError(
        concat("a message of kind ", int{kind}, " where one of kind ", *limits.only_kind, " is due"));
  Message message = make_message(kind);
  if (size > limits.max_bytes - kHeaderBytes)
    throw WireError(concat("a frame of ", size, " bytes is too long"));
  if (bytes.size() - kHeaderBytes < size) return std::nullopt;
  Reader reader(bytes.substr(kHeaderBytes, size));
  if (version == kVersion) {
    read_fields(message, reader);
  } else {
    read_other_version(message, reader, version);
  }
  return Decoded{std::move(message), kHeaderBytes + size};
}

}  // namespace lockstep::detail::control
