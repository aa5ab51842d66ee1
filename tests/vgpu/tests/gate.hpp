// A stream that stands still, and whether a call waits for it. Defined in gate.cpp: cicc does not end where
// it sees how.
#pragma once

#include <functional>
#include <memory>

#include "check.hpp"

cudaStream_t make_stream();

// A stream stands still there until `release`. Its own thread waits for the stream, so that the host function
// blocks nobody else.
class Gate {
 public:
  explicit Gate(cudaStream_t stream);
  ~Gate();
  void release();
  bool is_open() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Opens the gate when the caller has had time to pass a call that does not wait. Says whether it was open
// when the call returned.
bool waits_for(Gate& gate, cudaStream_t other, const std::function<void()>& call);
