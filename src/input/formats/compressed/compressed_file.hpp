#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include <lockstep/input/compression.hpp>

#include "input/formats/byte_source.hpp"

namespace lockstep::detail {

/// The bytes of a file, decompressed as they are read. @param what  the call, for messages.
/// @throws NotFound, Unsupported, FileFault
std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path, std::string_view what,
                                        readers::Compression compression);

/// @throws InvalidArgument  `compression` is none of the enumerators. @throws Unsupported  this build cannot
/// read it.
void check_compression(std::string_view what, readers::Compression compression);

}  // namespace lockstep::detail
