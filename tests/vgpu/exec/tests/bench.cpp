// Speed of a few kernels of kernels.cu; VGPU_STATS=1 prints the rates. argv: the PTX file, elements.
#include "exec/tests/harness.hpp"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  setenv("VGPU_STATS", "1", 1);
  Program p(read_text(argv[1]));
  const int n = argc > 2 ? std::atoi(argv[2]) : 4'000'000;
  auto x = p.memory.put(std::vector<float>(n, 0.5f)), y = p.memory.put(std::vector<float>(n, 1.0f));
  auto out = p.memory.allocate(64 * 4), total = p.memory.put(std::vector<double>{0});
  auto h = p.memory.put(std::vector<std::uint16_t>(n, 0x3c00)), ho = p.memory.allocate(n * 16ull);
  auto ints = p.memory.put(std::vector<int>(n, 27)), into = p.memory.allocate(n * 4ull);
  unsigned blocks = static_cast<unsigned>((n + 255) / 256);
  p.launch("saxpy", {blocks}, {256}, 2.0f, x, y, n);
  p.launch("reduce_grid", {64}, {256}, x, out, static_cast<long long>(n));
  p.launch("reduce_vec4", {64}, {128}, x, total, n / 4);
  p.launch("halves", {blocks / 4}, {256}, h, h, ho, n / 4);
  p.launch("bfloats", {blocks / 4}, {256}, h, h, ho, n / 4);
  p.launch("collatz", {blocks / 16}, {256}, ints, into, n / 16);
  auto scan = p.memory.put(std::vector<int>(n, 1));
  p.launch("block_scan", {static_cast<unsigned>(n / 512)}, {128}, scan, into);
  p.launch("block_sort", {static_cast<unsigned>(n / 512 / 16)}, {128}, scan);
  auto f = p.memory.allocate(n / 16 * 24ull * 4);
  p.launch("floats", {blocks / 16}, {256}, x, y, f, n / 16);
}
