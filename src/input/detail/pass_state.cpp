#include <array>
#include <bit>
#include <limits>

#include <lockstep/input/detail/pass_state.hpp>

#include "detail/concat.hpp"
#include "input/pipeline/pipeline.hpp"
#include "input/rows/host_rows.hpp"
#include "input/state/element_bytes.hpp"

namespace lockstep::detail {

struct PassState::Bytes {
  std::optional<MemorySource> source{};  // empty: writes
  std::string written{};
  std::vector<std::shared_ptr<const RowTable>> tables{};  // owners: the passes too
  RestoreActions own_actions{};
  RestoreActions* actions = &own_actions;  // of the whole
};

PassState::PassState() : bytes_(std::make_unique<Bytes>()) {}
PassState::PassState(std::string_view bytes) : PassState() { bytes_->source.emplace(bytes); }
PassState::PassState(std::string_view bytes, PassState& whole) : PassState(bytes) {
  bytes_->actions = whole.bytes_->actions;
}
PassState::~PassState() = default;

bool PassState::is_saving() const noexcept { return !bytes_->source; }

void PassState::fail(std::string reason) const {
  throw FileFault{bytes_->source ? bytes_->source->position() : 0, std::move(reason)};
}

void PassState::when_restored(SharedFunction<void()> action) {
  bytes_->actions->push_back(std::move(action));
}

RestoreActions PassState::take_actions() noexcept { return std::exchange(*bytes_->actions, {}); }

std::string PassState::take() { return std::move(bytes_->written); }

void PassState::expect_end() const {
  if (bytes_->source->max_left() > 0) fail("there is more after the last stage's");
}

void PassState::add(std::shared_ptr<const RowTable> table) { bytes_->tables.push_back(std::move(table)); }

const std::vector<std::shared_ptr<const RowTable>>& PassState::tables() const noexcept {
  return bytes_->tables;
}

bool PassState::flag(bool value) {
  const std::uint64_t read = number(value ? 1 : 0);
  if (read > 1) fail("a yes or no is neither");
  return read == 1;
}

std::size_t PassState::length(std::size_t size) {
  const std::uint64_t read = number(size);
  if (!is_saving() && read > bytes_->source->max_left())
    fail(concat("there are to be ", read, " values, more than bytes"));
  return static_cast<std::size_t>(read);
}

// Seven bits to a byte, the lowest first; all but the last byte have the eighth bit.
std::uint64_t PassState::number(std::uint64_t value) {
  constexpr int kBits = 7;
  constexpr std::uint64_t kMore = 1 << kBits;
  if (is_saving()) {
    for (std::uint64_t left = value;; left >>= kBits) {
      const bool is_last = left < kMore;
      bytes_->written += static_cast<char>(is_last ? left : (left & (kMore - 1)) | kMore);
      if (is_last) return value;
    }
  }
  std::uint64_t read = 0;
  for (int shift = 0; shift < std::numeric_limits<std::uint64_t>::digits; shift += kBits) {
    std::uint8_t byte = 0;
    bytes_->source->read(&byte, 1, "a number");
    read |= (byte & (kMore - 1)) << shift;
    if (byte < kMore) return read;
  }
  fail("a number has too many bytes");
}

void PassState::text(std::string& value) {
  const std::size_t size = length(value.size());
  if (is_saving()) {
    bytes_->written += value;
  } else {
    value.resize(size);
    bytes_->source->read(value.data(), size, "a text");
  }
}

void PassState::element(std::vector<Tensor>& value) {
  if (!is_saving()) {
    value = read_element(*bytes_->source);
    return;
  }
  FlatElement element;
  for (const Tensor& leaf : value) element.push_back(on_host(leaf));
  append_element_head(bytes_->written, element);
  for (const Tensor& leaf : element)
    if (leaf.nbytes() > 0)
      bytes_->written.append(static_cast<const char*>(leaf.view().data),
                             static_cast<std::size_t>(leaf.nbytes()));
}

}  // namespace lockstep::detail
