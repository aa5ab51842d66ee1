#include <lockstep/error.hpp>
#include <lockstep/event.hpp>
#include <lockstep/strategy/work.hpp>

namespace lockstep::detail {

struct StartedWork::Part {
  StreamRef stream;
  Event end;
  RecycledVector<Tensor> kept;
};

StartedWork::StartedWork() noexcept = default;
StartedWork::StartedWork(StartedWork&& other) noexcept = default;

StartedWork& StartedWork::operator=(StartedWork&& other) noexcept {
  std::swap(parts_, other.parts_);
  return *this;
}

StartedWork::~StartedWork() {
  try {
    join();
  } catch (const Error&) {  // whoever reads a result is told
  }
}

void StartedWork::add(StreamRef communication, RecycledVector<Tensor> kept) {
  Event end(communication.device_backend());
  end.record(communication);
  parts_.push_back({communication, std::move(end), std::move(kept)});
}

bool StartedWork::is_complete() const {
  for (const Part& part : parts_)
    if (!part.end.is_complete()) return false;
  return true;
}

void StartedWork::synchronize() const {
  for (const Part& part : parts_) part.end.synchronize();
}

void StartedWork::join() {
  for (const Part& part : parts_) current_stream(part.stream.device()).wait(part.end);
  parts_.clear();
}

void hand_over(Tensor result) { result.set_stream(current_stream(result.device())); }

}  // namespace lockstep::detail
