
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
  std::swap(is_joined_, other.is_joined_);
  std::swap(failure_, other.failure_);
  return *this;
}

StartedWork::~StartedWork() {
  if (is_joined_) return;
  try {
    join();
  } catch (const Error&) {  // the next read of a result throws it
  }
}

void StartedWork::add(StreamRef communication, RecycledVector<Tensor> kept) try {
  Event end(communication.device_backend());
  end.record(communication);
  parts_.push_back({communication, std::move(end), std::move(kept)});
} catch (...) {
  try {
    communication.synchronize();  // it may be reading what is kept, and nothing else waits for it
  } catch (const Error&) {        // the device is lost, or the capture is given up
  }
  throw;
}

bool StartedWork::is_complete() const noexcept {
  bool is_complete = true;
  for (const Part& part : parts_) {
    if (failure_) break;
    try {
      is_complete = part.end.is_complete() && is_complete;
    } catch (const ContextError&) {  // in a capture no event can be asked
      is_complete = false;
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  return is_complete || failure_;
}

std::exception_ptr StartedWork::exception() const noexcept { return failure_; }

void StartedWork::synchronize() const {
  for (const Part& part : parts_) {
    rethrow_failure();
    try {
      part.end.synchronize();
    } catch (const ContextError&) {
      throw;
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  rethrow_failure();
}

void StartedWork::join() {
  for (Part& part : parts_) {
    current_stream(part.stream.device()).wait(part.end);
    part.kept.clear();
  }
  is_joined_ = true;
}

void give_to_current_stream(Tensor result) { result.set_stream(current_stream(result.device())); }

}  // namespace lockstep::detail
