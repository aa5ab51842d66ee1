#pragma once

#include <cstdint>
#include <string>

namespace lockstep::bench {

/// Divides ranks into groups by a colour that is computed from the rank.
struct Split {
  enum class Operation : std::uint8_t { none, bit_and, bit_or, modulo, divide };
  Operation operation = Operation::none;
  std::uint64_t value = 0;

  int color(int rank) const;
};

/// "AND 0x3", "MOD 2", "/4", ...: AND & OR | MOD % DIV / and a number, which
/// may begin with 0x, 0 or 0b. @throws OptionError  names `variable`.
Split parse_split(const std::string& text, const char* variable);
/// A hexadecimal number to AND ranks with. @throws OptionError  names `variable`.
Split parse_mask(const std::string& text, const char* variable);

}  // namespace lockstep::bench
