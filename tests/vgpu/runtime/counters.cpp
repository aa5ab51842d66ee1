#include "runtime/counters.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include <cxxabi.h>

#include "runtime/state.hpp"

namespace vgpu::rt {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

std::string number(const char* name, std::uint64_t value) {
  return quoted(name) + ": " + std::to_string(value);
}

// With all of its template arguments.
std::string demangled(const std::string& name) {
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), std::free);
  return text ? text.get() : name;
}

// Members of an object, by name.
template <class Map, class Text>
std::string object(const Map& map, const Text& text) {
  std::string out;
  for (const auto& [name, value] : map) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(name)>>)
      out += (out.empty() ? "" : ", ") + quoted(std::to_string(name)) + ": " + text(value);
    else
      out += (out.empty() ? "" : ", ") + quoted(name) + ": " + text(value);
  }
  return "{" + out + "}";
}

std::string text_of(const Counts& counts) {
  const std::pair<const char*, std::uint64_t> members[] = {{"launches", counts.launches},
                                                           {"threads", counts.threads},
                                                           {"instructions", counts.instructions},
                                                           {"barriers", counts.barriers},
                                                           {"atomics", counts.atomics},
                                                           {"loads", counts.loads},
                                                           {"stores", counts.stores},
                                                           {"bytes_loaded", counts.bytes_loaded},
                                                           {"bytes_stored", counts.bytes_stored},
                                                           {"sectors_loaded", counts.sectors_loaded},
                                                           {"sectors_stored", counts.sectors_stored}};
  std::string out;
  for (const auto& [name, value] : members) out += (out.empty() ? "" : ", ") + number(name, value);
  return "{" + out + "}";
}

std::string text_of(const Counters::Calls& calls) {
  return "{" + number("calls", calls.calls) + ", " + number("waits", calls.waits) + "}";
}

std::string text_of(const Counters::Tally& tally) {
  const auto counts = [](const Counts& one) { return text_of(one); };
  const auto calls = [](const Counters::Calls& one) { return text_of(one); };
  std::string out;
  Counts total;
  for (const auto& [what, name] :
       {std::pair{Counted::kernel, "kernels"}, std::pair{Counted::copy, "copies"},
        std::pair{Counted::set, "sets"}, std::pair{Counted::library, "libraries"}}) {
    std::map<std::string, Counts> operations;
    if (const auto found = tally.operations.find(what); found != tally.operations.end())
      for (const auto& [operation, one] : found->second)
        operations[what == Counted::kernel ? demangled(operation) : operation].add(one);
    for (auto [operation, one] : operations) {
      if (what == Counted::copy || what == Counted::set) one.launches = 0;  // no kernels
      total.add(one);
    }
    out += quoted(name) + ": " + object(operations, counts) + ",\n  ";
  }
  Counters::Calls sum;
  for (const auto& [thread, names] : tally.threads)
    for (const auto& [name, one] : names) {
      sum.calls += one.calls;
      sum.waits += one.waits;
    }
  out += "\"total\": " + text_of(total) + ",\n  ";
  out += "\"threads\": " + object(tally.threads, [&](const auto& names) { return object(names, calls); });
  return "{" + out + ",\n  " + number("calls", sum.calls) + ", " + number("waits", sum.waits) + "}";
}

}  // namespace

Counters& counters() {
  static Counters& all = *new Counters;  // the program's own destructors may still call
  return all;
}

void Counters::start() {
  std::lock_guard guard(mutex_);
  set_open();
  on_ = true;
}

void Counters::set_open() {
  auto open = std::make_shared<Open>(Open{&all_});
  for (Tally* tally : stack_)
    if (std::find(open->begin(), open->end(), tally) == open->end()) open->push_back(tally);
  open_ = std::move(open);
}

void Counters::begin(const std::string& range) {
  std::lock_guard guard(mutex_);
  stack_.push_back(&ranges_[range]);
  set_open();
  on_ = true;
}

bool Counters::end() {
  std::lock_guard guard(mutex_);
  if (stack_.empty()) return false;
  stack_.pop_back();
  set_open();
  return true;
}

std::shared_ptr<const Counters::Open> Counters::open() {
  if (!are_on()) return nullptr;
  std::lock_guard guard(mutex_);
  return open_;
}

void Counters::add(const Open& open, Counted what, const std::string& name, const Counts& counts) {
  std::lock_guard guard(mutex_);
  for (Tally* tally : open) tally->operations[what][name].add(counts);
}

void Counters::add_call(std::uint64_t thread, const char* name, Calls calls) {
  if (!are_on()) return;
  std::lock_guard guard(mutex_);
  for (Tally* tally : *open_) {
    Calls& sum = tally->threads[thread][name];
    sum.calls += calls.calls;
    sum.waits += calls.waits;
  }
}

std::string Counters::json(const char* range) {
  std::lock_guard guard(mutex_);
  if (range) {
    const auto found = ranges_.find(range);
    return found == ranges_.end() ? std::string() : text_of(found->second);
  }
  return "{\"all\": " + text_of(all_) +
         ",\n \"ranges\": " + object(ranges_, [](const Tally& tally) { return "\n  " + text_of(tally); }) +
         "}\n";
}

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

void vgpu_range_begin(const char* name) { counters().begin(name); }

void vgpu_range_end() {
  if (!counters().end()) report("vgpu_range_end: no range is open; call vgpu_range_begin before");
}

char* vgpu_counts(const char* range) {
  const std::string text = counters().json(range);
  return text.empty() ? nullptr : strdup(text.c_str());
}
}
