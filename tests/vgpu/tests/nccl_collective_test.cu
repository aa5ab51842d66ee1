// NCCL's collectives, messages and graphs, on all data types.
#include <functional>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "world.hpp"

TEST_CASE("NCCL collectives") {
  World<> w;
  auto value = [](int d, std::size_t i) { return static_cast<float>(d * 10000) + static_cast<float>(i); };
  w.set(value);
  w.each([&](int d) {
    return ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]);
  });
  for (int d = 0; d < n; ++d) {
    const auto got = w.get(d);
    for (std::size_t i : {std::size_t{0}, std::size_t{17}, count - 1}) CHECK(got[i] == 60000 + 4.0f * i);
    CHECK((got[count] != got[count] || got[count] < 0));  // not written beyond
  }
  w.set(value);
  w.each([&](int d) {
    return ncclAllReduce(w.a[d], w.a[d], count, ncclFloat, ncclMax, w.comms[d], w.streams[d]);
  });
  for (int d = 0; d < n; ++d) CHECK(w.get(d, false)[5] == 30005);
  w.set(value);
  w.each([&](int d) {
    return ncclReduce(w.a[d], w.b[d], count, ncclFloat, ncclAvg, 2, w.comms[d], w.streams[d]);
  });
  CHECK(w.get(2)[7] == 15007);
  w.each([&](int d) { return ncclBroadcast(w.a[d], w.b[d], count, ncclFloat, 3, w.comms[d], w.streams[d]); });
  for (int d = 0; d < n; ++d) CHECK(w.get(d)[9] == 30009);
  w.each([&](int d) { return ncclAllGather(w.a[d], w.b[d], count, ncclFloat, w.comms[d], w.streams[d]); });
  for (int d = 0; d < n; ++d) {
    const auto got = w.get(d);
    for (int r = 0; r < n; ++r) CHECK(got[r * count + 3] == r * 10000 + 3);
  }
  w.each([&](int d) {
    return ncclReduceScatter(w.a[d], w.b[d], count, ncclFloat, ncclMin, w.comms[d], w.streams[d]);
  });
  for (int d = 0; d < n; ++d) CHECK(w.get(d)[1] == d * static_cast<int>(count) + 1);
  w.each([&](int d) { return ncclAlltoAll(w.a[d], w.b[d], count, ncclFloat, w.comms[d], w.streams[d]); });
  for (int d = 0; d < n; ++d) CHECK(w.get(d)[2 * count + 4] == 20000 + d * static_cast<int>(count) + 4);
  w.each([&](int d) { return ncclGather(w.a[d], w.b[d], count, ncclFloat, 1, w.comms[d], w.streams[d]); });
  CHECK(w.get(1)[3 * count] == 30000);
  w.each([&](int d) { return ncclScatter(w.a[d], w.b[d], count, ncclFloat, 0, w.comms[d], w.streams[d]); });
  CHECK(w.get(3)[0] == 3 * static_cast<int>(count));
  // Several in one group; kernels around them keep stream order.
  w.set([](int, std::size_t) { return 1.0f; });
  for (int d = 0; d < n; ++d) {
    OK(cudaSetDevice(d));
    add<<<16, 256, 0, w.streams[d]>>>(w.a[d], w.size, 1);
  }
  NCCL(ncclGroupStart());
  for (int d = 0; d < n; ++d) {
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]));
    NCCL(ncclAllReduce(w.b[d], w.b[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]));
    NCCL(ncclGroupEnd());
  }
  NCCL(ncclGroupEnd());
  for (int d = 0; d < n; ++d) {
    OK(cudaSetDevice(d));
    add<<<16, 256, 0, w.streams[d]>>>(w.b[d], count, 0.5f);
  }
  for (int d = 0; d < n; ++d) CHECK(w.get(d)[count - 1] == 32.5f);
  int ranks = 0, rank = 0, device = 0, version = 0;
  NCCL(ncclCommCount(w.comms[2], &ranks));
  NCCL(ncclCommUserRank(w.comms[2], &rank));
  NCCL(ncclCommCuDevice(w.comms[2], &device));
  NCCL(ncclGetVersion(&version));
  CHECK((ranks == 4 && rank == 2 && device == 2 && version == NCCL_VERSION_CODE));
}

template <class T, class Make>
void one_type(ncclDataType_t type, Make make, double sum, double average) {
  World<T> w;
  w.set([&](int d, std::size_t i) { return make(static_cast<float>(d + 1) + (i % 2 ? 0.5f : 0.0f)); });
  w.each(
      [&](int d) { return ncclAllReduce(w.a[d], w.b[d], count, type, ncclSum, w.comms[d], w.streams[d]); });
  CHECK(static_cast<double>(static_cast<float>(w.get(1)[2])) == sum);
  w.each(
      [&](int d) { return ncclAllReduce(w.a[d], w.b[d], count, type, ncclAvg, w.comms[d], w.streams[d]); });
  CHECK(static_cast<double>(static_cast<float>(w.get(3)[0])) == average);
}

TEST_CASE("NCCL types and pre-multiplied sums") {
  auto cast = [](auto example) { return [](float v) { return static_cast<decltype(example)>(v); }; };
  one_type<signed char>(ncclInt8, cast(static_cast<signed char>(0)), 10, 2);
  one_type<unsigned char>(ncclUint8, cast(static_cast<unsigned char>(0)), 10, 2);
  one_type<int>(ncclInt32, cast(0), 10, 2);
  one_type<unsigned>(ncclUint32, cast(0u), 10, 2);
  one_type<long long>(ncclInt64, cast(0ll), 10, 2);
  one_type<unsigned long long>(ncclUint64, cast(0ull), 10, 2);
  one_type<float>(ncclFloat32, cast(0.0f), 10, 2.5);
  one_type<double>(ncclFloat64, cast(0.0), 10, 2.5);
  one_type<__half>(
      ncclFloat16, [](float v) { return __float2half(v); }, 10, 2.5);
  one_type<__nv_bfloat16>(
      ncclBfloat16, [](float v) { return __float2bfloat16(v); }, 10, 2.5);
  one_type<__nv_fp8_e4m3>(
      ncclFloat8e4m3, [](float v) { return __nv_fp8_e4m3(v); }, 10, 2.5);
  one_type<__nv_fp8_e5m2>(
      ncclFloat8e5m2, [](float v) { return __nv_fp8_e5m2(v); }, 10, 2.5);
  // Pre-multiplied sums, with scalars on the host and on the devices.
  World<> w;
  w.set([](int d, std::size_t) { return d + 1.0f; });
  ncclRedOp_t ops[n];
  float* scalars[n];
  for (int d = 0; d < n; ++d) {
    float factor = static_cast<float>(d);
    NCCL(ncclRedOpCreatePreMulSum(&ops[d], &factor, ncclFloat, ncclScalarHostImmediate, w.comms[d]));
  }
  w.each([&](int d) {
    return ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ops[d], w.comms[d], w.streams[d]);
  });
  CHECK(w.get(0)[0] == 2 + 6 + 12);
  for (int d = 0; d < n; ++d) {
    NCCL(ncclRedOpDestroy(ops[d], w.comms[d]));
    EXPECT(ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ops[d], w.comms[d], w.streams[d]),
           ncclInvalidArgument);
    OK(cudaSetDevice(d));
    scalars[d] = upload<float>({0.5f});
    NCCL(ncclRedOpCreatePreMulSum(&ops[d], scalars[d], ncclFloat, ncclScalarDevice, w.comms[d]));
  }
  w.each([&](int d) {
    return ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ops[d], w.comms[d], w.streams[d]);
  });
  CHECK(w.get(0)[0] == 5);
  for (int d = 0; d < n; ++d) OK(cudaFree(scalars[d]));
}

TEST_CASE("NCCL sends and receives") {
  World<> w;
  w.set([](int d, std::size_t i) { return static_cast<float>(d * 10000) + static_cast<float>(i); });
  // A ring, and each rank to itself, in one group.
  NCCL(ncclGroupStart());
  for (int d = 0; d < n; ++d) {
    NCCL(ncclSend(w.a[d], count, ncclFloat, (d + 1) % n, w.comms[d], w.streams[d]));
    NCCL(ncclRecv(w.b[d], count, ncclFloat, (d + n - 1) % n, w.comms[d], w.streams[d]));
    NCCL(ncclSend(w.a[d], 10, ncclFloat, d, w.comms[d], w.streams[d]));
    NCCL(ncclRecv(w.b[d] + count, 10, ncclFloat, d, w.comms[d], w.streams[d]));
  }
  NCCL(ncclGroupEnd());
  for (int d = 0; d < n; ++d) {
    const auto got = w.get(d);
    CHECK((got[5] == (d + n - 1) % n * 10000 + 5 && got[count + 9] == d * 10000 + 9));
  }
  EXPECT(ncclSend(w.a[0], count, ncclFloat, n, w.comms[0], w.streams[0]), ncclInvalidArgument);
  EXPECT(ncclSend(w.a[0], count, ncclFloat, 0, w.comms[0], w.streams[0]), ncclInvalidUsage);
}

TEST_CASE("NCCL in graphs") {
  World<> w;
  w.set([](int d, std::size_t) { return d + 1.0f; });
  for (int d = 0; d < n; ++d) OK((cudaSetDevice(d), cudaStreamSynchronize(w.streams[d])));
  // One graph over four devices: fork from device 0's stream, all-reduce, join.
  cudaEvent_t fork, join[n];
  OK(cudaSetDevice(0));
  OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  OK(cudaStreamBeginCapture(w.streams[0], cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(fork, w.streams[0]));
  for (int d = 1; d < n; ++d) OK(cudaStreamWaitEvent(w.streams[d], fork, 0));
  for (int d = 0; d < n; ++d) {
    OK(cudaSetDevice(d));
    add<<<16, 256, 0, w.streams[d]>>>(w.a[d], count, 1);
  }
  w.each([&](int d) {
    return ncclAllReduce(w.a[d], w.a[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]);
  });
  for (int d = 1; d < n; ++d) {
    OK(cudaSetDevice(d));
    OK(cudaEventCreateWithFlags(&join[d], cudaEventDisableTiming));
    OK(cudaEventRecord(join[d], w.streams[d]));
    OK(cudaStreamWaitEvent(w.streams[0], join[d], 0));
  }
  OK(cudaSetDevice(0));
  cudaGraph_t captured;
  OK(cudaStreamEndCapture(w.streams[0], &captured));
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, captured, 0));
  OK(cudaGraphLaunch(exec, w.streams[0]));
  OK(cudaStreamSynchronize(w.streams[0]));
  CHECK(w.get(3, false)[0] == 14);
  OK(cudaGraphLaunch(exec, w.streams[0]));
  OK(cudaStreamSynchronize(w.streams[0]));
  CHECK(w.get(2, false)[0] == 60);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(captured));
  // A graph per device, mixed with direct calls.
  cudaGraphExec_t execs[n];
  for (int d = 0; d < n; ++d) {
    OK(cudaSetDevice(d));
    OK(cudaStreamBeginCapture(w.streams[d], cudaStreamCaptureModeThreadLocal));
  }
  w.each([&](int d) {
    return ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ncclMax, w.comms[d], w.streams[d]);
  });
  for (int d = 0; d < n; ++d) {
    OK(cudaSetDevice(d));
    OK(cudaStreamEndCapture(w.streams[d], &captured));
    OK(cudaGraphInstantiate(&execs[d], captured, 0));
    OK(cudaGraphDestroy(captured));
  }
  w.set([](int d, std::size_t) { return d + 1.0f; });
  for (int d = 0; d < n; ++d) OK((cudaSetDevice(d), cudaGraphLaunch(execs[d], w.streams[d])));
  w.each([&](int d) {
    return ncclAllReduce(w.b[d], w.b[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]);
  });
  for (int d = 0; d < n; ++d) CHECK(w.get(d)[0] == 16);
  for (int d = 0; d < n; ++d) OK(cudaGraphExecDestroy(execs[d]));
  OK(cudaEventDestroy(fork));
  for (int d = 1; d < n; ++d) OK(cudaEventDestroy(join[d]));
}
