#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

/// What a rank brings to a meeting, in so few words that every rank's thread compares them by itself.
struct Fingerprint {
  std::uint64_t key = 0;  ///< Of what must be alike on all ranks, the size included; 0: no fingerprint.
  const std::byte* read = nullptr;  ///< The rank's input,
  std::byte* written = nullptr;     ///< and its output, which may be exactly the input.
  std::size_t size_bytes = 0;       ///< Of each of them.
};

/// Where a rank leaves its fingerprint for the others, and, of a short input, a copy, so that nobody waits
/// for the others to have read it. The first bytes share a cache line with the fingerprint.
class Mailbox {
 public:
  /// A longer input is read where it is: on two cores 2 KiB take 0.32 us either way, 4 KiB 0.65 us as a copy
  /// and 0.39 us without one.
  static constexpr std::size_t kMaxBytes = 2048;

  std::uint64_t key = 0;
  const std::byte* read = nullptr;
  std::byte* written = nullptr;
  std::byte message[kMaxBytes];

  /// @param brings_input  whether to copy what the fingerprint reads, at most kMaxBytes; the same on all
  /// ranks of one key.
  void put(const Fingerprint& fingerprint, bool brings_input) noexcept {
    key = fingerprint.key;
    if (key == 0) return;
    read = fingerprint.read;
    written = fingerprint.written;
    if (brings_input) copy(fingerprint.size_bytes);
  }

 private:
  void copy(std::size_t size_bytes) noexcept;
};

/// Whether all ranks have brought the key of `own`, which is one of them, and none writes what another reads
/// or writes. `mailbox_of(rank)` is a rank's.
template <class MailboxOf>
bool agree(const Fingerprint& own, int num_ranks, const MailboxOf& mailbox_of) {
  if (own.key == 0) return false;
  for (int rank = 0; rank < num_ranks; ++rank)
    if (mailbox_of(rank).key != own.key) return false;
  const auto overlap = [&](const std::byte* a, const std::byte* b) {
    return a < b + own.size_bytes && b < a + own.size_bytes;
  };
  for (int a = 0; a < num_ranks; ++a) {
    const std::byte* const written = mailbox_of(a).written;
    for (int b = 0; b < num_ranks; ++b) {
      const Mailbox& other = mailbox_of(b);
      if (a != b && (overlap(written, other.written) || overlap(written, other.read))) return false;
    }
  }
  return true;
}

}  // namespace lockstep::detail
