// A profiler for tests: NVTX loads it by NVTX_INJECTION64_PATH. It prints what it is told to standard error.
#include <cstdint>
#include <cstdio>

#include <nvtx3/nvToolsExt.h>

namespace {

nvtxDomainHandle_t create(const char* name) {
  std::fprintf(stderr, "nvtx: domain %s\n", name);
  return reinterpret_cast<nvtxDomainHandle_t>(1);
}
void name_category(nvtxDomainHandle_t, std::uint32_t category, const char* name) {
  std::fprintf(stderr, "nvtx: category %u %s\n", category, name);
}
int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  std::fprintf(stderr, "nvtx: push %u %s %llu\n", range->category, range->message.ascii,
               static_cast<unsigned long long>(range->payload.ullValue));
  return 0;
}
int pop(nvtxDomainHandle_t) {
  std::fprintf(stderr, "nvtx: pop\n");
  return 0;
}

template <class F>
void set(NvtxFunctionTable table, unsigned size, unsigned index, F function) {
  if (index < size) *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0)
    return 0;
  set(table, size, NVTX_CBID_CORE2_DomainCreateA, create);
  set(table, size, NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, size, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
