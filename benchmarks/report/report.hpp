#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include "options/options.hpp"
#include "report/results.hpp"

/// The text that nccl-tests 2.19 prints, for its parsers: comment lines start with #, and a row has 13 fields
/// that at least two spaces separate. --floor appends four more, -S the timestamp, always last.
namespace lockstep::bench {

/// The header's facts about the operation.
struct Heading {
  std::string_view bus_formula;  ///< Of busbw over algbw.
  bool has_one_form = false;     ///< Both halves of the table are the same.
  std::string_view floor{};      ///< What --floor measures.
};

void write_header(std::ostream& out, const Options& options, const Heading& heading,
                  std::span<const RankInfo> ranks);
void write_row(std::ostream& out, const Options& options, const Row& row);
/// @param memory_bytes  for -M.
void write_footer(std::ostream& out, const Options& options, const Summary& summary,
                  std::int64_t memory_bytes);

/// `value` in at least `width` characters: two decimals, or as many as fit, or an exponent.
std::string fit_number(double value, int width);

/// `value` with so many decimals.
std::string fixed(double value, int decimals);

/// "1.50 MB": nccl-tests' 1024-based units.
std::string memory_text(std::int64_t bytes);

}  // namespace lockstep::bench
