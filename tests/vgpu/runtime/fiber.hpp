// A function that can pause: it has a stack of its own, and goes on in whichever thread resumes it.
#pragma once

#include <functional>

#include <ucontext.h>

namespace vgpu::rt {

class Fiber {
 public:
  // The body must not throw.
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it pauses or ends. Whether it has ended.
  bool resume();
  // In the body: goes back to who resumed it.
  void pause();

 private:
  static void enter(unsigned high, unsigned low);

  std::function<void()> body_;
  char* stack_ = nullptr;
  bool started_ = false, ended_ = false;
  ucontext_t inside_{}, outside_{};
};

}  // namespace vgpu::rt
