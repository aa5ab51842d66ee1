#pragma once

#include <atomic>
#include <string>

#include "detail/lazy.hpp"

namespace lockstep::cuda {

/// A shared library that is loaded when one of its functions is first called, so that programs start on
/// machines that do not have it. It is never unloaded. Thread-safe.
class LoadedLibrary {
 public:
  /// The texts are static.
  struct Description {
    const char* needed_by;  ///< The beginning of messages, e.g. "matmul on GPUs needs cuBLAS".
    const char* file;       ///< "libcublas.so.13", as the loader finds it or the process has loaded it.
    const char* folder;     ///< Where else to look, after that.
    const char* advice;     ///< What to do without it.
    /// A function by which one is known that the program has already, linked, preloaded or exported: that one
    /// is used. Null: the file is.
    const char* global_function = nullptr;
    /// Is given that function, of the library that is used, and throws Unsupported where its version will not
    /// do.
    void (*check)(void* global_function) = nullptr;
  };

  constexpr explicit LoadedLibrary(const Description& description) noexcept : description_(description) {}

  /// @throws Unsupported  the library is not there, is one that will not do, or has no such function.
  void* function(const char* symbol);

 private:
  struct Handle {
    void* handle;  // dlopen's; null: what the program has
  };
  Handle load() const;

  const Description description_;
  detail::Lazy<const Handle> loaded_{"a library, which was being loaded"};
};

/// The file that has a function, for messages.
std::string file_of(void* function);

/// A function of such a library, which is called as the function itself.
template <class F>
class LoadedFunction;

template <class Result, class... Arguments>
class LoadedFunction<Result (*)(Arguments...)> {
 public:
  constexpr LoadedFunction(LoadedLibrary& library, const char* symbol) noexcept
      : library_(library), symbol_(symbol) {}

  /// @throws Unsupported  at the first call, see LoadedLibrary::function.
  Result operator()(Arguments... arguments) {
    Pointer function = function_.load(std::memory_order_acquire);
    if (function == nullptr) {
      function = reinterpret_cast<Pointer>(library_.function(symbol_));
      function_.store(function, std::memory_order_release);
    }
    return function(arguments...);
  }

 private:
  using Pointer = Result (*)(Arguments...);

  LoadedLibrary& library_;
  const char* const symbol_;
  std::atomic<Pointer> function_{nullptr};
};

}  // namespace lockstep::cuda

/// Declares a function of a library under its own name: in lockstep::cuda calls without a qualifier find it.
#define LOCKSTEP_LOADED_FUNCTION(library, name) \
  inline constinit LoadedFunction<decltype(&::name)> name { library, #name }
