#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

#include <lockstep/checkpoint/checkpoint.hpp>

#include "support/temporary_directory.hpp"

namespace lockstep::test {

/// A checkpoint's file, and variables that go into it and come out.
class File {
 public:
  using Variables = std::initializer_list<std::pair<std::string, Variable>>;
  void save(Variables variables) { Checkpoint(variables).save(path()); }
  void restore(Variables variables, RestoreOptions options = {}) {
    Checkpoint(variables).restore(path(), options);
  }

 private:
  std::filesystem::path path() const { return folder_.path() / "c.safetensors"; }
  TemporaryDirectory folder_;
};

}  // namespace lockstep::test
