// What the tests share: a memory with bounds, launching, checks.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "exec/exec.hpp"

#define CHECK_THROWS_SAYING(type, statement, part) \
  CHECK_THROWS_MATCHES(statement, type,            \
                       Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring(part)))

class TestMemory : public vgpu::Memory {
 public:
  template <class T>
  std::uint64_t put(const std::vector<T>& data) {
    std::uint64_t at = allocate(data.size() * sizeof(T));
    std::memcpy(blocks_[at].data(), data.data(), data.size() * sizeof(T));
    return at;
  }
  std::uint64_t allocate(std::size_t bytes) {
    std::uint64_t at = next_;
    next_ += (bytes + 511) / 256 * 256;
    blocks_[at].assign(bytes, std::byte{0xcd});
    return at;
  }
  template <class T>
  std::vector<T> get(std::uint64_t at) {
    std::vector<T> out(blocks_[at].size() / sizeof(T));
    std::memcpy(out.data(), blocks_[at].data(), out.size() * sizeof(T));
    return out;
  }
  std::byte* bytes(std::uint64_t at) { return blocks_[at].data(); }
  void* resolve(int, std::uint64_t address, std::size_t bytes, bool, vgpu::Ordering) override {
    ++resolves;
    auto it = blocks_.upper_bound(address);
    if (it == blocks_.begin()) return nullptr;
    --it;
    std::uint64_t offset = address - it->first;
    if (offset > it->second.size() || it->second.size() - offset < bytes) return nullptr;
    return it->second.data() + offset;
  }
  std::size_t resolves = 0;

 private:
  std::map<std::uint64_t, std::vector<std::byte>> blocks_;
  std::uint64_t next_ = 0x7f00'0000'0000;
};

inline std::string read_text(const std::string& path) {
  std::ifstream f(path);
  if (!f) {
    std::printf("cannot read %s\n", path.c_str());
    std::exit(2);
  }
  std::stringstream s;
  s << f.rdbuf();
  return s.str();
}

// A module with its variables in a TestMemory.
struct Program {
  std::shared_ptr<vgpu::Module> module;
  TestMemory memory;
  std::map<std::string, std::uint64_t, std::less<>> symbols;

  explicit Program(const std::string& ptx) : module(vgpu::Module::load(ptx)) {
    for (const vgpu::Variable& v : module->variables()) symbols[v.name] = memory.put(v.initial);
    auto symbol = [this](std::string_view n) { return symbols.find(n)->second; };
    for (const vgpu::Variable& v : module->variables())
      vgpu::relocate(v, memory.bytes(symbols[v.name]), symbol);
  }
  template <class... A>
  void launch(const std::string& kernel, vgpu::Dim3 grid, vgpu::Dim3 block, A... arguments) {
    launch_with(kernel, grid, block, 0, 0, false, arguments...);
  }
  template <class... A>
  void launch_with(const std::string& kernel, vgpu::Dim3 grid, vgpu::Dim3 block, std::size_t shared,
                   std::uint64_t seed, bool cooperative, A... arguments) {
    const vgpu::KernelInfo* k = module->kernel(kernel);
    if (!k) {
      std::printf("no kernel %s\n", kernel.c_str());
      std::exit(2);
    }
    vgpu::Launch l;
    l.grid = grid;
    l.block = block;
    l.dynamic_shared_bytes = shared;
    l.seed = seed;
    l.cooperative = cooperative;
    l.parameters.resize(k->parameter_bytes);
    std::size_t i = 0;
    auto place = [&](const void* p, std::size_t n) {
      if (i >= k->parameter_sizes.size() || n != k->parameter_sizes[i]) {
        std::printf("%s: argument %zu has %zu bytes\n", kernel.c_str(), i, n);
        std::exit(2);
      }
      std::memcpy(l.parameters.data() + k->parameter_offsets[i], p, n);
      ++i;
    };
    (place(&arguments, sizeof arguments), ...);
    l.symbol = [this](std::string_view n) { return symbols.find(n)->second; };
    vgpu::execute(*module, kernel, l, memory);
  }
};
