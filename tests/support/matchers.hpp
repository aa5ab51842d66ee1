#pragma once

#include <exception>
#include <string>
#include <vector>

#include <catch2/matchers/catch_matchers.hpp>

namespace lockstep::test {

/// An exception whose message has all the parts: REQUIRE_THROWS_MATCHES(call, InvalidArgument, says("axis 3",
/// "rank 2")).
class Says : public Catch::Matchers::MatcherBase<std::exception> {
 public:
  explicit Says(std::vector<std::string> parts) : parts_(std::move(parts)) {}

  bool match(const std::exception& error) const override {
    const std::string message = error.what();
    for (const std::string& part : parts_) {
      if (message.find(part) == std::string::npos) return false;
    }
    return true;
  }

  std::string describe() const override {
    std::string text = "has a message with";
    for (const std::string& part : parts_) text += " \"" + part + "\"";
    return text;
  }

 private:
  std::vector<std::string> parts_;
};

template <class... Parts>
Says says(const Parts&... parts) {
  return Says({std::string(parts)...});
}

}  // namespace lockstep::test
