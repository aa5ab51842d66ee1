#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include <dlfcn.h>

#include <lockstep/lockstep.hpp>

/// For python_dlpack.py, which loads this library with ctypes: lends tensors to Python, and takes Python's.
namespace {

using namespace lockstep;

std::string message;  // of the last error

StreamRef stream() { return current_stream(Device()); }

/// Null, and the message, instead of an exception.
template <class F>
void* guarded(F&& f) {
  try {
    return f();
  } catch (const std::exception& error) {
    message = error.what();
    return nullptr;
  }
}

/// A function of the Python that has loaded the library.
template <class Function>
Function* python(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

/// A capsule's destructor: if nobody has taken the tensor, and renamed the capsule, it goes back.
template <class Struct>
void end(void* capsule, const char* name) {
  if (python<int(void*, const char*)>("PyCapsule_IsValid")(capsule, name) == 0) return;
  void* const managed = python<void*(void*, const char*)>("PyCapsule_GetPointer")(capsule, name);
  dlpack::Deleter()(static_cast<Struct*>(managed));
}

}  // namespace

extern "C" {

const char* error_message() { return message.c_str(); }
std::int64_t in_use_bytes() { return memory_stats(Device()).in_use_bytes; }

/// Columns 1 to 3 of [[0, 1, 2, 3], [4, 5, 6, 7]].
Tensor* make_tensor(const char* dtype, bool read_only) {
  return static_cast<Tensor*>(guarded([&] {
    const Tensor tensor = Tensor::arange(8).cast(parse_dtype(dtype)).reshape({2, 4}).narrow(1, 1, 4);
    return new Tensor(read_only ? tensor.read_only() : tensor);
  }));
}
void drop_tensor(Tensor* tensor) { delete tensor; }

void* lend_tensor(const Tensor* tensor, bool versioned) {
  return guarded([&]() -> void* {
    if (versioned) return dlpack::to(*tensor, stream()).release();
    return dlpack::to_unversioned(*tensor, stream()).release();
  });
}
void end_versioned_capsule(void* capsule) { end<DLManagedTensorVersioned>(capsule, "dltensor_versioned"); }
void end_capsule(void* capsule) { end<DLManagedTensor>(capsule, "dltensor"); }

Tensor* take_tensor(void* managed, bool versioned) {
  return static_cast<Tensor*>(guarded([&] {
    return new Tensor(
        versioned
            ? dlpack::from(dlpack::Managed(static_cast<DLManagedTensorVersioned*>(managed)), stream())
            : dlpack::from(dlpack::UnversionedManaged(static_cast<DLManagedTensor*>(managed)), stream()));
  }));
}

const void* address(const Tensor* tensor) { return tensor->view().data; }
bool is_read_only(const Tensor* tensor) { return tensor->is_read_only(); }
double element(const Tensor* tensor, std::int64_t i) {
  return tensor->cast(DType::f64).to_vector<double>().at(static_cast<std::size_t>(i));
}
void fill(Tensor* tensor, int value) { tensor->fill_(value); }

}  // extern "C"
