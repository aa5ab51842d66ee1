#include "input/formats/compressed/compressed_file.hpp"

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/formats/compressed/inflate_source.hpp"
#include "input/formats/compressed/zstd_source.hpp"

namespace lockstep::detail {

using readers::Compression;

std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path, std::string_view what,
                                        Compression compression) {
  auto source = std::make_unique<FileSource>(std::make_shared<const InputFile>(path, what));
  switch (compression) {
    case Compression::none: break;
    case Compression::gzip: return std::make_unique<InflateSource>(std::move(source), DeflateForm::gzip);
    case Compression::zlib: return std::make_unique<InflateSource>(std::move(source), DeflateForm::zlib);
    case Compression::zstd: return std::make_unique<ZstdSource>(std::move(source), what);
  }
  return source;
}

void check_compression(std::string_view what, Compression compression) {
  LOCKSTEP_EXPECTS(compression <= Compression::zstd, InvalidArgument, what, ": compression ",
                   static_cast<int>(compression), " is none. Pass one of Compression's enumerators.");
  if (compression == Compression::zstd) ZstdSource(nullptr, what);  // throws if there is no libzstd
}

}  // namespace lockstep::detail
