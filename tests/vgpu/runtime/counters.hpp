// What the program does, in all and in the ranges that it marks: operations by name, and each thread's calls.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec/counts.hpp"

namespace vgpu::rt {

enum class Counted { kernel, copy, set, library };  // of an operation

class Counters {
 public:
  struct Calls {
    std::uint64_t calls = 0;
    std::uint64_t waits = 0;  // of these, how many wait for a device, or may
  };
  struct Tally {
    std::map<Counted, std::map<std::string, Counts>> operations;    // by name; kernels by the mangled one
    std::map<std::uint64_t, std::map<std::string, Calls>> threads;  // by number and name
  };
  using Open = std::vector<Tally*>;

  // Counts from now on.
  void start();
  bool are_on() const { return on_.load(std::memory_order_relaxed); }
  // A range of all threads' work, within those that are open. Begins to count if nothing has yet.
  void begin(const std::string& range);
  // Ends the one that began last; false where none is open.
  bool end();

  // Whose an operation is that is put on its stream now: null where nothing is counted.
  std::shared_ptr<const Open> open();
  void add(const Open& open, Counted what, const std::string& name, const Counts& counts);
  void add_call(std::uint64_t thread, const char* name, Calls calls);

  // As JSON: all that is counted or, with a range's name, what is in that range; empty where there is no such
  // range.
  std::string json(const char* range);

 private:
  std::atomic<bool> on_{false};
  std::mutex mutex_;  // guards all below
  Tally all_;
  std::map<std::string, Tally> ranges_;
  std::vector<Tally*> stack_;
  std::shared_ptr<const Open> open_;  // all_, and each of the stack once
  void set_open();
};

Counters& counters();

}  // namespace vgpu::rt
