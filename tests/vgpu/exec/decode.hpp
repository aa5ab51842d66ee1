// Turning parsed instructions into machine.h's. Each ops_*.cpp registers the opcodes it implements.
#pragma once

#include <map>

#include "exec/machine.hpp"

namespace vgpu::ptx {

enum class Width : u8 { Predicate, W32, W64, W128 };
constexpr Width width_of(Type t) {
  return t == Type::Pred   ? Width::Predicate
         : size_of(t) <= 4 ? Width::W32
         : size_of(t) == 8 ? Width::W64
                           : Width::W128;
}
constexpr u32 lane_bytes(Width w) { return w == Width::W32 ? 4 : w == Width::W64 ? 8 : 16; }

class Decoder;
using DecodeRule = void (*)(Decoder&);
using Rules = std::unordered_map<std::string_view, DecodeRule>;

void register_integer(Rules&);
void register_float(Rules&);
void register_compare(Rules&);
void register_convert(Rules&);
void register_memory(Rules&);
void register_atomic(Rules&);
void register_control(Rules&);
const Rules& rules();
// add, sub, mul, fma, mad, div, abs, neg, min and max of floating-point types (ops_float.cpp, ops_half.cpp);
// false when the instruction's type is no such type.
bool decode_half_arithmetic(Decoder&);
bool decode_float_arithmetic(Decoder&);

constexpr u32 kCarry = 1;  // the predicate that holds CC.CF

class Decoder {
 public:
  Decoder(const Unit& unit, const Function& function, Program& program);

  const Unit& unit;
  const Function& function;
  Program& program;
  const Instruction* ast = nullptr;
  Inst inst;                // the one being decoded
  std::vector<Inst> after;  // to follow it
  std::vector<Type> types;  // of the virtual registers: the function's, then temporaries

  std::string_view opcode() const { return ast->opcode; }
  bool has(std::string_view modifier) const;
  // What the modifiers say of a memory instruction or a fence. Threads of one block are one here.
  Ordering ordering(bool is_atomic) const;
  // The n-th modifier that names a type.
  Type type(unsigned n = 0) const;
  unsigned type_count() const;
  const Operand& operand(unsigned n) const;
  unsigned operand_count() const { return static_cast<unsigned>(ast->operands.size()); }

  // Fill inst.op[slot].
  void use(unsigned slot, const Operand& o, Type t);
  void def(unsigned slot, const Operand& o, Type t);
  void use_predicate(unsigned slot, const Operand& o);
  void def_predicate(unsigned slot, const Operand& o);  // only the first part of d|p
  // The usual form: operand 0 is the result, the others are read.
  void operands(Type d, std::initializer_list<Type> sources);
  // [base + offset] into op[slot], imm, space and flags.
  void address(unsigned slot, const Operand& o, Space space);

  u32 constant(u64 bits, Width w, u64 high = 0);
  u32 symbol_constant(const std::string& symbol, u64 addend, bool wide);
  u32 temporary(Type t);
  u32 predicate(const Operand& o);
  Extra& extra();
  Inst& emit_before();  // a helper instruction that runs first, unconditionally

  [[noreturn]] void unsupported(const std::string& why = "") const;

  // Decodes one instruction into program.code.
  void decode(const Instruction& i, u32 index, const Rules& rules);

 private:
  std::vector<Inst> before_;
  std::map<std::tuple<u64, u64, Width>, u32> constants_;
  std::map<std::tuple<std::string, u64, bool>, u32> symbols_;
  std::vector<u32> predicate_index_;  // by register id
  u32 source(const Operand& o, Type t);
  void count_use(unsigned slot) {
    if (!(inst.op[slot] & kConstant)) inst.uses |= static_cast<u8>(1u << slot);
  }
};

Handler special_register(Decoder& d, std::string_view name, Type t);
u32 shared_address(const Unit& unit, const Function& function, const LocalVariable& v);
u32 static_shared_bytes(const Unit& unit, const Function& kernel);
u32 dynamic_shared_offset(const Unit& unit, const Function& kernel);

// cfg.cpp: fills in Inst::reconverge.
void find_reconvergence(Program& program);
// registers.cpp: replaces virtual registers by their places.
void allocate_registers(Program& program, const std::vector<Type>& types);

// Successors of the instruction at `i` as instruction indices; false when it ends the function.
template <class F>
void for_each_successor(const Program& p, u32 i, F f) {
  const Inst& in = p.code[i];
  bool falls = true;
  if (in.kind == Kind::Branch) {
    f(in.target);
    falls = in.guard != kNone;
  } else if (in.kind == Kind::BranchTable) {
    for (u32 t : in.extra->targets) f(t);
    falls = in.guard != kNone;
  } else if (in.kind == Kind::Return || in.kind == Kind::Exit) {
    falls = in.guard != kNone;
  }
  if (falls && i + 1 < p.code.size()) f(i + 1);
}

struct BasicBlocks {
  std::vector<u32> begin;               // of each block, and one past the last
  std::vector<u32> block_of;            // by instruction
  std::vector<std::vector<u32>> after;  // successors
  std::vector<std::vector<u32>> before;
};
BasicBlocks basic_blocks(const Program& program);

}  // namespace vgpu::ptx
