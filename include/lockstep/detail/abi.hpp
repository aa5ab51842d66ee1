#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

/// Which binary interface a program was compiled for. It stands as an ELF note in every file that includes
/// the library's headers, and costs no code; the library reads the notes of all files at its first use.
namespace lockstep::detail {

/// Counts changes with which a program must be compiled anew.
inline constexpr std::uint32_t kAbi = 1;

/// As the System V ABI lays notes out, in words of 4 bytes; more alignment would put gaps between them.
struct AbiNote {
  static constexpr std::uint32_t kHeaders = 1, kLibrary = 2;

  std::uint32_t name_size_bytes = sizeof name;
  std::uint32_t abi_size_bytes = sizeof abi;
  std::uint32_t type = kHeaders;
  char name[12] = "lockstep";
  std::uint32_t abi = kAbi;
};

#if defined(__ELF__)
alignas(4) [[gnu::section(".note.lockstep"), gnu::used]] static constexpr AbiNote kAbiOfHeaders;
#endif

}  // namespace lockstep::detail

#pragma GCC visibility pop
