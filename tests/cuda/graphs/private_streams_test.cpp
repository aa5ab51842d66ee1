#include "graphs/private_streams.hpp"

#include <memory>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/cuda/interop.hpp>
#include <lockstep/lockstep.hpp>

#include "support/test_backend.hpp"

namespace lockstep::test {
namespace {

using cuda::PrivateStreams;

cudaStream_t handle(std::uintptr_t number) { return reinterpret_cast<cudaStream_t>(number); }

}  // namespace

TEST_CASE("of a private stream's captures the library knows", "[cuda]") {
  const auto streams = std::make_unique<PrivateStreams>();
  const cudaStream_t mine = handle(0x1000), other = handle(0x2000);
  CHECK(streams->last_capture(mine) != 0);
  streams->add(mine);
  CHECK(streams->last_capture(mine) == 0);
  CHECK(streams->last_capture(other) != 0);

  streams->note_capture(mine);
  const std::uint64_t first = streams->last_capture(mine);
  CHECK(first != 0);
  streams->note_capture(mine);  // another capture, while CUDA was asked about the first
  streams->note_none(mine, first);
  CHECK(streams->last_capture(mine) != 0);
  streams->note_none(mine, streams->last_capture(mine));
  CHECK(streams->last_capture(mine) == 0);

  streams->remove(mine);
  CHECK(streams->last_capture(mine) != 0);
  streams->note_capture(mine);
  streams->add(mine);
  CHECK(streams->last_capture(mine) == 0);
}

TEST_CASE("streams beyond what there is room for are asked about", "[cuda]") {
  const auto streams = std::make_unique<PrivateStreams>();
  constexpr std::uintptr_t kMany = 1200;
  int num_known = 0;
  for (std::uintptr_t k = 1; k <= kMany; ++k) streams->add(handle(k * 16 * 1024));  // all in one place
  for (std::uintptr_t k = 1; k <= kMany; ++k) num_known += streams->last_capture(handle(k * 16 * 1024)) == 0;
  CHECK(num_known > 0);
  CHECK(num_known < static_cast<int>(kMany));
}

TEST_CASE("a stream whose handle is given out may be captured by the program", "[cuda]") {
  const Stream stream(TestBackend::device(0));
  CHECK(PrivateStreams::instance().last_capture(
            reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(stream.handle()))) == 0);
  const cudaStream_t native = cuda::native_stream(stream);
  CHECK(PrivateStreams::instance().last_capture(native) != 0);
}

}  // namespace lockstep::test
