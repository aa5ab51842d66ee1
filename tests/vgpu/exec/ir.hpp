// The parsed form of a PTX translation unit: what the parser yields and the decoder reads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/exec.hpp"

namespace vgpu::ptx {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

enum class Type : u8 {
  None,
  Pred,
  B8,
  U8,
  S8,
  E4M3,
  E5M2,
  B16,
  U16,
  S16,
  F16,
  BF16,
  E4M3x2,
  E5M2x2,
  U8x2,
  B32,
  U32,
  S32,
  F32,
  TF32,
  F16x2,
  BF16x2,
  U16x2,
  S16x2,
  B64,
  U64,
  S64,
  F64,
  F32x2,
  B128,
};

constexpr unsigned size_of(Type t) {
  switch (t) {
    case Type::None: return 0;
    case Type::Pred: return 1;
    case Type::B8:
    case Type::U8:
    case Type::S8:
    case Type::E4M3:
    case Type::E5M2: return 1;
    case Type::B16:
    case Type::U16:
    case Type::S16:
    case Type::F16:
    case Type::BF16:
    case Type::E4M3x2:
    case Type::E5M2x2:
    case Type::U8x2: return 2;
    case Type::B32:
    case Type::U32:
    case Type::S32:
    case Type::F32:
    case Type::TF32:
    case Type::F16x2:
    case Type::BF16x2:
    case Type::U16x2:
    case Type::S16x2: return 4;
    case Type::B64:
    case Type::U64:
    case Type::S64:
    case Type::F64:
    case Type::F32x2: return 8;
    case Type::B128: return 16;
  }
  return 0;
}
constexpr bool is_signed(Type t) {
  return t == Type::S8 || t == Type::S16 || t == Type::S32 || t == Type::S64;
}
constexpr bool is_float(Type t) {
  return t == Type::F16 || t == Type::BF16 || t == Type::F32 || t == Type::F64 || t == Type::TF32 ||
         t == Type::F16x2 || t == Type::BF16x2 || t == Type::F32x2;
}
constexpr bool is_integer(Type t) {
  return t == Type::B8 || t == Type::U8 || t == Type::S8 || t == Type::B16 || t == Type::U16 ||
         t == Type::S16 || t == Type::B32 || t == Type::U32 || t == Type::S32 || t == Type::B64 ||
         t == Type::U64 || t == Type::S64;
}
Type type_named(std::string_view name);  // "u32" -> U32; None when no type has that name

enum class Space : u8 { Generic, Global, Const, Shared, Local, Param };

// Windows of the generic address space, told apart by the top byte; the runtime's addresses have 0 there.
constexpr u64 kSharedWindow = 0x0100'0000'0000'0000;
constexpr u64 kLocalWindow = 0x0200'0000'0000'0000;
constexpr u64 kParamWindow = 0x0300'0000'0000'0000;
constexpr u64 kGridWindow = 0x0400'0000'0000'0000;      // the workspace of cooperative_groups' grid barrier
constexpr u64 kFunctionWindow = 0x0500'0000'0000'0000;  // + 16 * function index

struct Operand {
  enum Kind : u8 {
    None,
    Register,
    Special,
    Integer,
    Float,
    Symbol,
    Label,
    Variable,
    Address,
    Vector,
    List,
    Sink,
  } kind = None;
  bool negated = false;    // !p
  bool is_double = false;  // Float: written as 0d or decimal (value then holds double bits), else float bits
  u32 index = 0;           // Register: id; Label: instruction index; Variable: index in Function::variables
  u64 value = 0;           // Integer/Float bits; Address, Symbol and Variable: the offset added
  std::string_view name;   // Symbol, Special
  std::vector<Operand>
      items;  // Address: its base; Vector and List: elements; Register with d|p: the second part
};

struct Instruction {
  std::string_view opcode;                  // up to the first dot
  std::vector<std::string_view> modifiers;  // what follows, split at dots
  std::vector<Operand> operands;
  bool predicated = false, predicate_negated = false;
  u32 predicate = 0;
  u32 scope = 0;
  u32 line = 0;
  std::string_view text;
};

struct LocalVariable {
  std::string_view name;
  Space space = Space::Local;
  u32 bytes = 0, alignment = 1;
  u32 offset = 0;  // in its space: the function's frame, the block's shared memory, the kernel's parameters
  bool unsized = false;  // extern shared
};

struct Function {
  std::string name;
  bool entry = false, defined = false, external = false;
  u32 index = 0;
  std::vector<u32> results, parameters;  // indices in variables
  std::vector<Type> registers;           // by id
  std::vector<LocalVariable> variables;
  std::vector<Instruction> body;
  std::unordered_map<std::string_view, std::vector<u32>>
      branch_tables;     // .branchtargets: instruction indices
  u32 frame_bytes = 0;   // .local and .param variables of one call
  u32 shared_bytes = 0;  // demoted .shared variables
  u32 parameter_bytes = 0;
  u32 max_threads = 0;
};

struct SharedVariable {
  u32 bytes = 0, alignment = 1, offset = 0;
  bool unsized = false;
};

struct Unit {
  std::string text;
  std::string target;
  std::vector<std::unique_ptr<Function>> functions;
  std::unordered_map<std::string_view, Function*> function_named;
  std::vector<Variable> variables;
  std::unordered_map<std::string, u32> variable_named;
  std::unordered_map<std::string, SharedVariable> shared;  // module-scope .shared
  u32 shared_bytes = 0;                                    // of those together
  bool reserved_shared = false;  // reads %reserved_smem_offset_*, as cooperative_groups does
};

std::shared_ptr<Unit> parse(std::string_view text);

}  // namespace vgpu::ptx
