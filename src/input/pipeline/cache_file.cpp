#include "input/pipeline/cache_file.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include <zlib.h>

#include "detail/concat.hpp"
#include "input/formats/byte_order.hpp"
#include "input/state/element_bytes.hpp"

namespace lockstep::detail {

namespace {

constexpr std::string_view kWhat = "Dataset::cache";
constexpr std::string_view kMagic = "lockstep cache 2";
constexpr char kPipeline = 'P', kStructure = 'S', kElement = 'E', kEnd = 'Z';
constexpr std::uint64_t kHeadBytes = 1 + 8, kCrcBytes = 4, kEndBytes = kHeadBytes + 8 + kCrcBytes;
constexpr std::size_t kBufferBytes = 1 << 16;

std::uint32_t crc_of(std::uint32_t crc, const void* data, std::size_t size_bytes) {
  if (size_bytes == 0) return crc;
  return static_cast<std::uint32_t>(crc32_z(crc, static_cast<const Bytef*>(data), size_bytes));
}

InputFileHandle open_file(const std::filesystem::path& path) {
  auto file = std::make_shared<const InputFile>(path, kWhat);
  if (file->size_bytes() < kMagic.size() + kEndBytes)
    throw FileFault{0, concat("it has ", file->size_bytes(), " bytes, too few for a cache")};
  return file;
}

}  // namespace

CacheFileWriter::CacheFileWriter(const std::filesystem::path& path, const std::vector<std::string>& pipeline)
    : file_(path, kWhat), buffer_(kMagic) {
  write_texts(kPipeline, pipeline);
}

void CacheFileWriter::write(const FlatElement& element,
                            const std::function<std::vector<std::string>()>& structure) {
  if (num_elements_ == 0) write_texts(kStructure, structure());
  std::string head;
  append_element_head(head, element);
  write_block(kElement, std::move(head), element);
  ++num_elements_;
}

void CacheFileWriter::commit() {
  std::string head;
  append_number(head, num_elements_);
  write_block(kEnd, std::move(head), {});
  flush();
  file_.commit();
}

void CacheFileWriter::write_texts(char kind, const std::vector<std::string>& texts) {
  std::string head;
  append_number(head, static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) {
    append_number(head, static_cast<std::uint32_t>(text.size()));
    head += text;
  }
  write_block(kind, std::move(head), {});
}

void CacheFileWriter::write_block(char kind, std::string head, const FlatElement& data) {
  std::uint64_t size_bytes = head.size();
  std::uint32_t crc = crc_of(0, head.data(), head.size());
  for (const Tensor& tensor : data) {
    size_bytes += static_cast<std::uint64_t>(tensor.nbytes());
    crc = crc_of(crc, tensor.view().data, static_cast<std::size_t>(tensor.nbytes()));
  }
  append(&kind, 1);
  append(&size_bytes, sizeof(size_bytes));
  append(head.data(), head.size());
  for (const Tensor& tensor : data) append(tensor.view().data, static_cast<std::size_t>(tensor.nbytes()));
  append(&crc, sizeof(crc));
}

void CacheFileWriter::append(const void* data, std::size_t size_bytes) {
  if (buffer_.size() + size_bytes > kBufferBytes) flush();
  if (size_bytes > kBufferBytes)
    file_.write(data, size_bytes);
  else if (size_bytes > 0)
    buffer_.append(static_cast<const char*>(data), size_bytes);
}

void CacheFileWriter::flush() {
  file_.write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

/// The content of a block.
class CacheFileReader::Block final : public ByteSource {
 public:
  Block(FileSource& source, std::uint64_t size_bytes)
      : ByteSource(source.position()), source_(source), left_(size_bytes) {}

  std::uint64_t max_left() const noexcept override { return left_; }
  std::string_view whole() const override { return "its block"; }
  std::uint32_t crc() const noexcept { return crc_; }

 private:
  std::size_t do_read(std::byte* data, std::size_t size_bytes) override {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(size_bytes, left_));
    source_.read(data, size, "a block");
    crc_ = crc_of(crc_, data, size);
    left_ -= size;
    return size;
  }

  FileSource& source_;
  std::uint64_t left_;
  std::uint32_t crc_ = 0;
};

CacheFileReader::CacheFileReader(const std::filesystem::path& path)
    : file_(open_file(path)), source_(file_, 0, file_->size_bytes() - kEndBytes) {
  std::string magic(kMagic.size(), '\0');
  source_.read(magic.data(), magic.size(), "the first line");
  if (magic != kMagic) source_.fail(0, "it does not begin as caches of this version do");

  const std::uint64_t end = file_->size_bytes() - kEndBytes;
  std::array<std::uint8_t, kEndBytes> bytes;
  file_->read_at(end, bytes.data(), bytes.size());
  const auto crc = load_little_endian<std::uint32_t>(&bytes[kEndBytes - kCrcBytes]);
  if (bytes[0] != kEnd || load_little_endian<std::uint64_t>(&bytes[1]) != 8 ||
      (kComparesChecksums && crc != crc_of(0, &bytes[kHeadBytes], 8)))
    source_.fail(end, "the end of the cache is not here: the file was cut short or changed");
  num_elements_ = load_little_endian<std::uint64_t>(&bytes[kHeadBytes]);
  pipeline_ = read_texts(kPipeline, "the dataset's calls");
  if (num_elements_ > 0) structure_ = read_texts(kStructure, "the elements' structure");
}

std::vector<std::string> CacheFileReader::read_texts(char kind, std::string_view what) {
  Block block = begin_block(kind, what);
  const auto num_texts = read_number<std::uint32_t>(block, "the number of texts");
  if (num_texts > block.max_left() / sizeof(std::uint32_t)) fail("there are more texts than bytes for them");
  std::vector<std::string> texts;
  texts.reserve(num_texts);
  for (std::uint32_t i = 0; i < num_texts; ++i) {
    const auto size = read_number<std::uint32_t>(block, "the length of a text");
    block.check_left(size, "a text");
    block.read(texts.emplace_back(size, '\0').data(), size, "a text");
  }
  end_block(block);
  return texts;
}

CacheFileReader::Block CacheFileReader::begin_block(char kind, std::string_view what) {
  const std::uint64_t begin = source_.position();
  std::array<std::uint8_t, kHeadBytes> head;
  source_.read(head.data(), head.size(), what);
  if (head[0] != static_cast<std::uint8_t>(kind)) source_.fail(begin, concat("expected ", what));
  const auto size_bytes = load_little_endian<std::uint64_t>(&head[1]);
  source_.check_left(size_bytes, what);
  return {source_, size_bytes};
}

void CacheFileReader::end_block(const Block& block) {
  if (block.max_left() > 0) fail(concat(block.max_left(), " bytes of a block are not used"));
  std::array<std::uint8_t, kCrcBytes> crc;
  source_.read(crc.data(), crc.size(), "a checksum");
  if (kComparesChecksums && load_little_endian<std::uint32_t>(crc.data()) != block.crc())
    source_.fail(source_.position() - kCrcBytes, "the bytes before do not have this checksum");
}

std::optional<FlatElement> CacheFileReader::next(std::size_t num_leaves, std::span<const TensorSpec> spec) {
  if (num_read_ == num_elements_) {
    if (source_.max_left() > 0) fail(concat("there is more after the ", num_elements_, " elements"));
    return std::nullopt;
  }
  Block block = begin_block(kElement, "an element");
  FlatElement element = read_element(block, num_leaves, spec);
  end_block(block);
  ++num_read_;
  return element;
}

void CacheFileReader::transfer(PassState& state) {
  std::uint64_t position = source_.position();
  state(position, num_read_);
  if (state.is_saving()) return;
  if (position < source_.position() || num_read_ > num_elements_)
    state.fail("a cache file has no such position");
  source_.skip(position - source_.position());
}

}  // namespace lockstep::detail
