#include <algorithm>
#include <vector>

#include "checkpoint/safetensors_file.hpp"
#include "fuzz/expect.hpp"
#include "fuzz/fuzz_file.hpp"

/// Entries of a file can be read, and have all of its data; of those that a Tensor can hold a header can be
/// made that has the same again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::detail;
  using lockstep::test::expect;
  return lockstep::test::fuzz_file(data, size, [&](const std::filesystem::path& path) {
    const SafetensorsFile file(path, "fuzz");
    std::vector<SafetensorsEntry> held;
    std::uint64_t num_data = 0;
    for (const auto& [key, entry] : file.entries()) {
      expect(entry.begin <= entry.end && entry.end <= size, "an entry is not in its file");
      num_data += entry.end - entry.begin;
      if (!entry.unsupported.empty()) continue;
      const lockstep::Tensor tensor = file.read(entry);
      expect(static_cast<std::uint64_t>(tensor.nbytes()) == entry.end - entry.begin,
             "an entry has another number of bytes");
      if (!key.empty()) held.push_back(entry);
    }
    expect(num_data <= size, "the entries have more data than the file");
    const std::string header = make_safetensors_header(held);
    const SafetensorsEntries again = parse_safetensors_header(header, held.empty() ? 0 : held.back().end);
    expect(again.size() == held.size(), "entries get lost");
    for (const SafetensorsEntry& entry : held) {
      const SafetensorsEntry& same = again.at(entry.key);
      expect(same.dtype == entry.dtype && same.shape == entry.shape && same.begin == entry.begin &&
                 same.end == entry.end && same.unsupported.empty(),
             "an entry changes");
    }
  });
}
