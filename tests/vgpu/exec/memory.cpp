// Address translation, faults, and what device code asks of the host: printf and assert.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <cxxabi.h>

#include "exec/lanes.hpp"
#include "exec/machine.hpp"

namespace vgpu::ptx {

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && text ? text : name;
  std::free(text);
  return out;
}

namespace {
std::string hex(u64 v) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
  return text;
}
std::string triple(u32 x, u32 y, u32 z) {
  return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}
std::string one_line(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!space)
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  return out;
}
}  // namespace

void Warp::fault(const Inst& in, int lane, const std::string& what) const {
  const Function& f = *frames.back().program->function;
  std::string where = "kernel " + demangled(grid->kernel->name) + ", block " +
                      triple(block->id.x, block->id.y, block->id.z) + ", thread " +
                      triple(tid[0][lane], tid[1][lane], tid[2][lane]);
  if (&f != grid->kernel) where += ", in " + demangled(f.name);
  if (in.source < f.body.size()) {
    const Instruction& i = f.body[in.source];
    where += ", PTX line " + std::to_string(i.line) + ": " + one_line(i.text);
  }
  throw KernelFault(what + ": " + where);
}
void Warp::address_fault(const Inst& in, int lane, const std::string& what, u64 address) const {
  fault(in, lane, what + " at address " + hex(address));
}

void Warp::addresses(const Inst& in, u32 op, u64* out) const {
  if (in.flags & kAddress32) {
    const u32* a = this->in<u32>(op);
    for (u32 l = 0; l < kLanes; ++l) out[l] = static_cast<u32>(a[l] + static_cast<u32>(in.imm));
  } else {
    const u64* a = this->in<u64>(op);
    for (u32 l = 0; l < kLanes; ++l) out[l] = a[l] + static_cast<u64>(in.imm);
  }
}

u8* Warp::host(const Inst& in, int lane, Space space, u64 address, u32 bytes, bool write) {
  const char* doing = write ? "write" : "read";
  auto describe = [&](const char* what) {
    return std::string(what) + " " + doing + " of " + std::to_string(bytes) + " bytes";
  };
  if (space == Space::Generic) {
    switch (address >> 56) {
      case kSharedWindow >> 56: space = Space::Shared, address -= kSharedWindow; break;
      case kLocalWindow >> 56: space = Space::Local, address -= kLocalWindow; break;
      case kParamWindow >> 56: space = Space::Param, address -= kParamWindow; break;
      default: space = Space::Global;
    }
  } else if (space == Space::Shared && address >> 56 == kSharedWindow >> 56) {
    address -= kSharedWindow;  // shared::cluster addresses are generic ones truncated, or whole
  }
  if (std::has_single_bit(bytes) && bytes <= 16 && (address & (bytes - 1)))
    address_fault(in, lane, describe("misaligned"), address);
  switch (space) {
    case Space::Shared:
      if (grid->reserved_shared_at && address >= grid->reserved_shared_at &&
          address - grid->reserved_shared_at + bytes <= 1024)
        return block->shared + address;
      if (address > block->shared_bytes || block->shared_bytes - address < bytes)
        address_fault(in, lane, describe("out-of-bounds shared-memory"), address);
      return block->shared + address;
    case Space::Local: {
      u64 at = address + (in.flags & kFrameRelative ? local_frame : 0);
      if (at > local_stride || local_stride - at < bytes)
        address_fault(in, lane, describe("out-of-bounds local-memory"), at);
      return local_memory.data() + static_cast<u64>(lane) * local_stride + at;
    }
    case Space::Param:
      if (write) address_fault(in, lane, describe("kernel-parameter"), address);
      if (address > grid->parameters.size() || grid->parameters.size() - address < bytes)
        address_fault(in, lane, describe("out-of-bounds kernel-parameter"), address);
      return grid->parameters.data() + address;
    default:
      if (address >> 56 == kGridWindow >> 56 && address - kGridWindow + bytes <= sizeof grid->workspace)
        return reinterpret_cast<u8*>(grid->workspace) + (address - kGridWindow);
      if (space == Space::Const && write) address_fault(in, lane, describe("constant-memory"), address);
      if (void* p = grid->memory->resolve(grid->launch->device, address, bytes, write, in.ordering))
        return static_cast<u8*>(p);
      address_fault(in, lane, describe("invalid"), address);
  }
}

void Warp::access(const Inst& in, const u64* address, u32 mask, u32 bytes, bool write, Access& out) {
  count(in, address, mask, bytes, write);
  const int first = std::countr_zero(mask), last = 31 - std::countl_zero(mask);
  Space space = in.space;
  u64 base = address[first];
  if (space == Space::Param || (in.flags & kUniform && !(in.flags & kFrameRelative))) {
    // One address for all, mostly; parameters are few bytes, so each lane is looked at only when they differ.
    bool same = in.flags & kUniform;
    if (!same) {
      same = true;
      each_lane(mask, [&](int l) { same &= address[l] == base; });
    }
    if (same) {
      out.uniform = true;
      out.base = host(in, first, space, base, bytes, write);
      if (grid->race_check && space == Space::Shared)
        block->check_race(*this, in, address, mask, bytes, write);
      return;
    }
  }
  // How the lanes' addresses relate.
  u64 apart = 0, differ = 0, all = 0, most = 0;
  if (mask == kFull) {
    for (u64 l = 0; l < kLanes; ++l) {
      u64 a = address[l];
      apart |= a - (base + l * bytes);
      differ |= a ^ base;
      all |= a;
      most = std::max(most, a);
    }
  } else {
    each_lane(mask, [&](int l) {
      u64 a = address[l];
      apart |= a - (base + static_cast<u64>(l - first) * bytes);
      differ |= a ^ base;
      all |= a;
      most = std::max(most, a);
    });
  }
  if (space == Space::Generic) {
    u64 top = base >> 56;
    if (differ >> 56) {  // several windows at once
      each_lane(mask, [&](int l) { out.lane[l] = host(in, l, Space::Generic, address[l], bytes, write); });
      return;
    }
    u64 window = top << 56;
    if (top == kSharedWindow >> 56)
      space = Space::Shared, base -= window, most -= window;
    else if (top == 0)
      space = Space::Global;
  }
  bool aligned = !(all & (bytes - 1));
  // resolve() is asked for just the bytes that are touched: the runtime's race detector records them.
  const bool dense = !apart && std::popcount(mask) == last - first + 1;
  if (aligned && space == Space::Shared) {
    if (most < block->shared_bytes && block->shared_bytes - most >= bytes) {
      u8* shared = block->shared;
      if (grid->race_check) block->check_race(*this, in, address, mask, bytes, write);
      if (!apart) {
        out.contiguous = true;
        out.base = shared + base - static_cast<u64>(first) * bytes;
      } else {
        u64 window = address[first] - base;
        each_lane(mask, [&](int l) { out.lane[l] = shared + (address[l] - window); });
      }
      return;
    }
  } else if (aligned && (space == Space::Global || (space == Space::Const && !write)) && !(most >> 56)) {
    const int device = grid->launch->device;
    if (dense) {
      if (void* p = grid->memory->resolve(device, base, static_cast<std::size_t>(last - first + 1) * bytes,
                                          write, in.ordering)) {
        out.contiguous = true;
        out.base = static_cast<u8*>(p) - static_cast<u64>(first) * bytes;
        return;
      }
    } else if (!differ) {
      out.uniform = true;
      out.base = host(in, first, space, base, bytes, write);
      return;
    }
  } else if (aligned && space == Space::Local) {
    u64 frame = in.flags & kFrameRelative ? local_frame : 0;
    if (most + frame < local_stride && local_stride - most - frame >= bytes) {
      u8* local = local_memory.data() + frame;
      each_lane(mask, [&](int l) { out.lane[l] = local + static_cast<u64>(l) * local_stride + address[l]; });
      return;
    }
  }
  // Lane by lane: finds the one at fault.
  each_lane(mask, [&](int l) { out.lane[l] = host(in, l, in.space, address[l], bytes, write); });
}

std::string Warp::c_string(const Inst& in, int lane, u64 address) {
  std::string out;
  if (address == 0) return "(null)";
  for (;; ++address) {
    char c = static_cast<char>(*host(in, lane, Space::Generic, address, 1, false));
    if (!c || out.size() > 1 << 20) return out;
    out += c;
  }
}

int format_printf(Warp& w, const Inst& in, int lane, u64 format_at, u64 arguments) {
  std::string format = w.c_string(in, lane, format_at), out;
  int conversions = 0;
  auto argument = [&](void* to, u32 bytes) {
    arguments = (arguments + bytes - 1) / bytes * bytes;
    std::memcpy(to, w.host(in, lane, Space::Generic, arguments, bytes, false), bytes);
    arguments += bytes;
  };
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == '%') {
      out += '%', ++i;
      continue;
    }
    std::string spec = "%";
    std::size_t j = i + 1;
    auto star = [&] {
      if (j < format.size() && format[j] == '*') {
        s32 n;
        argument(&n, 4);
        spec += std::to_string(n);
        ++j;
      }
    };
    while (j < format.size() && std::strchr("-+ #0", format[j])) spec += format[j++];
    star();
    while (j < format.size() && std::isdigit(static_cast<unsigned char>(format[j]))) spec += format[j++];
    if (j < format.size() && format[j] == '.') {
      spec += format[j++];
      star();
      while (j < format.size() && std::isdigit(static_cast<unsigned char>(format[j]))) spec += format[j++];
    }
    bool wide = false;
    while (j < format.size() && std::strchr("hlLqjzt", format[j])) wide |= format[j++] != 'h';
    char kind = j < format.size() ? format[j] : 0;
    char text[512];
    if (kind && std::strchr("diouxXc", kind)) {
      if (wide && kind != 'c') {
        s64 v;
        argument(&v, 8);
        std::snprintf(text, sizeof text, (spec + "ll" + kind).c_str(), static_cast<long long>(v));
      } else {
        s32 v;
        argument(&v, 4);
        std::snprintf(text, sizeof text, (spec + kind).c_str(), v);
      }
      out += text;
    } else if (kind && std::strchr("eEfFgGaA", kind)) {
      double v;
      argument(&v, 8);
      std::snprintf(text, sizeof text, (spec + kind).c_str(), v);
      out += text;
    } else if (kind == 's') {
      u64 v;
      argument(&v, 8);
      std::string s = w.c_string(in, lane, v);
      std::vector<char> big(s.size() + 512);
      std::snprintf(big.data(), big.size(), (spec + kind).c_str(), s.c_str());
      out += big.data();
    } else if (kind == 'p') {
      u64 v;
      argument(&v, 8);
      std::snprintf(text, sizeof text, (spec + kind).c_str(), reinterpret_cast<void*>(v));
      out += text;
    } else {
      out += format.substr(i, j - i + 1);
      i = j;
      continue;
    }
    ++conversions;
    i = j;
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);
  return conversions;
}

}  // namespace vgpu::ptx
