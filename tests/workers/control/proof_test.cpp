#include "workers/control/proof.hpp"

#include <set>
#include <string>

#include <catch2/catch_test_macros.hpp>

using namespace lockstep::detail::control;

namespace {

std::string hexadecimal(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    const auto bits = static_cast<unsigned char>(byte);
    text += kDigits[bits >> 4];
    text += kDigits[bits & 0xf];
  }
  return text;
}

std::string counted(int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

}  // namespace

// `openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f -macopt size:16 -in FILE SIPHASH`.
TEST_CASE("SipHash gives what OpenSSL's does", "[workers][host]") {
  const std::string key = counted(16);
  CHECK(hexadecimal(siphash(key, counted(0))) == "a3817f04ba25a8e66df67214c7550293");
  CHECK(hexadecimal(siphash(key, counted(1))) == "da87c1d86b99af44347659119b22fc45");
  CHECK(hexadecimal(siphash(key, counted(7))) == "a1f1ebbed8dbc153c0b84aa61ff08239");
  CHECK(hexadecimal(siphash(key, counted(8))) == "3b62a9ba6258f5610f83e264f31497b4");
  CHECK(hexadecimal(siphash(key, counted(15))) == "5493e99933b0a8117e08ec0f97cfc3d9");
  CHECK(hexadecimal(siphash(key, counted(16))) == "6ee2a4ca67b054bbfd3315bf85230577");
  CHECK(hexadecimal(siphash(key, counted(63))) == "5150d1772f50834a503e069a973fbd7c");
}

TEST_CASE("a proof needs the token, and is one prover's for these nonces and this text", "[workers][host]") {
  const std::string a(kNonceBytes, 'a'), b(kNonceBytes, 'b');
  std::set<std::string> proofs;
  for (const std::string token : {"", "token", "tokem"})
    for (const Prover prover : {Prover::worker, Prover::leader})
      for (const std::string& leader : {a, b})
        for (const std::string& worker : {a, b})
          for (const std::string text : {"", "text", "texts"}) {
            const std::string proof = prove(token, prover, leader, worker, text);
            CHECK(proof.size() == 16);
            CHECK(proof == prove(token, prover, leader, worker, text));
            proofs.insert(proof);
          }
  CHECK(proofs.size() == std::size_t{3 * 2 * 2 * 2 * 3});
}

TEST_CASE("proofs are compared as a whole", "[workers][host]") {
  CHECK(is_same_proof("", ""));
  CHECK(is_same_proof(std::string("a\0b", 3), std::string("a\0b", 3)));
  CHECK(!is_same_proof(std::string("a\0b", 3), std::string("a\0c", 3)));
  CHECK(!is_same_proof("xb", "ab"));
  CHECK(!is_same_proof("ab", "abc"));
}

TEST_CASE("nonces and tokens are drawn anew", "[workers][host]") {
  std::set<std::string> nonces, tokens;
  for (int i = 0; i < 100; ++i) {
    nonces.insert(random_nonce());
    tokens.insert(random_token());
  }
  CHECK(nonces.size() == 100);
  CHECK(nonces.begin()->size() == kNonceBytes);
  CHECK(tokens.size() == 100);
  for (const std::string& token : tokens) {
    CHECK(token.size() == 32);
    CHECK(token.find_first_not_of("0123456789abcdef") == token.npos);
  }
}
