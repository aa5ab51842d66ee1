#pragma once

#include <cstdint>

/// The binary interface of DLPack 1.1 (https://github.com/dmlc/dlpack, include/dlpack/dlpack.h), as far as
/// the library reads and writes it. Names and layouts are DLPack's. Only sources include this file: programs
/// have a dlpack.h of their own.

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };

struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;  ///< 0 for host memory.
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;    ///< Of one lane.
  std::uint16_t lanes;  ///< More than one: each element is a vector.
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;      ///< In elements. Null, before DLPack 1.2: contiguous.
  std::uint64_t byte_offset;  ///< From `data` to the first element.
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);  ///< May be null.
};

/// A later major version keeps the members before dl_tensor.
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  ///< May be null.
  std::uint64_t flags;
  DLTensor dl_tensor;
};

namespace lockstep::dlpack {

inline constexpr DLPackVersion kVersion = {1, 1};
inline constexpr std::uint64_t kReadOnlyFlag = 1;

}  // namespace lockstep::dlpack
