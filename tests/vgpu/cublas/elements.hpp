// Element types, scalar arguments, matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cublas/handle.hpp"
#include "nccl/arithmetic.hpp"

namespace vgpu::blas {

using nccl::Bfloat;
using nccl::E4m3;
using nccl::E5m2;
using nccl::Half;

inline std::size_t size_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2: return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_32F:
    case CUDA_R_32I: return 4;
    case CUDA_R_64F: return 8;
    default: return 0;
  }
}

template <class T, class A>
void load_as(const char* from, std::size_t count, std::size_t stride, A* to) {
  for (std::size_t index = 0; index < count; ++index)
    to[index] = static_cast<A>(nccl::Traits<T>::load(from + index * stride * sizeof(T)));
}
template <class A>
void load(cudaDataType type, const char* from, std::size_t count, std::size_t stride, A* to) {
  switch (type) {
    case CUDA_R_8I: return load_as<std::int8_t>(from, count, stride, to);
    case CUDA_R_8U: return load_as<std::uint8_t>(from, count, stride, to);
    case CUDA_R_8F_E4M3: return load_as<E4m3>(from, count, stride, to);
    case CUDA_R_8F_E5M2: return load_as<E5m2>(from, count, stride, to);
    case CUDA_R_16F: return load_as<Half>(from, count, stride, to);
    case CUDA_R_16BF: return load_as<Bfloat>(from, count, stride, to);
    case CUDA_R_32I: return load_as<std::int32_t>(from, count, stride, to);
    case CUDA_R_32F: return load_as<float>(from, count, stride, to);
    case CUDA_R_64F: return load_as<double>(from, count, stride, to);
    default: return;
  }
}
template <class T, class A>
void store_as(char* to, std::size_t count, std::size_t stride, const A* from) {
  for (std::size_t index = 0; index < count; ++index)
    nccl::Traits<T>::store(to + index * stride * sizeof(T),
                           static_cast<typename nccl::Traits<T>::Accumulator>(from[index]));
}
template <class A>
void store(cudaDataType type, char* to, std::size_t count, std::size_t stride, const A* from) {
  switch (type) {
    case CUDA_R_8I: return store_as<std::int8_t>(to, count, stride, from);
    case CUDA_R_16F: return store_as<Half>(to, count, stride, from);
    case CUDA_R_16BF: return store_as<Bfloat>(to, count, stride, from);
    case CUDA_R_32I: return store_as<std::int32_t>(to, count, stride, from);
    case CUDA_R_32F: return store_as<float>(to, count, stride, from);
    case CUDA_R_64F: return store_as<double>(to, count, stride, from);
    case CUDA_R_8F_E4M3: return store_as<E4m3>(to, count, stride, from);
    case CUDA_R_8F_E5M2: return store_as<E5m2>(to, count, stride, from);
    default: return;
  }
}

// A scalar argument: read at the call in host pointer mode, when the operation runs in device pointer mode.
struct ScalarArgument {
  bool device = false;
  const void* pointer = nullptr;
  cudaDataType type = CUDA_R_32F;
  char bytes[8] = {};
  template <class A>
  A value(RunContext& context, int on) const {
    const char* at =
        device ? static_cast<const char*>(context.access(on, pointer, size_of(type), false)) : bytes;
    A result{};
    load(type, at, 1, 1, &result);
    return result;
  }
};

inline ScalarArgument scalar(cublasHandle_t handle, const void* pointer, cudaDataType type) {
  ScalarArgument argument;
  argument.type = type;
  argument.pointer = pointer;
  argument.device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  if (!argument.device && pointer) std::memcpy(argument.bytes, pointer, size_of(type));
  return argument;
}

struct Matrix {
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0;  // as stored
};

// The matrix, or its transpose, as a dense column-major one.
template <class A>
std::vector<A> dense(RunContext& context, int device, const Matrix& matrix, bool transposed) {
  std::vector<A> result(matrix.rows * matrix.columns);
  std::vector<A> column(matrix.rows);
  const std::size_t size = size_of(matrix.type);
  for (std::int64_t j = 0; j < matrix.columns; ++j) {
    const auto* from = static_cast<const char*>(
        context.access(device, static_cast<const char*>(matrix.data) + j * matrix.leading * size,
                       matrix.rows * size, false));
    if (!transposed) {
      load(matrix.type, from, matrix.rows, 1, result.data() + j * matrix.rows);
    } else {
      load(matrix.type, from, matrix.rows, 1, column.data());
      for (std::int64_t i = 0; i < matrix.rows; ++i) result[i * matrix.columns + j] = column[i];
    }
  }
  return result;
}

}  // namespace vgpu::blas
