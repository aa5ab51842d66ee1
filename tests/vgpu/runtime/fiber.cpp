#include "runtime/fiber.hpp"

#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace vgpu::rt {
namespace {

constexpr std::size_t kStackBytes = 1 << 20, kGuardBytes = 1 << 12;

// Stacks are used again: most kernels end at once.
struct Stacks {
  std::mutex mutex;
  std::vector<char*> free;
};
Stacks& stacks() {
  static auto* all = new Stacks;
  return *all;
}

char* take_stack() {
  {
    const std::lock_guard guard(stacks().mutex);
    if (!stacks().free.empty()) {
      char* const stack = stacks().free.back();
      stacks().free.pop_back();
      return stack;
    }
  }
  void* const stack =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  mprotect(stack, kGuardBytes, PROT_NONE);
  return static_cast<char*>(stack);
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(take_stack()) {}

Fiber::~Fiber() {
  const std::lock_guard guard(stacks().mutex);
  stacks().free.push_back(stack_);
}

void Fiber::enter(unsigned high, unsigned low) {
  auto& self = *reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low);
  self.body_();
  self.ended_ = true;
  self.pause();
}

bool Fiber::resume() {
  if (!started_) {
    started_ = true;
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_;
    inside_.uc_stack.ss_size = kStackBytes;
    inside_.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&inside_, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
  }
  swapcontext(&outside_, &inside_);
  return ended_;
}

void Fiber::pause() { swapcontext(&inside_, &outside_); }

}  // namespace vgpu::rt
