#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// How the leader and a worker show each other that both have the cluster's token, which itself is not sent:
/// each draws a nonce, and proves itself with a code of both nonces whose key is the token.
namespace lockstep::detail::control {

inline constexpr std::size_t kNonceBytes = 16;

/// Bytes that nobody can guess.
std::string random_nonce();

/// A token for a cluster that was given none: 32 hexadecimal digits.
std::string random_token();

enum class Prover : char { worker = 'w', leader = 'l' };

/// What only who has the token can tell: SipHash-2-4-128 (Aumasson and Bernstein, 2012) of the prover, the
/// nonces and `text`. Without a token everybody can. @pre the nonces have kNonceBytes.
std::string prove(std::string_view token, Prover prover, std::string_view leader_nonce,
                  std::string_view worker_nonce, std::string_view text);

/// Takes equally long wherever they differ.
bool is_same_proof(std::string_view a, std::string_view b) noexcept;

/// The 16 bytes of SipHash-2-4-128. @pre the key has 16 bytes.
std::string siphash(std::string_view key, std::string_view text);

}  // namespace lockstep::detail::control
