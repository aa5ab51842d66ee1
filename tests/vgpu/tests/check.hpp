// What the test programs share.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime.h>

#define EXPECT(call, wanted) CHECK((call) == (wanted))
#define OK(call) EXPECT(call, cudaSuccess)

template <class T>
std::vector<T> fetch(const T* device, std::size_t count) {
  std::vector<T> host(count);
  OK(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}

template <class T>
T* upload(const std::vector<T>& host) {
  T* device = nullptr;
  OK(cudaMalloc(&device, host.size() * sizeof(T)));
  OK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

template <class T>
bool all(const std::vector<T>& values, T wanted) {
  for (const T& value : values)
    if (!(value == wanted)) return false;
  return true;
}
