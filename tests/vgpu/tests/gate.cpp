#include "gate.hpp"

#include <atomic>
#include <thread>

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

struct Gate::State {
  std::atomic<bool> reached{false}, open{false};
  std::thread waiter;
  static void stand(void* self) {
    State& gate = *static_cast<State*>(self);
    gate.reached = true;
    while (!gate.open) std::this_thread::yield();
  }
};

Gate::Gate(cudaStream_t stream) : state_(std::make_unique<State>()) {
  OK(cudaLaunchHostFunc(stream, State::stand, state_.get()));
  state_->waiter = std::thread([stream] { cudaStreamSynchronize(stream); });
  while (!state_->reached) std::this_thread::yield();
}

Gate::~Gate() {
  release();
  state_->waiter.join();
}

void Gate::release() { state_->open = true; }
bool Gate::is_open() const { return state_->open; }

bool waits_for(Gate& gate, cudaStream_t other, const std::function<void()>& call) {
  std::atomic<bool> returned{false};
  std::thread later([&] {
    for (int polls = 0; !returned && polls < 1000; ++polls) {
      cudaStreamQuery(other);
      std::this_thread::yield();
    }
    gate.release();
  });
  call();
  const bool open = gate.is_open();
  returned = true;
  later.join();
  return open;
}
