#include "workers/control/proof.hpp"

#include <bit>
#include <cstdint>
#include <random>

namespace lockstep::detail::control {
namespace {

constexpr std::size_t kKeyBytes = 16;
constexpr std::size_t kWordBytes = 8;

std::uint64_t word_of(std::string_view bytes) {  // little-endian, of at most 8
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return word;
}

void append(std::string& bytes, std::uint64_t word) {
  for (std::size_t i = 0; i < kWordBytes; ++i) bytes.push_back(static_cast<char>(word >> (8 * i) & 0xff));
}

struct State {
  std::uint64_t v0, v1, v2, v3;

  void mix(int num_rounds) {
    for (int i = 0; i < num_rounds; ++i) {
      v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
      v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
    }
  }
  void take(std::uint64_t word) {
    v3 ^= word;
    mix(2);
    v0 ^= word;
  }
};

}  // namespace

std::string random_nonce() {
  std::random_device random;  // the processor's or the system's, not a pseudo-random sequence
  std::string bytes;
  while (bytes.size() < kNonceBytes) bytes.push_back(static_cast<char>(random()));
  return bytes;
}

std::string random_token() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string token;
  for (const char byte : random_nonce()) {
    const auto bits = static_cast<unsigned char>(byte);
    token += {kDigits[bits >> 4], kDigits[bits & 0xf]};
  }
  return token;
}

std::string siphash(std::string_view key, std::string_view text) {
  const std::uint64_t k0 = word_of(key.substr(0, kWordBytes)), k1 = word_of(key.substr(kWordBytes));
  // The constants are the paper's, and 0xee and 0xdd the reference implementation's for 128 bits.
  State state{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee, k0 ^ 0x6c7967656e657261,
              k1 ^ 0x7465646279746573};
  std::string_view rest = text;
  for (; rest.size() >= kWordBytes; rest.remove_prefix(kWordBytes))
    state.take(word_of(rest.substr(0, kWordBytes)));
  state.take(std::uint64_t{text.size()} << 56 | word_of(rest));
  std::string code;
  state.v2 ^= 0xee;
  state.mix(4);
  append(code, state.v0 ^ state.v1 ^ state.v2 ^ state.v3);
  state.v1 ^= 0xdd;
  state.mix(4);
  append(code, state.v0 ^ state.v1 ^ state.v2 ^ state.v3);
  return code;
}

std::string prove(std::string_view token, Prover prover, std::string_view leader_nonce,
                  std::string_view worker_nonce, std::string_view text) {
  const std::string key = siphash(std::string(kKeyBytes, '\0'), token);
  std::string proven(1, static_cast<char>(prover));
  proven.append(leader_nonce).append(worker_nonce).append(text);
  return siphash(key, proven);
}

bool is_same_proof(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  return difference == 0;
}

}  // namespace lockstep::detail::control
