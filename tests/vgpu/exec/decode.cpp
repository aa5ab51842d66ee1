#include "exec/decode.hpp"

namespace vgpu::ptx {

namespace {

u32 align_up(u32 v, u32 a) { return (v + a - 1) / a * a; }

void widen(Warp& w, const Inst& in, u32 mask) {
  u64* d = w.reg<u64>(in.op[0]);
  const u32* a = w.in<u32>(in.op[1]);
  for (u32 l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = a[l];
}
void narrow(Warp& w, const Inst& in, u32 mask) {
  u32* d = w.reg<u32>(in.op[0]);
  const u64* a = w.in<u64>(in.op[1]);
  for (u32 l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = static_cast<u32>(a[l]);
}
// The generic-free address of a variable in the function's frame.
void frame_address(Warp& w, const Inst& in, u32 mask) {
  u64* d = w.reg<u64>(in.op[0]);
  u64 at = w.local_frame + static_cast<u64>(in.imm);
  for (u32 l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = at;
}

// Where the kernel's own shared variables begin, behind the module's.
u32 shared_base(const Unit& unit) { return align_up(unit.shared_bytes, 128); }

}  // namespace

u32 shared_address(const Unit& unit, const Function& function, const LocalVariable& v) {
  return v.offset + (function.entry ? shared_base(unit) : 0);
}
u32 static_shared_bytes(const Unit& unit, const Function& kernel) {
  return kernel.shared_bytes ? shared_base(unit) + kernel.shared_bytes : unit.shared_bytes;
}
u32 dynamic_shared_offset(const Unit& unit, const Function& kernel) {
  u32 alignment = 16;
  for (const auto& [name, v] : unit.shared)
    if (v.unsized) alignment = std::max(alignment, v.alignment);
  for (const LocalVariable& v : kernel.variables)
    if (v.space == Space::Shared && v.unsized) alignment = std::max(alignment, v.alignment);
  return align_up(static_shared_bytes(unit, kernel), alignment);
}

const Rules& rules() {
  // Never destroyed: a kernel's first run may be the program's end.
  static const Rules& all = *new const Rules([] {
    Rules r;
    register_integer(r);
    register_float(r);
    register_compare(r);
    register_convert(r);
    register_memory(r);
    register_atomic(r);
    register_control(r);
    return r;
  }());
  return all;
}

Decoder::Decoder(const Unit& u, const Function& f, Program& p)
    : unit(u), function(f), program(p), types(f.registers) {
  program.predicates = 2;  // true, carry
  predicate_index_.resize(types.size(), kNone);
  for (std::size_t i = 0; i < types.size(); ++i)
    if (types[i] == Type::Pred) predicate_index_[i] = program.predicates++;
}

bool Decoder::has(std::string_view m) const {
  for (std::string_view x : ast->modifiers)
    if (x == m) return true;
  return false;
}
Ordering Decoder::ordering(bool is_atomic) const {
  const bool is_strong =
      is_atomic || has("volatile") || has("relaxed") || has("acquire") || has("release") || has("mmio");
  if (!is_strong || has("cta")) return {};
  const bool is_system = has("sys") || has("volatile") || has("mmio");
  return {is_system ? Ordering::system : Ordering::device, has("acquire") || has("acq_rel"),
          has("release") || has("acq_rel"), is_atomic};
}
Type Decoder::type(unsigned n) const {
  for (std::string_view x : ast->modifiers)
    if (Type t = type_named(x); t != Type::None && n-- == 0) return t;
  return Type::None;
}
unsigned Decoder::type_count() const {
  unsigned n = 0;
  for (std::string_view x : ast->modifiers) n += type_named(x) != Type::None;
  return n;
}
const Operand& Decoder::operand(unsigned n) const {
  if (n >= ast->operands.size()) unsupported("too few operands");
  return ast->operands[n];
}
void Decoder::unsupported(const std::string& why) const {
  throw UnsupportedPtx("PTX line " + std::to_string(ast->line) + ": unsupported instruction" +
                       (why.empty() ? "" : " (" + why + ")") + ": " + std::string(ast->text) + " in " +
                       function.name);
}

u32 Decoder::constant(u64 bits, Width w, u64 high) {
  if (w == Width::W32) bits &= 0xffffffff;
  auto [it, fresh] = constants_.try_emplace({bits, high, w}, 0);
  if (fresh) {
    u32 at = static_cast<u32>(program.constants.size());
    u32 bytes = w == Width::W32 ? 4 : 8;
    program.constants.resize(at + kLanes * lane_bytes(w));
    for (u32 l = 0; l < kLanes; ++l) std::memcpy(&program.constants[at + l * bytes], &bits, bytes);
    if (w == Width::W128)
      for (u32 l = 0; l < kLanes; ++l) std::memcpy(&program.constants[at + (kLanes + l) * 8], &high, 8);
    it->second = at | kConstant;
  }
  return it->second;
}
u32 Decoder::symbol_constant(const std::string& symbol, u64 addend, bool wide) {
  auto [it, fresh] = symbols_.try_emplace({symbol, addend, wide}, 0);
  if (fresh) {
    u32 at = static_cast<u32>(program.constants.size());
    program.constants.resize(at + kLanes * (wide ? 8 : 4));
    program.patches.push_back({at, wide, symbol, addend});
    it->second = at | kConstant;
  }
  return it->second;
}
u32 Decoder::temporary(Type t) {
  types.push_back(t);
  predicate_index_.push_back(t == Type::Pred ? program.predicates++ : kNone);
  return static_cast<u32>(types.size() - 1);
}
Extra& Decoder::extra() {
  if (!inst.extra) inst.extra = &program.extras.emplace_back();
  return const_cast<Extra&>(*inst.extra);
}
Inst& Decoder::emit_before() { return before_.emplace_back(); }

u32 Decoder::source(const Operand& o, Type t) {
  Width w = width_of(t);
  bool wide = w != Width::W32;
  auto local = [&](u64 offset) {
    Inst& i = emit_before();
    i.fn = frame_address;
    i.imm = static_cast<s64>(offset);
    i.defs = 1;
    return i.op[0] = temporary(Type::U64);
  };
  switch (o.kind) {
    case Operand::Register: {
      Type have = types[o.index];
      if (have == Type::Pred || w == Width::Predicate) unsupported("a predicate where a value is wanted");
      Width from = width_of(have);
      if (from == w) return o.index;
      if (w == Width::W128 || from == Width::W128) unsupported("operand of another size");
      Inst& i = emit_before();
      i.fn = w == Width::W64 ? widen : narrow;
      i.defs = 1;
      i.uses = 2;
      i.op[1] = o.index;
      return i.op[0] = temporary(w == Width::W64 ? Type::B64 : Type::B32);
    }
    case Operand::Integer: return constant(o.value, w);
    case Operand::Float: {
      if (size_of(t) == 8) {
        if (o.is_double) return constant(o.value, w);
        double d = std::bit_cast<float>(static_cast<u32>(o.value));
        return constant(std::bit_cast<u64>(d), w);
      }
      if (!o.is_double) return constant(o.value, w);
      return constant(std::bit_cast<u32>(static_cast<float>(std::bit_cast<double>(o.value))), w);
    }
    case Operand::Special: {
      Type as = wide ? Type::U64 : Type::U32;
      Handler h = special_register(*this, o.name, as);
      Inst& i = emit_before();
      i.fn = h;
      i.defs = 1;
      return i.op[0] = temporary(as);
    }
    case Operand::Variable: {
      const LocalVariable& v = function.variables[o.index];
      if (v.space == Space::Shared) {
        if (v.unsized) return symbol_constant("", o.value, wide);
        return constant(shared_address(unit, function, v) + o.value, w);
      }
      if (v.space == Space::Param && function.entry) return constant(v.offset + o.value, w);
      u32 r = local(v.offset + o.value);
      if (wide) return r;
      Inst& i = emit_before();
      i.fn = narrow;
      i.defs = 1;
      i.uses = 2;
      i.op[1] = r;
      return i.op[0] = temporary(Type::U32);
    }
    case Operand::Symbol: {
      std::string name(o.name);
      if (auto it = unit.shared.find(name); it != unit.shared.end()) {
        if (it->second.unsized) return symbol_constant("", o.value, wide);
        return constant(it->second.offset + o.value, w);
      }
      if (auto it = unit.variable_named.find(name); it != unit.variable_named.end())
        return symbol_constant(name, o.value, wide);
      if (auto it = unit.function_named.find(o.name); it != unit.function_named.end())
        return constant(kFunctionWindow + 16ull * it->second->index, w);
      unsupported("unknown name " + name);
    }
    default: unsupported("operand");
  }
}

void Decoder::use(unsigned slot, const Operand& o, Type t) {
  inst.op[slot] = source(o, t);
  count_use(slot);
}
void Decoder::def(unsigned slot, const Operand& o, Type t) {
  Width w = width_of(t);
  inst.defs |= static_cast<u8>(1u << slot);
  if (o.kind == Operand::Sink) {
    inst.op[slot] = temporary(t);
    return;
  }
  if (o.kind != Operand::Register || types[o.index] == Type::Pred) unsupported("result operand");
  Width have = width_of(types[o.index]);
  if (have == w) {
    inst.op[slot] = o.index;
    return;
  }
  if (w == Width::W128 || have == Width::W128) unsupported("result of another size");
  inst.op[slot] = temporary(w == Width::W64 ? Type::B64 : Type::B32);
  Inst i;
  i.fn = have == Width::W64 ? widen : narrow;
  i.defs = 1;
  i.uses = 2;
  i.op[0] = o.index;
  i.op[1] = inst.op[slot];
  after.push_back(i);
}
u32 Decoder::predicate(const Operand& o) {
  if (o.kind == Operand::Integer) return kTruePredicate | (o.value ? 0 : kNegated);
  if (o.kind != Operand::Register || types[o.index] != Type::Pred) unsupported("a predicate is wanted");
  return predicate_index_[o.index] | (o.negated ? kNegated : 0);
}
void Decoder::use_predicate(unsigned slot, const Operand& o) { inst.op[slot] = predicate(o); }
void Decoder::def_predicate(unsigned slot, const Operand& o) {
  inst.op[slot] = o.kind == Operand::Sink ? kNone : predicate(o);
}
void Decoder::operands(Type d, std::initializer_list<Type> sources) {
  unsigned n = 0;
  def(0, operand(0), d);
  for (Type t : sources) {
    ++n;
    use(n, operand(n), t);
  }
  if (operand_count() != n + 1) unsupported("number of operands");
}

void Decoder::address(unsigned slot, const Operand& o, Space space) {
  if (o.kind != Operand::Address) unsupported("an address is wanted");
  const Operand& base = o.items[0];
  inst.space = space;
  inst.imm = static_cast<s64>(o.value);
  if (base.kind == Operand::Variable) {
    const LocalVariable& v = function.variables[base.index];
    u64 offset = o.value + base.value;
    inst.flags |= kUniform;
    if (v.space == Space::Shared) {
      if (space != Space::Shared) unsupported("shared variable in another space");
      inst.op[slot] =
          v.unsized ? symbol_constant("", 0, true) : constant(shared_address(unit, function, v), Width::W64);
      inst.imm = static_cast<s64>(offset);
      return;
    }
    inst.op[slot] = constant(v.offset, Width::W64);
    inst.imm = static_cast<s64>(offset);
    if (v.space == Space::Param && function.entry) {
      inst.space = Space::Param;
    } else {
      inst.space = Space::Local;
      inst.flags |= kFrameRelative;
    }
    return;
  }
  if (base.kind == Operand::Register) {
    inst.op[slot] = base.index;
    count_use(slot);
    if (width_of(types[base.index]) == Width::W32) inst.flags |= kAddress32;
    // In a device function .param lives in the frame.
    if (space == Space::Param && !function.entry) inst.space = Space::Local;
    return;
  }
  if (base.kind == Operand::Symbol || base.kind == Operand::Integer) {
    inst.op[slot] = source(base, Type::U64);
    if (base.kind == Operand::Symbol) {
      inst.flags |= kUniform;
      bool in_shared = unit.shared.count(std::string(base.name)) != 0;
      if (in_shared != (space == Space::Shared)) unsupported("variable of another space");
    }
    return;
  }
  unsupported("address");
}

void Decoder::decode(const Instruction& i, u32 index, const Rules& all) {
  ast = &i;
  inst = Inst{};
  before_.clear();
  after.clear();
  auto it = all.find(i.opcode);
  if (it == all.end()) unsupported();
  it->second(*this);
  if (!inst.fn && inst.kind == Kind::Plain) unsupported();
  inst.source = index;
  if (i.predicated) {
    if (predicate_index_[i.predicate] == kNone) unsupported("guard");
    inst.guard = predicate_index_[i.predicate] | (i.predicate_negated ? kNegated : 0);
  }
  for (Inst& b : before_) {
    b.source = index;
    program.code.push_back(b);
  }
  if (std::popcount(inst.defs) > 1) inst.no_share = true;
  program.code.push_back(inst);
  for (Inst& a : after) {
    a.source = index;
    a.guard = inst.guard;
    program.code.push_back(a);
  }
}

namespace {
void refuse(Warp& w, const Inst& in, u32) {
  // Decoded again for its message.
  Program scratch;
  const Program& p = *w.frames.back().program;
  Decoder d(*p.unit, *p.function, scratch);
  d.decode(p.function->body[in.source], in.source, rules());
  throw UnsupportedPtx("unsupported instruction");
}
}  // namespace

std::unique_ptr<Program> decode(const Unit& unit, const Function& function) {
  auto program = std::make_unique<Program>();
  program->function = &function;
  program->unit = &unit;
  Decoder d(unit, function, *program);
  const Rules& all = rules();
  std::vector<u32> at(function.body.size() + 1);
  for (u32 i = 0; i < function.body.size(); ++i) {
    at[i] = static_cast<u32>(program->code.size());
    try {
      d.decode(function.body[i], i, all);
    } catch (const UnsupportedPtx&) {
      program->code.resize(at[i]);
      Inst refused;
      refused.fn = refuse;
      refused.source = i;
      program->code.push_back(refused);
    }
  }
  at[function.body.size()] = static_cast<u32>(program->code.size());
  Inst end;  // falling off the end returns
  end.kind = function.entry ? Kind::Exit : Kind::Return;
  end.source = function.body.empty() ? 0 : static_cast<u32>(function.body.size() - 1);
  program->code.push_back(end);
  for (Inst& i : program->code) {
    if (i.kind == Kind::Branch) i.target = at[i.target];
    if (i.kind == Kind::BranchTable)
      for (u32& t : const_cast<Extra*>(i.extra)->targets) t = at[t];
  }
  find_reconvergence(*program);
  allocate_registers(*program, d.types);
  return program;
}

std::vector<std::string> unimplemented(const Unit& unit, const Function& function) {
  std::vector<std::string> out;
  Program program;
  program.function = &function;
  program.unit = &unit;
  Decoder d(unit, function, program);
  for (u32 i = 0; i < function.body.size(); ++i) {
    try {
      d.decode(function.body[i], i, rules());
    } catch (const UnsupportedPtx& e) {
      out.push_back(e.what());
    }
  }
  return out;
}

}  // namespace vgpu::ptx
