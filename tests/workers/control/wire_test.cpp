#include "workers/control/wire.hpp"

#include <string>
#include <variant>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "support/matchers.hpp"

using namespace lockstep::detail::control;
using lockstep::test::says;

namespace {

std::vector<Message> one_of_each() {
  return {Hello{"0.1.0", 2, 3, 0xfedcba9876543210, 1234, "10.0.0.2:2222", "host"},
          Waiting{5000, "worker 1", {"host:2222"}},
          Refused{ErrorKind::context, "no"},
          Started{{"worker 0", "worker 1"}, {"a", ""}},
          Heartbeat{},
          Set{"key", std::string("\0value", 6)},
          Get{7, kNoLimit, "key"},
          Value{7, "value"},
          Gather{8, 1, 2, 300, "what", "own"},
          Gathered{8, {"", "b"}},
          Failed{9, ErrorKind::lost, "text"},
          Failure{1, 3, "text"},
          Lost{1, "cause"},
          Left{-1},
          StreamEnd{3, "own"},
          Erase{"prefix"},
          Challenge{"nonce"},
          Join{"nonce", "proof", "hello"},
          Welcome{"proof"},
          Invited{2, {"a:1", "", "b:2"}}};
}

std::string frame(Message message) {
  std::string bytes;
  encode(std::move(message), bytes);
  return bytes;
}

}  // namespace

TEST_CASE("every message is decoded as it was encoded", "[workers][host]") {
  std::string all;
  for (Message& message : one_of_each()) {
    INFO("kind " << message.index());
    const std::string bytes = frame(message);
    all += bytes;
    auto decoded = decode(bytes + "more");
    REQUIRE(decoded);
    CHECK(decoded->num_bytes == bytes.size());
    CHECK(decoded->message.index() == message.index());
    CHECK(frame(decoded->message) == bytes);
  }
  const auto hello = std::get<Hello>(decode(all)->message);
  CHECK(hello.version == "0.1.0");
  CHECK(hello.worker == 2);
  CHECK(hello.num_workers == 3);
  CHECK(hello.incarnation == 0xfedcba9876543210);
  CHECK(hello.pid == 1234);
  CHECK(hello.address == "10.0.0.2:2222");
  CHECK(hello.host == "host");
  std::size_t num_messages = 0;
  while (const auto decoded = decode(all)) {
    all.erase(0, decoded->num_bytes);
    ++num_messages;
  }
  CHECK(num_messages == one_of_each().size());
}

TEST_CASE("frames are the same on every machine", "[workers][host]") {
  CHECK(frame(Failure{1, 0x0203, "ab"}) == std::string("LKSP\x01\x0b\x12\0\0\0"
                                                       "\x01\0\0\0"
                                                       "\x03\x02\0\0\0\0\0\0"
                                                       "\x02\0\0\0ab",
                                                       28));
}

TEST_CASE("a part of a frame is no frame yet", "[workers][host]") {
  for (Message& message : one_of_each()) {
    const std::string bytes = frame(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) CHECK(!decode(bytes.substr(0, size)));
  }
}

TEST_CASE("bytes that are no frame are refused", "[workers][host]") {
  const auto refuses = [](const std::string& bytes, const std::string& why) {
    CHECK_THROWS_MATCHES(decode(bytes), WireError, says(why));
  };
  refuses("G", "does not begin as one");
  refuses("LKSX", "does not begin as one");
  refuses(std::string("LKSP\x01\x63\0\0\0\0", 10), "there is no message of kind 99");
  refuses(std::string("LKSP\x01\x04\x01\0\0\0\0", 11), "longer than its fields");
  refuses(std::string("LKSP\x01\x0d\x03\0\0\0\0\0\0", 13), "a field goes beyond its frame");
  refuses(std::string("LKSP\x01\x04\xff\xff\xff\xff", 10), "a frame of 4294967295 bytes is too long");
  refuses(std::string("LKSP\x02\x04\0\0\0\0", 10), "the protocol has version 2");
  refuses(std::string("LKSP\x01\x02\x05\0\0\0\x05\0\0\0\0", 15), "there is no kind of error 5");
  // A text, and a number of texts, that are not there.
  refuses(std::string("LKSP\x01\x05\x08\0\0\0\xff\xff\x0f\0\0\0\0\0", 18), "a field goes beyond its frame");
  refuses(std::string("LKSP\x01\x05\x08\0\0\0\x01\0\x10\0\0\0\0\0", 18),
          "a text of 1048577 bytes is too long");
  refuses(std::string("LKSP\x01\x03\x08\0\0\0\xff\xff\xff\xff\0\0\0\0", 18), "4294967295 texts do not fit");
}

TEST_CASE("a limit holds before the frame is there", "[workers][host]") {
  const std::string bytes = frame(Set{"key", std::string(1000, 'x')});
  CHECK_THROWS_AS(decode(bytes.substr(0, 10), {.max_bytes = 1000}), WireError);
  CHECK(!decode(bytes.substr(0, 10), {.max_bytes = bytes.size()}));
  CHECK(decode(bytes, {.max_bytes = bytes.size()}));
  CHECK_THROWS_AS(decode(bytes, {.max_bytes = bytes.size() - 1}), WireError);
  CHECK(decode(bytes, {.only_kind = kind_of<Set>()}));
  CHECK_THROWS_MATCHES(decode(bytes.substr(0, 10), {.only_kind = kind_of<Join>()}), WireError,
                       says("a message of kind 5 where one of kind 17 is due"));
}

TEST_CASE("of another version of the protocol, a hello and a refusal are understood", "[workers][host]") {
  const auto of_version_2 = [](Message message) {
    std::string bytes = frame(std::move(message));
    bytes[4] = 2;
    bytes += "more fields";
    bytes[6] = static_cast<char>(bytes.size() - 10);
    return bytes;
  };
  const auto hello = std::get<Hello>(decode(of_version_2(Hello{.version = "0.9.0", .worker = 3}))->message);
  CHECK(hello.version == "0.9.0");
  CHECK(hello.worker == -1);
  const auto refused = std::get<Refused>(decode(of_version_2(Refused{ErrorKind::timeout, "text"}))->message);
  CHECK(refused.kind == ErrorKind::timeout);
  CHECK(refused.text == "text");
}

TEST_CASE("how processes join is the same in every version of the protocol", "[workers][host]") {
  for (const Message& message :
       {Message(Challenge{"nonce"}), Message(Join{"nonce", "proof", "hello"}), Message(Welcome{"proof"})}) {
    std::string bytes = frame(message);
    bytes[4] = 2;
    const auto decoded = decode(bytes);
    REQUIRE(decoded);
    bytes[4] = 1;
    CHECK(frame(decoded->message) == bytes);
  }
}
