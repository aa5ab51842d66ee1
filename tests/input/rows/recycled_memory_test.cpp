#include "input/rows/recycled_memory.hpp"

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/memory.hpp>
#include <lockstep/stream.hpp>

using namespace lockstep;
using detail::RecycledMemory;

namespace {

std::int64_t in_use() { return memory_stats("CPU:0").in_use_bytes; }

}  // namespace

TEST_CASE("memory that is let go is given out again, once", "[input][host]") {
  const auto memory = std::make_shared<RecycledMemory>(2);
  const Stream stream("CPU:0");
  std::shared_ptr<Buffer> first = memory->take(1000, stream);
  void* const data = first->data();
  const std::shared_ptr<Buffer> second = memory->take(1000, stream);
  CHECK(second->data() != data);
  std::shared_ptr<Buffer> copy = first;
  first.reset();
  CHECK(memory->take(1000, stream)->data() != data);  // somebody has it still
  copy.reset();
  CHECK(memory->take(10, stream)->size_bytes() == 1000);
}

TEST_CASE("memory that is too small makes room for larger", "[input][host]") {
  const auto memory = std::make_shared<RecycledMemory>(2);
  const Stream stream("CPU:0");
  const std::int64_t before = in_use();
  memory->take(256, stream);
  CHECK(memory->take(4096, stream)->size_bytes() == 4096);
  CHECK(in_use() == before + 4096);
  CHECK(memory->take(256, stream)->size_bytes() == 4096);
}

TEST_CASE("no more memory is kept than was said, and none after the end", "[input][host]") {
  auto memory = std::make_shared<RecycledMemory>(1);
  const Stream stream("CPU:0");
  const std::int64_t before = in_use();
  std::shared_ptr<Buffer> a = memory->take(256, stream), b = memory->take(256, stream),
                          c = memory->take(256, stream);
  a.reset();
  b.reset();
  CHECK(in_use() == before + 512);
  memory->close();
  CHECK(in_use() == before + 256);
  memory.reset();
  c->host_bytes()[255] = std::byte{1};  // whoever has memory keeps it
  c.reset();
  CHECK(in_use() == before);
}

TEST_CASE("memory is freed where its stream is no more", "[input][host]") {
  const auto memory = std::make_shared<RecycledMemory>(2);
  const std::int64_t before = in_use();
  std::shared_ptr<Buffer> buffer;
  {
    const Stream stream("CPU:0");
    buffer = memory->take(256, stream);
  }
  buffer.reset();
  CHECK(in_use() == before);
}
