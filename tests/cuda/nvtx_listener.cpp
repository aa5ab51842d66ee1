#include <cstdint>
#include <cstdio>

#include <nvtx3/nvToolsExt.h>

/// A profiler, as NVTX_INJECTION64_PATH names one: prints the ranges that begin.
namespace {

int NVTX_API begin_range(const char* name) {
  std::fprintf(stderr, "nvtx: %s\n", name);
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0)
    return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(begin_range);
  return 1;
}
