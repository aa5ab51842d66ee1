// Runs warps, blocks and grids.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "exec/decode.hpp"
#include "exec/lanes.hpp"

namespace vgpu {

using namespace ptx;

namespace ptx {

namespace {
u64 setting(const char* name, u64 otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 0) : otherwise;
}
constexpr u32 kSpinLimit = 64;           // polls after which a warp lets others run
constexpr u32 kLocalLimit = 512 * 1024;  // bytes of local memory per thread
u64 mixed(u64 x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}
}  // namespace

// ---------------------------------------------------------------- grid

u64 Grid::symbol(const std::string& name) const {
  if (name.empty()) return dynamic_shared_at;
  if (!launch->symbol) throw KernelFault("no address is known for variable " + name);
  return launch->symbol(name);
}

const Program& Grid::enter(const Function& function, const u8*& constants) {
  auto& known = programs[function.index];
  if (!known.first) {
    const Program& p = module->program(function);
    known.first = &p;
    known.second = p.constants.data();
    if (!p.patches.empty()) {
      std::vector<u8>& copy = patched.emplace_back(p.constants);
      for (const ConstantPatch& patch : p.patches) {
        u64 v = symbol(patch.symbol) + patch.addend;
        for (u32 l = 0; l < kLanes; ++l) {
          if (patch.wide)
            std::memcpy(&copy[patch.offset + 8 * l], &v, 8);
          else
            std::memcpy(&copy[patch.offset + 4 * l], &v, 4);
        }
      }
      known.second = copy.data();
    }
  }
  constants = known.second;
  return *known.first;
}

// ---------------------------------------------------------------- warp

void Warp::reserve_local(u32 bytes) {
  if (bytes <= local_stride) return;
  u32 stride = std::max(bytes, std::min(2 * local_stride, kLocalLimit));
  stride = (stride + 15) / 16 * 16;
  Buffer fresh;
  fresh.grow(u64{stride} * kLanes);
  std::memset(fresh.data(), 0xff, u64{stride} * kLanes);
  for (u32 l = 0; l < kLanes; ++l)
    if (local_stride)
      std::memcpy(fresh.data() + u64{l} * stride, local_memory.data() + u64{l} * local_stride, local_stride);
  local_memory = std::move(fresh);
  local_stride = stride;
}

void Warp::use_frame() {
  Frame& f = frames.back();
  base[0] = register_file.data() + f.registers;
  const u8* constants;
  grid->enter(*f.program->function, constants);
  base[1] = const_cast<u8*>(constants);
  predicates = predicate_file.data() + f.predicates;
  local_frame = f.local;
}

void Warp::push_frame(const Function& callee, const Inst* call, u32 mask) {
  const u8* constants;
  const Program& p = grid->enter(callee, constants);
  Frame f{&p, 0, 0, 0, static_cast<u32>(stack.size()), call, mask};
  if (!frames.empty()) {
    const Frame& c = frames.back();
    f.registers = (c.registers + c.program->register_bytes + 63) / 64 * 64;
    f.predicates = c.predicates + c.program->predicates;
    f.local = (c.local + c.program->function->frame_bytes + 15) / 16 * 16;
  }
  u64 local_top = u64{f.local} + callee.frame_bytes;
  if (local_top > kLocalLimit || frames.size() > 10000) {
    if (!call) throw KernelFault("kernel " + demangled(callee.name) + " needs too much local memory");
    fault(*call, std::countr_zero(mask), "stack overflow");
  }
  reserve_local(static_cast<u32>(local_top));
  std::size_t registers = f.registers + p.register_bytes;
  if (registers > register_file.size()) register_file.grow(std::max(registers, 2 * register_file.size()));
  if (predicate_file.size() < f.predicates + p.predicates) predicate_file.resize(f.predicates + p.predicates);
  std::fill_n(predicate_file.begin() + f.predicates, p.predicates, kFull);
  frames.push_back(f);
  stack.push_back({0, kNone, mask});
  use_frame();
  for (std::size_t i = 0; i < p.poison.size(); i += 2)
    std::memset(base[0] + p.poison[i], 0xff, p.poison[i + 1]);
}

void Warp::pop_frame() {
  Frame f = frames.back();
  frames.pop_back();
  if (frames.empty()) return;
  use_frame();
  // The callee's frame still lies above: fetch its results.
  const Extra& x = *f.call->extra;
  const Function& callee = *f.program->function;
  for (std::size_t i = 0; i < x.results.size() && i < callee.results.size(); ++i) {
    const LocalVariable& from = callee.variables[callee.results[i]];
    u32 bytes = std::min(from.bytes, x.result_bytes[i]);
    each_lane(f.mask & alive, [&](int l) {
      u8* lane = local_memory.data() + u64{local_stride} * static_cast<u32>(l);
      std::memcpy(lane + local_frame + x.results[i], lane + f.local + from.offset, bytes);
    });
  }
}

void Warp::start(Block& b, u32 warp_index) {
  const bool fresh = grid != b.grid;  // a warp is used for many blocks of one launch
  block = &b;
  grid = b.grid;
  index = warp_index;
  frames.clear();
  stack.clear();
  at_barrier = nullptr;
  spins = 0;
  yields = waits = 0;
  const Dim3& d = grid->launch->block;
  const u32 first = warp_index * kLanes, threads = static_cast<u32>(d.count());
  alive = threads - first >= kLanes ? kFull : (1u << (threads - first)) - 1;
  for (u32 l = 0; fresh && l < kLanes; ++l) {
    u32 t = first + l;
    tid[0][l] = t % d.x;
    tid[1][l] = t / d.x % d.y;
    tid[2][l] = t / d.x / d.y;
  }
  if (local_stride) std::memset(local_memory.data(), 0xff, u64{local_stride} * kLanes);
  push_frame(*grid->kernel, nullptr, alive);
}

// Takes lanes that exited or returned out of the entries from `first` on.
void Warp::lanes_gone(u32 mask, std::size_t first) {
  for (std::size_t i = first; i < stack.size(); ++i) stack[i].mask &= ~mask;
}

// Splits the current path. The lanes meet again at the branch's immediate post-dominator.
void Warp::diverge(const Inst& in, u32 taken, u32 target, u32 fall_through) {
  SimtEntry& top = stack.back();
  const u32 r = in.reconverge, all = top.mask, rest = all & ~taken;
  if (r != kNone && r != top.rpc)
    top.pc = r;
  else
    stack.pop_back();
  bool flip = grid->launch->seed && (mixed(grid->launch->seed ^ in.source) & 1);
  auto push = [&](u32 pc, u32 mask) {
    if (pc != r) stack.push_back({pc, r, mask});
  };
  if (flip) {
    push(fall_through, rest);
    push(target, taken);
  } else {
    push(target, taken);
    push(fall_through, rest);
  }
}

bool Warp::give_way() {
  const std::size_t first = frames.back().first_entry;
  SimtEntry top = stack.back();
  const std::size_t at = stack.size() - 1;
  // The parent holds these lanes too, and waits for them at their reconvergence point.
  std::size_t parent = at;
  for (std::size_t i = at; i-- > first;)
    if (stack[i].mask & top.mask) {
      parent = i;
      break;
    }
  if (parent == at) {  // outermost: behind the other outermost paths
    if (at == first) return false;
    stack.pop_back();
    stack.insert(stack.begin() + static_cast<std::ptrdiff_t>(first), top);
    return true;
  }
  bool alone = parent + 1 == at && !(stack[parent].mask & ~top.mask);
  stack.pop_back();
  stack[parent].mask &= ~top.mask;
  top.rpc = stack[parent].rpc;
  if (alone) {  // the parent has no other lanes: it is this path that goes on
    stack[parent] = top;
    return parent != first ? give_way() : false;
  }
  stack.insert(stack.begin() + static_cast<std::ptrdiff_t>(parent), top);
  return true;
}

// Joins the current path with one that is parked at the same instruction.
bool Warp::join_parked() {
  const std::size_t first = frames.back().first_entry;
  SimtEntry& top = stack.back();
  for (std::size_t i = first; i + 1 < stack.size(); ++i) {
    SimtEntry& e = stack[i];
    if (e.state == SimtEntry::Parked && e.pc == top.pc && e.rpc == top.rpc && !(e.mask & top.mask)) {
      top.mask |= e.mask;
      stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
  }
  return false;
}

// Whether the lanes all wait at some bar.warp.sync of this function; then they may pass it.
bool Warp::all_at_warp_barriers(u32 lanes) {
  const std::size_t first = frames.back().first_entry;
  auto waits_there = [&](const SimtEntry& e) {
    const Inst& i = frames.back().program->code[e.pc];
    return e.state == SimtEntry::Parked && i.kind == Kind::WarpSync && i.op[4] == kNone;
  };
  u32 found = 0;
  for (std::size_t i = first; i + 1 < stack.size(); ++i)
    if (waits_there(stack[i])) found |= stack[i].mask;
  if (lanes & ~found) return false;
  for (std::size_t i = first; i + 1 < stack.size(); ++i)
    if (waits_there(stack[i]) && (stack[i].mask & lanes)) stack[i].state = SimtEntry::Released;
  return true;
}

// The current instruction waits for lanes that are elsewhere. True when another path is to run now.
bool Warp::await_lanes() {
  if (join_parked()) {
    waits = 0;
    return true;
  }
  if (++waits > 4 * kLanes) return false;
  stack.back().state = SimtEntry::Parked;
  return give_way();
}

bool Warp::built_in(const Inst& in, const Function& callee, u32 mask) {
  const Extra& x = *in.extra;
  auto argument = [&](int l, std::size_t i) {
    u64 v = 0;
    if (i < x.arguments.size())
      std::memcpy(&v, frame_pointer(l, x.arguments[i]), std::min(8u, x.argument_bytes[i]));
    return v;
  };
  auto result = [&](int l, u64 v) {
    if (!x.results.empty()) std::memcpy(frame_pointer(l, x.results[0]), &v, std::min(8u, x.result_bytes[0]));
  };
  if (callee.name == "vprintf") {
    each_lane(mask, [&](int l) {
      result(l, static_cast<u64>(format_printf(*this, in, l, argument(l, 0), argument(l, 1))));
    });
    return true;
  }
  if (callee.name == "__assertfail") {
    int l = std::countr_zero(mask);
    std::string message = c_string(in, l, argument(l, 0)), file = c_string(in, l, argument(l, 1));
    std::string function = c_string(in, l, argument(l, 3));
    fault(in, l,
          "device-side assert: " + file + ":" + std::to_string(static_cast<u32>(argument(l, 2))) + ": " +
              function + ": Assertion `" + message + "` failed");
  }
  return false;
}

Warp::Stop Warp::run(u64& fuel) {
  spins = 0;
  const Inst* code;
  u32 pc, rpc;
  auto reload = [&] {  // takes the top entry as the current path; false when the warp is done
    for (;;) {
      if (frames.empty()) return false;
      std::size_t first = frames.back().first_entry;
      if (stack.size() == first) {
        pop_frame();
        continue;
      }
      SimtEntry& top = stack.back();
      if (top.mask == 0 || top.pc == top.rpc) {
        stack.pop_back();
        continue;
      }
      pc = top.pc, rpc = top.rpc, active = top.mask;
      code = frames.back().program->code.data();
      return true;
    }
  };
  auto save = [&] { stack.back().pc = pc; };
  // Polls in vain: others are to run. After some times these may be other lanes of this warp, as independent
  // thread scheduling would let them.
  auto polled = [&] {
    waits = 0;  // lanes that wait for these wait for what these poll for
    if (++yields >= 16) give_way();
    return Stop::Yield;
  };
  if (!reload()) return Stop::Done;
  for (;;) {
    const Inst& in = code[pc];
    u32 m = active;
    if (in.guard != kNone) m &= pred(in.guard);
    if (--fuel == 0) {
      fuel = 1;  // stop before this instruction
      save();
      return Stop::Fuel;
    }
    switch (in.kind) {
      case Kind::Plain:
        if (m) in.fn(*this, in, m);
        ++pc;
        break;
      case Kind::Nop: ++pc; break;
      case Kind::Branch:
        if (m == active) {
          pc = in.target;
          if (spins > kSpinLimit) {
            save();
            return polled();
          }
        } else if (m == 0) {
          ++pc;
        } else {
          save();
          diverge(in, m, in.target, pc + 1);
          if (!reload()) return Stop::Done;
          if (spins > kSpinLimit) return polled();
          continue;
        }
        break;
      case Kind::BranchTable: {
        if (m == 0) {
          ++pc;
          break;
        }
        const u32* index = this->in<u32>(in.op[0]);
        const std::vector<u32>& targets = in.extra->targets;
        u32 i = index[std::countr_zero(m)], group = 0;
        each_lane(m, [&](int l) { group |= index[l] == i ? 1u << l : 0; });
        if (i >= targets.size()) fault(in, std::countr_zero(m), "brx.idx index out of range");
        if (group == active) {
          pc = targets[i];
        } else {  // one target at a time; the others come back to this instruction
          save();
          diverge(in, group, targets[i], m == group ? pc + 1 : pc);
          if (!reload()) return Stop::Done;
          continue;
        }
        break;
      }
      case Kind::Call: {
        if (m == 0) {
          ++pc;
          break;
        }
        const Function* callee = in.extra->callee;
        u32 group = m;
        if (!callee) {
          const u64* address = this->in<u64>(in.op[0]);
          u64 a = address[std::countr_zero(m)];
          group = 0;
          each_lane(m, [&](int l) { group |= address[l] == a ? 1u << l : 0; });
          u64 i = (a - kFunctionWindow) / 16;
          const auto& functions = grid->module->unit->functions;
          if (a >> 56 != kFunctionWindow >> 56 || i >= functions.size())
            address_fault(in, std::countr_zero(m), "call of what is no function", a);
          callee = functions[i].get();
        }
        if (group != m) {  // targets differ: one at a time, the others come back to this instruction
          stack.back().pc = pc + 1;
          stack.push_back({pc, pc + 1, active & ~group});
          stack.push_back({pc, pc + 1, group});
          reload();
          m = group;
        }
        if (!callee->defined) {
          if (!built_in(in, *callee, m))
            fault(in, std::countr_zero(m), "call of the undefined function " + callee->name);
          ++pc;
          break;
        }
        ++pc;
        save();
        u32 from_frame = local_frame;
        push_frame(*callee, &in, m);
        const Extra& x = *in.extra;
        for (std::size_t i = 0; i < x.arguments.size() && i < callee->parameters.size(); ++i) {
          const LocalVariable& to = callee->variables[callee->parameters[i]];
          u32 bytes = std::min(to.bytes, x.argument_bytes[i]);
          each_lane(m, [&](int l) {
            u8* lane = local_memory.data() + u64{local_stride} * static_cast<u32>(l);
            std::memcpy(lane + local_frame + to.offset, lane + from_frame + x.arguments[i], bytes);
          });
        }
        if (!reload()) return Stop::Done;
        continue;
      }
      case Kind::Return:
      case Kind::Exit: {
        if (m == 0) {
          ++pc;
          break;
        }
        if (m != active) ++pc;
        save();
        if (in.kind == Kind::Exit) {
          alive &= ~m;
          lanes_gone(m, 0);
        } else {
          lanes_gone(m, frames.back().first_entry);
        }
        if (!reload()) return Stop::Done;
        continue;
      }
      case Kind::Barrier: {
        if (m == 0) {
          ++pc;
          break;
        }
        if (m != alive && !(in.extra->barrier == Extra::Arrive)) {
          // Lanes of this warp are elsewhere: they may be on their way to the same barrier.
          save();
          if (m == active && await_lanes()) {
            if (!reload()) return Stop::Done;
            continue;
          }
          u32 away = alive & ~m;
          char text[96];
          std::snprintf(text, sizeof text,
                        "barrier reached by only some of a warp's threads (lanes 0x%08x are elsewhere)",
                        away);
          fault(in, std::countr_zero(m), text);
        }
        waits = 0;
        stack.back().state = SimtEntry::Running;
        at_barrier = &in;
        barrier_mask = m;
        barrier_id = this->in<u32>(in.op[1])[std::countr_zero(m)];
        if (barrier_id > 15) fault(in, std::countr_zero(m), "barrier number out of range");
        ++pc;
        save();
        yields = 0;
        return Stop::Barrier;
      }
      case Kind::Yield:  // nanosleep
        if (m) grid->clock += std::min<u32>(this->in<u32>(in.op[0])[std::countr_zero(m)], 1'000'000);
        ++pc;
        if (m && (pc != rpc)) {
          save();
          spins += 32;
          if (spins > kSpinLimit) return polled();
        }
        break;
      case Kind::WarpSync: {
        if (m == 0) {
          ++pc;
          break;
        }
        u32 member = in.op[4] != kNone ? this->in<u32>(in.op[4])[std::countr_zero(m)]
                                       : this->in<u32>(in.op[1])[std::countr_zero(m)];
        u32 missing = member & alive & ~active;
        if (missing && stack.back().state != SimtEntry::Released) {
          save();
          const bool plain_barrier = in.op[4] == kNone;
          if (!(plain_barrier && all_at_warp_barriers(missing))) {
            if (m == active && await_lanes()) {
              if (!reload()) return Stop::Done;
              continue;
            }
            char text[160];
            std::snprintf(text, sizeof text,
                          "the membermask 0x%08x names lanes 0x%08x that have not converged here", member,
                          missing);
            fault(in, std::countr_zero(m), text);
          }
        }
        waits = 0;
        stack.back().state = SimtEntry::Running;
        in.fn(*this, in, m);
        ++pc;
        break;
      }
    }
    if (pc == rpc) {
      stack.pop_back();
      if (!reload()) return Stop::Done;
    }
  }
}

// ---------------------------------------------------------------- block

void Block::start(Grid& g, u64 linear_id) {
  grid = &g;
  linear = linear_id;
  const Dim3& n = g.launch->grid;
  id = {static_cast<u32>(linear_id % n.x), static_cast<u32>(linear_id / n.x % n.y),
        static_cast<u32>(linear_id / n.x / n.y)};
  shared_bytes = g.shared_bytes;
  const u32 whole = g.reserved_shared_at ? g.reserved_shared_at + 1024 : shared_bytes;
  if (shared_store.size() < whole + 1024) shared_store.resize(whole + 1024);
  shared =
      reinterpret_cast<u8*>((reinterpret_cast<std::uintptr_t>(shared_store.data()) + 1023) / 1024 * 1024);
  std::memset(shared, 0xff, shared_bytes);
  if (g.reserved_shared_at) std::memset(shared + g.reserved_shared_at, 0, 1024);
  u32 count = static_cast<u32>((g.launch->block.count() + kLanes - 1) / kLanes);
  while (warps.size() < count) warps.push_back(std::make_unique<Warp>());
  order.resize(count);
  for (u32 i = 0; i < count; ++i) order[i] = i;
  if (g.launch->seed) {
    std::mt19937_64 random(mixed(g.launch->seed * 31 + linear_id));
    std::shuffle(order.begin(), order.end(), random);
  }
  for (BarrierState& b : barriers) b = BarrierState{};
  if (g.race_check) touches.assign(shared_bytes, Touch{});
  for (u32 i = 0; i < count; ++i) warps[i]->start(*this, i);
}

u32 Block::live_warps() const {
  u32 n = 0;
  for (u32 i : order) n += warps[i]->alive != 0;
  return n;
}

void Block::arrive(Warp& w) {
  const Inst& in = *w.at_barrier;
  const Extra& x = *in.extra;
  BarrierState& b = barriers[w.barrier_id];
  const int lane = std::countr_zero(w.barrier_mask);
  u32 expected = x.has_count ? w.in<u32>(in.op[2])[lane] : 0;
  if (b.arrived == 0)
    b.expected = expected;
  else if (b.expected != expected)
    w.fault(in, lane, "threads give different counts for one barrier");
  if (x.has_count && expected % kLanes)
    w.fault(in, lane, "a barrier's thread count is not a multiple of the warp size");
  b.arrived += kLanes;
  if (x.barrier == Extra::Popc || x.barrier == Extra::And || x.barrier == Extra::Or) {
    u32 p = w.pred(in.op[3]) & w.barrier_mask;
    b.popc += static_cast<u32>(std::popcount(p));
    b.all &= p == w.barrier_mask;
    b.any |= p != 0;
  }
  if (x.barrier == Extra::Arrive)
    w.at_barrier = nullptr;
  else
    b.waiting |= 1u << w.index;
}

// Lets the waiting warps go when all that the barrier expects have come.
bool Block::release(u32 id) {
  BarrierState& b = barriers[id];
  if (b.arrived == 0) return false;
  // Warps that have exited are not waited for.
  u32 wanted = b.expected ? b.expected : live_warps() * kLanes;
  if (b.arrived < wanted) return false;
  for (u32 i : order) {
    Warp& w = *warps[i];
    if (!(b.waiting >> i & 1)) continue;
    const Inst& in = *w.at_barrier;
    switch (in.extra->barrier) {
      case Extra::Popc: each_lane(w.barrier_mask, [&](int l) { w.reg<u32>(in.op[0])[l] = b.popc; }); break;
      case Extra::And: w.set_pred(in.op[0], w.barrier_mask, b.all ? kFull : 0); break;
      case Extra::Or: w.set_pred(in.op[0], w.barrier_mask, b.any ? kFull : 0); break;
      default: break;
    }
    w.at_barrier = nullptr;
  }
  b = BarrierState{};
  ++epoch;
  if (grid->counts) ++grid->counts->barriers;
  ++grid->progress;
  return true;
}

Block::Stop Block::run(u64& fuel) {
  for (;;) {
    bool ran = false, yielded = false;
    for (u32 i : order) {
      Warp& w = *warps[i];
      if (w.frames.empty() || w.at_barrier) continue;
      u64 progress = grid->progress;
      Warp::Stop stop = w.run(fuel);
      switch (stop) {
        case Warp::Stop::Done: ran = true; break;
        case Warp::Stop::Barrier:
          ran = true;
          arrive(w);
          break;
        case Warp::Stop::Yield:
          yielded = true;
          ran |= grid->progress != progress;
          break;
        case Warp::Stop::Fuel: return Stop::Fuel;
      }
    }
    bool released = false;
    for (u32 id = 0; id < 16; ++id) released |= release(id);
    if (released || ran) continue;
    if (yielded) return Stop::Yield;
    // Nothing runs: all are done, or some wait for ever.
    for (u32 i : order)
      if (!warps[i]->frames.empty()) {
        Warp& w = *warps[i];
        w.fault(*w.at_barrier, std::countr_zero(w.barrier_mask),
                "deadlock: the barrier waits for threads that never come");
      }
    return Stop::Done;
  }
}

void Block::check_race(Warp& w, const Inst& in, const u64* address, u32 mask, u32 bytes, bool write) {
  // Atomic updates do not come here.
  each_lane(mask, [&](int l) {
    u64 at = address[l] & 0x00ff'ffff'ffff'ffff;
    for (u32 i = 0; i < bytes; ++i) {
      Touch& t = touches[at + i];
      bool other_wrote = t.write_epoch == epoch && t.writer != w.index;
      bool other_read = t.read_epoch == epoch && t.reader != w.index;
      if (other_wrote || (write && other_read)) {
        u32 other = other_wrote ? t.writer : t.reader;
        w.address_fault(
            in, l,
            "data race in shared memory with " +
                (other == 0xffff ? std::string("several warps") : "warp " + std::to_string(other)),
            at + i);
      }
      if (write) {
        t.write_epoch = epoch, t.writer = static_cast<u16>(w.index);
      } else {
        t.reader = t.read_epoch == epoch && t.reader != w.index ? u16{0xffff} : static_cast<u16>(w.index);
        t.read_epoch = epoch;
      }
    }
  });
}

// ---------------------------------------------------------------- module

const Program& LoadedModule::program(const Function& function) const {
  std::lock_guard lock(mutex);
  std::unique_ptr<Program>& p = programs[function.index];
  if (!p) p = decode(*unit, function);
  return *p;
}
const KernelInfo* LoadedModule::kernel(std::string_view name) const {
  auto it = kernels.find(name);
  return it == kernels.end() ? nullptr : &it->second;
}

}  // namespace ptx

std::shared_ptr<Module> Module::load(std::string_view text) {
  auto m = std::make_shared<LoadedModule>();
  m->unit = parse(text);
  m->programs.resize(m->unit->functions.size());
  for (const auto& f : m->unit->functions) {
    if (!f->entry || !f->defined) continue;
    KernelInfo k;
    k.name = f->name;
    for (u32 i : f->parameters) {
      const LocalVariable& v = f->variables[i];
      k.parameter_offsets.push_back(v.offset);
      k.parameter_sizes.push_back(v.bytes);
      k.parameter_bytes = std::max<std::size_t>(k.parameter_bytes, v.offset + v.bytes);
    }
    k.static_shared_bytes = static_shared_bytes(*m->unit, *f);
    k.local_bytes = f->frame_bytes;
    if (f->max_threads) k.max_threads_per_block = f->max_threads;
    m->names.push_back(k.name);
    m->kernels.emplace(f->name, std::move(k));
  }
  return m;
}

void relocate(const Variable& variable, std::byte* copy,
              const std::function<std::uint64_t(std::string_view)>& symbol) {
  for (const Relocation& r : variable.relocations) {
    u64 v = (symbol(r.symbol) + static_cast<u64>(r.addend)) >> r.shift;
    std::memcpy(copy + r.offset, &v, std::min<std::size_t>(r.bytes, 8));
  }
}

void execute(const Module& module, std::string_view kernel, const Launch& launch, Memory& memory) {
  const auto& loaded = static_cast<const LoadedModule&>(module);
  auto found = loaded.unit->function_named.find(kernel);
  if (found == loaded.unit->function_named.end() || !found->second->entry)
    throw KernelFault("no kernel is named " + std::string(kernel));
  const Function& f = *found->second;
  const u64 blocks = launch.grid.count();
  const u64 threads = launch.block.count();
  if (blocks == 0 || threads == 0 || threads > 1024) throw KernelFault("invalid grid or block size");

  Grid grid;
  grid.module = &loaded;
  grid.launch = &launch;
  grid.memory = &memory;
  grid.kernel = &f;
  grid.programs.resize(loaded.unit->functions.size());
  grid.parameters.resize(std::max<std::size_t>(f.parameter_bytes, launch.parameters.size()));
  std::memcpy(grid.parameters.data(), launch.parameters.data(), launch.parameters.size());
  grid.dynamic_shared_at = dynamic_shared_offset(*loaded.unit, f);
  grid.shared_bytes = launch.dynamic_shared_bytes
                          ? grid.dynamic_shared_at + static_cast<u32>(launch.dynamic_shared_bytes)
                          : static_shared_bytes(*loaded.unit, f);
  if (loaded.unit->reserved_shared) {
    grid.reserved_shared_at = (grid.shared_bytes + 1023) / 1024 * 1024 + 1024;
  }
  grid.lane_rotation = launch.seed ? static_cast<u32>(mixed(launch.seed) & 31) : 0;
  grid.race_check = setting("VGPU_RACECHECK", 0) != 0;
  grid.counts = launch.counts;
  if (grid.counts) {
    ++grid.counts->launches;
    grid.counts->threads += blocks * threads;
  }
  grid.started = static_cast<u64>(std::chrono::system_clock::now().time_since_epoch().count());

  // Blocks start in this order. One that polls in vain is set aside for the next; seed 0 keeps the plain
  // order.
  std::vector<u32> shuffled;
  if (launch.seed) {
    shuffled.resize(blocks);
    for (u64 i = 0; i < blocks; ++i) shuffled[i] = static_cast<u32>(i);
    std::mt19937_64 random(mixed(launch.seed));
    std::shuffle(shuffled.begin(), shuffled.end(), random);
  }
  const u64 watchdog = setting("VGPU_WATCHDOG", 1'000'000'000);  // warp instructions without a block ending
  const u64 slice = 1 << 20;
  // Polling without progress is a deadlock after a while only: the host may yet write what the kernel waits
  // for.
  const auto patience = std::chrono::milliseconds(setting("VGPU_DEADLOCK_MS", 10'000));
  using Clock = std::chrono::steady_clock;
  u64 next = 0, since_end = 0, idle_rounds = 0;
  Clock::time_point idle_since;
  std::deque<std::unique_ptr<Block>> resident;
  std::vector<std::unique_ptr<Block>> spare;
  auto admit = [&] {
    std::unique_ptr<Block> b;
    if (spare.empty()) {
      b = std::make_unique<Block>();
    } else {
      b = std::move(spare.back());
      spare.pop_back();
    }
    b->start(grid, launch.seed ? shuffled[next] : next);
    ++next;
    resident.push_back(std::move(b));
  };
  u64 last_progress = 0, in_round = 0;
  auto stuck = [&](Block& b, const char* why) {
    for (auto& w : b.warps)
      if (!w->frames.empty() && !w->stack.empty()) {
        const Program& p = *w->frames.back().program;
        const Inst& in =
            p.code[w->at_barrier ? static_cast<u32>(w->at_barrier - p.code.data()) : w->stack.back().pc];
        u32 mask = w->stack.back().mask ? w->stack.back().mask : 1;
        w->fault(in, std::countr_zero(mask), why);
      }
    throw KernelFault(why);
  };
  while (next < blocks || !resident.empty()) {
    if (resident.empty()) admit();
    std::unique_ptr<Block> b = std::move(resident.front());
    resident.pop_front();
    u64 fuel = slice;
    Block::Stop stop = b->run(fuel);
    grid.clock += slice - fuel;
    if (grid.counts) grid.counts->instructions += slice - fuel;
    since_end += slice - fuel;
    if (stop == Block::Stop::Done) {
      spare.push_back(std::move(b));
      since_end = 0, idle_rounds = 0;
      if (launch.pause && (next < blocks || !resident.empty())) launch.pause(false);
      continue;
    }
    if (since_end > watchdog)
      stuck(*b,
            "watchdog timeout: too many instructions without a block ending (an endless loop, or threads of "
            "one warp that wait for each other)");
    if (stop == Block::Stop::Fuel) {
      resident.push_front(std::move(b));
      continue;
    }
    // It waits for another block.
    resident.push_back(std::move(b));
    if (next < blocks) {
      admit();
      std::rotate(resident.begin(), resident.end() - 1, resident.end());  // the fresh one first
      idle_rounds = 0;
      continue;
    }
    if (++in_round >= resident.size()) {
      in_round = 0;
      idle_rounds = grid.progress == last_progress ? idle_rounds + 1 : 0;
      last_progress = grid.progress;
      if (idle_rounds > 0 && launch.pause && launch.pause(true)) idle_rounds = 0;
      if (idle_rounds == 1) idle_since = Clock::now();
      if (idle_rounds > 16 && !launch.pause) std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (idle_rounds > 64 && Clock::now() - idle_since > patience)
        stuck(*resident.front(),
              "deadlock: every block polls and none makes progress (threads of one warp that wait for each "
              "other need independent thread scheduling, which is not modelled)");
    }
  }
}

}  // namespace vgpu
