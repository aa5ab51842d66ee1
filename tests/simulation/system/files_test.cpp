#include "simulation/system/files.hpp"

#include <cstdint>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/error.hpp>

#include "detail/atomic_file.hpp"
#include "simulation/fork.hpp"
#include "simulation/start_process.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using namespace lockstep::simulation;
using Catch::Matchers::ContainsSubstring;

namespace {

void replace(const std::filesystem::path& path, const std::string& bytes) {
  detail::AtomicFile file(path, "the test");
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace

TEST_CASE("a file is the old or the new one whenever its writer is killed", "[simulation]") {
  int num_new = 0;
  const std::string old_bytes(1000, 'o'), new_bytes(2000, 'n');
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const test::TemporaryDirectory folder;
    const Outcome outcome = simulate(seed, [&](System& system, Network&) {
      const auto path = folder / "file";
      await_end(system, start_process(system, "10.0.0.1", [&] { replace(path, old_bytes); }), kSecond);
      Process& writer = start_process(system, "10.0.0.1", [&] { replace(path, new_bytes); });
      system.sleep_until(system.now() + system.random().between(0, 12 * kMillisecond));
      system.kill(writer);
      detail::remove_abandoned_files(folder.path());
      return test::read_bytes(path);
    });
    CHECK(outcome.failure == "");
    CHECK((outcome.result == old_bytes || outcome.result == new_bytes));
    CHECK(folder.names() == std::set<std::string>{"file"});
    num_new += outcome.result == new_bytes ? 1 : 0;
  }
  CHECK(num_new > 0);
  CHECK(num_new < 60);
}

TEST_CASE("a full disk is an error of the writer, and the old file stays", "[simulation]") {
  const test::TemporaryDirectory folder;
  const Outcome outcome = simulate(1, [&](System& system, Network&) {
    std::string text;
    Process& writer = start_process(system, "10.0.0.1", [&] {
      replace(folder / "file", "old");
      system.process().has_full_disk = true;
      try {
        replace(folder / "file", "new");
      } catch (const Error& error) {
        text = error.what();
      }
    });
    await_end(system, writer, kSecond);
    return text;
  });
  CHECK(outcome.failure == "");
  CHECK_THAT(outcome.result, ContainsSubstring("cannot be written: No space left on device"));
  CHECK(test::read_bytes(folder / "file") == "old");
  CHECK(folder.names() == std::set<std::string>{"file"});
}
