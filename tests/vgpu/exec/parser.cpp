// PTX text to ir.h. Bodies are parsed whole; what each instruction means is the decoder's business.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "exec/ir.hpp"

namespace vgpu::ptx {

Type type_named(std::string_view n) {
  // Never destroyed: a kernel may be decoded as the program ends.
  static const auto& names = *new const std::unordered_map<std::string_view, Type>{
      {"pred", Type::Pred},   {"b8", Type::B8},       {"u8", Type::U8},         {"s8", Type::S8},
      {"b16", Type::B16},     {"u16", Type::U16},     {"s16", Type::S16},       {"f16", Type::F16},
      {"bf16", Type::BF16},   {"b32", Type::B32},     {"u32", Type::U32},       {"s32", Type::S32},
      {"f32", Type::F32},     {"tf32", Type::TF32},   {"f16x2", Type::F16x2},   {"bf16x2", Type::BF16x2},
      {"u16x2", Type::U16x2}, {"s16x2", Type::S16x2}, {"b64", Type::B64},       {"u64", Type::U64},
      {"s64", Type::S64},     {"f64", Type::F64},     {"f32x2", Type::F32x2},   {"b128", Type::B128},
      {"e4m3", Type::E4M3},   {"e5m2", Type::E5M2},   {"e4m3x2", Type::E4M3x2}, {"e5m2x2", Type::E5M2x2}};
  auto it = names.find(n);
  return it == names.end() ? Type::None : it->second;
}

namespace {

u32 align_up(u32 value, u32 alignment) { return (value + alignment - 1) / alignment * alignment; }

struct RegisterRange {
  u32 first = 0, count = 0;
};

struct Scope {
  int parent = -1;
  std::unordered_map<std::string_view, RegisterRange> ranges;  // .reg .b32 %r<10>
  std::unordered_map<std::string_view, u32> registers;         // .reg .b32 x
  std::unordered_map<std::string_view, u32> variables, labels;
};

class Parser {
 public:
  explicit Parser(Unit& unit) : unit_(unit), p_(unit.text.data()), end_(p_ + unit.text.size()) {}

  void run() {
    for (skip(); p_ < end_; skip()) directive();
    resolve_function_initialisers();
  }

 private:
  Unit& unit_;
  const char* p_;
  const char* end_;
  u32 line_ = 1;
  Function* fn_ = nullptr;
  std::vector<Scope> scopes_;
  u32 scope_ = 0;
  struct TableReference {
    std::string_view name;
    std::vector<std::string_view> labels;
    u32 scope;
  };
  std::vector<TableReference> tables_;

  // ---- characters ----
  [[noreturn]] void fail(const std::string& what) {
    const char* a = p_;
    while (a > unit_.text.data() && a[-1] != '\n') --a;
    const char* b = static_cast<const char*>(std::memchr(p_, '\n', end_ - p_));
    throw UnsupportedPtx("PTX line " + std::to_string(line_) + ": " + what + ": " +
                         std::string(a, b ? b : end_));
  }
  static bool word_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c == '%';
  }
  void skip() {
    while (p_ < end_) {
      if (*p_ == '\n') {
        ++line_, ++p_;
      } else if (*p_ == ' ' || *p_ == '\t' || *p_ == '\r') {
        ++p_;
      } else if (*p_ == '/' && p_ + 1 < end_ && p_[1] == '/') {
        skip_line();
      } else if (*p_ == '/' && p_ + 1 < end_ && p_[1] == '*') {
        for (p_ += 2; p_ + 1 < end_ && !(p_[0] == '*' && p_[1] == '/'); ++p_) line_ += *p_ == '\n';
        p_ = std::min(p_ + 2, end_);
      } else {
        break;
      }
    }
  }
  void skip_line() {
    const void* q = std::memchr(p_, '\n', end_ - p_);
    p_ = q ? static_cast<const char*>(q) : end_;
  }
  void skip_statement() {
    while (p_ < end_ && *p_ != ';') {
      if (*p_ == '"') {
        for (++p_; p_ < end_ && *p_ != '"'; ++p_) {
        }
      }
      line_ += *p_ == '\n';
      ++p_;
    }
    ++p_;
  }
  bool peek(char c) {
    skip();
    return p_ < end_ && *p_ == c;
  }
  bool accept(char c) {
    if (!peek(c)) return false;
    ++p_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  std::string_view word() {
    skip();
    const char* a = p_;
    while (p_ < end_ && word_char(*p_)) ++p_;
    if (a == p_) fail("expected a name");
    return {a, static_cast<std::size_t>(p_ - a)};
  }
  // A directive's name, without its dot.
  std::string_view dotted() {
    expect('.');
    return word();
  }
  u64 integer() {
    skip();
    bool negative = false;
    while (p_ < end_ && (*p_ == '-' || *p_ == '+')) negative ^= *p_++ == '-', skip();
    if (accept('(')) {
      u64 v = integer();
      expect(')');
      return negative ? 0 - v : v;
    }
    Operand o = number();
    if (o.kind != Operand::Integer) fail("expected an integer");
    return negative ? 0 - o.value : o.value;
  }
  Operand number() {
    skip();
    Operand o;
    o.kind = Operand::Integer;
    const char* a = p_;
    if (p_ >= end_ || !(*p_ >= '0' && *p_ <= '9')) fail("expected a number");
    if (*p_ == '0' && p_ + 1 < end_ && (p_[1] == 'f' || p_[1] == 'F' || p_[1] == 'd' || p_[1] == 'D')) {
      o.kind = Operand::Float;
      o.is_double = p_[1] == 'd' || p_[1] == 'D';
      auto r = std::from_chars(p_ + 2, end_, o.value, 16);
      p_ = r.ptr;
      return o;
    }
    const char* q = p_;
    while (q < end_ && *q >= '0' && *q <= '9') ++q;
    if (q < end_ && (*q == '.' || *q == 'e' || *q == 'E') && !(*a == '0' && q[0] != '.')) {
      double d = 0;
      auto r = std::from_chars(a, end_, d);
      p_ = r.ptr;
      o.kind = Operand::Float;
      o.is_double = true;
      std::memcpy(&o.value, &d, 8);
      return o;
    }
    int base = 10;
    if (*p_ == '0' && p_ + 1 < end_) {
      if (p_[1] == 'x' || p_[1] == 'X')
        base = 16, p_ += 2;
      else if (p_[1] == 'b' || p_[1] == 'B')
        base = 2, p_ += 2;
      else if (p_[1] >= '0' && p_[1] <= '7')
        base = 8, p_ += 1;
    }
    auto r = std::from_chars(p_, end_, o.value, base);
    if (r.ec != std::errc{}) fail("bad number");
    p_ = r.ptr;
    if (p_ < end_ && (*p_ == 'U' || *p_ == 'u')) ++p_;
    return o;
  }

  // ---- module scope ----
  void directive() {
    bool external = false;
    for (;;) {
      if (accept(';')) return;
      if (!peek('.')) fail("expected a directive");
      std::string_view d = dotted();
      if (d == "visible" || d == "weak" || d == "common") continue;
      if (d == "extern") {
        external = true;
        continue;
      }
      if (d == "version" || d == "address_size" || d == "file" || d == "loc") return skip_line();
      if (d == "target") {
        skip();
        unit_.target = std::string(word());
        return skip_line();
      }
      if (d == "pragma" || d == "alias") return skip_statement();
      if (d == "section") {
        while (p_ < end_ && *p_ != '{') ++p_;
        int depth = 0;
        for (; p_ < end_; ++p_) {
          line_ += *p_ == '\n';
          if (*p_ == '{') ++depth;
          if (*p_ == '}' && --depth == 0) break;
        }
        ++p_;
        return;
      }
      if (d == "entry" || d == "func") return function(d == "entry", external);
      if (d == "global" || d == "const" || d == "shared") return module_variable(d, external);
      if (d == "tex" || d == "texref" || d == "samplerref" || d == "surfref" || d == "reg")
        return skip_statement();
      if (d.substr(0, 2) == "b8" || d == "b32" || d == "b64" || d == "b16") return skip_line();  // DWARF data
      fail("unknown directive ." + std::string(d));
    }
  }

  struct Declaration {
    std::string_view name;
    Type type = Type::None;
    u32 vector = 1, alignment = 0;
    u64 count = 1;
    bool array = false, unsized = false, managed = false;
    u32 element() const { return size_of(type); }
    u64 bytes() const { return count * vector * element(); }
    u32 align() const { return alignment ? alignment : element() * vector; }
  };
  // [.align N] [.vN] .type [.ptr ...] name [dims]
  Declaration declaration() {
    Declaration d;
    while (peek('.')) {
      std::string_view w = dotted();
      if (w == "align") {
        u32 n = static_cast<u32>(integer());
        if (d.type == Type::None) d.alignment = n;  // after .ptr it speaks of the pointee
      } else if (w == "v2") {
        d.vector = 2;
      } else if (w == "v4") {
        d.vector = 4;
      } else if (w == "v8") {
        d.vector = 8;
      } else if (w == "attribute") {
        expect('(');
        int depth = 1;
        const char* a = p_;
        while (p_ < end_ && depth) depth += (*p_ == '(') - (*p_ == ')'), ++p_;
        d.managed = std::string_view(a, p_ - a).find("managed") != std::string_view::npos;
      } else if (Type t = type_named(w); t != Type::None) {
        d.type = t;
      } else if (w != "ptr" && w != "global" && w != "shared" && w != "const" && w != "local" &&
                 w != "generic" && w != "param") {
        fail("unknown type ." + std::string(w));
      }
    }
    d.name = word();
    while (accept('[')) {
      d.array = true;
      if (accept(']')) {
        d.unsized = true;
        d.count = 0;
        continue;
      }
      u64 n = integer();
      d.count *= n;
      expect(']');
    }
    if (d.type == Type::None) fail("a declaration without a type");
    return d;
  }

  void module_variable(std::string_view space, bool external) {
    Declaration d = declaration();
    if (space == "shared") {
      auto [it, fresh] = unit_.shared.try_emplace(std::string(d.name));
      SharedVariable& s = it->second;
      s.bytes = static_cast<u32>(d.bytes());
      s.alignment = d.align();
      s.unsized = d.unsized || (external && s.bytes == 0);
      if (fresh && !s.unsized) {
        s.offset = align_up(unit_.shared_bytes, s.alignment);
        unit_.shared_bytes = s.offset + s.bytes;
      }
      skip_statement();
      return;
    }
    Variable v;
    v.name = std::string(d.name);
    v.alignment = d.align();
    v.constant = space == "const";
    v.managed = d.managed;
    v.external = external;
    std::vector<std::byte> data;
    if (accept('=')) {
      std::size_t at = 0;
      if (peek('{'))
        initialiser_list(v, data, at, d.element());
      else
        initialiser(v, data, at, d.element());
    }
    v.bytes = std::max<std::size_t>(d.bytes(), d.unsized ? data.size() : 0);
    data.resize(std::max(v.bytes, data.size()));
    v.initial = std::move(data);
    expect(';');
    if (auto it = unit_.variable_named.find(v.name); it != unit_.variable_named.end()) {
      Variable& old = unit_.variables[it->second];
      if (old.external || !external) old = std::move(v);  // a definition after its declaration
      return;
    }
    unit_.variable_named[v.name] = static_cast<u32>(unit_.variables.size());
    unit_.variables.push_back(std::move(v));
  }

  void initialiser_list(Variable& v, std::vector<std::byte>& data, std::size_t& at, u32 element) {
    expect('{');
    if (accept('}')) return;
    do {
      if (peek('}')) break;
      if (peek('{'))
        initialiser_list(v, data, at, element);
      else
        initialiser(v, data, at, element);
    } while (accept(','));
    expect('}');
  }
  void initialiser(Variable& v, std::vector<std::byte>& data, std::size_t& at, u32 element) {
    if (data.size() < at + element) data.resize(at + element);
    skip();
    bool negative = false;
    while (p_ < end_ && (*p_ == '-' || *p_ == '+')) negative ^= *p_++ == '-', skip();
    Relocation r;
    unsigned shift = 0;
    bool masked = false;
    if (p_ < end_ && *p_ >= '0' && *p_ <= '9') {
      Operand n = number();
      if (peek('(')) {  // a mask such as 0xFF00(symbol): one byte of the address
        u64 mask = n.value;
        while (shift < 56 && !((mask >> shift) & 0xff)) shift += 8;
        masked = true;
        ++p_;
      } else {
        u64 bits = n.value;
        if (n.kind == Operand::Float) {
          if (n.is_double && element == 4) {
            double x;
            std::memcpy(&x, &bits, 8);
            float f = static_cast<float>(negative ? -x : x);
            bits = 0;
            std::memcpy(&bits, &f, 4);
          } else if (negative) {
            bits ^= element == 8 ? 1ull << 63 : 1ull << 31;
          }
        } else if (negative) {
          bits = 0 - bits;
        }
        std::memcpy(&data[at], &bits, std::min<std::size_t>(element, 8));
        at += element;
        return;
      }
    }
    std::string_view symbol = word();
    if (symbol == "generic") {
      expect('(');
      symbol = word();
      expect(')');
    }
    s64 addend = 0;
    if (peek('+') || peek('-')) addend = static_cast<s64>(integer());
    if (masked) {
      expect(')');
    }
    r.offset = at;
    r.bytes = element;
    r.symbol = std::string(symbol);
    r.addend = addend;
    r.shift = shift;
    v.relocations.push_back(std::move(r));
    at += element;
  }
  // Addresses of functions are fixed numbers; everything else the runtime relocates.
  void resolve_function_initialisers() {
    for (Variable& v : unit_.variables) {
      std::vector<Relocation> kept;
      for (Relocation& r : v.relocations) {
        auto it = unit_.function_named.find(r.symbol);
        if (it == unit_.function_named.end()) {
          kept.push_back(std::move(r));
          continue;
        }
        u64 bits = (kFunctionWindow + 16ull * it->second->index + static_cast<u64>(r.addend)) >> r.shift;
        std::memcpy(v.initial.data() + r.offset, &bits, std::min<std::size_t>(r.bytes, 8));
      }
      v.relocations = std::move(kept);
    }
  }

  // ---- functions ----
  u32 add_variable(const Declaration& d, Space space) {
    LocalVariable v;
    v.name = d.name;
    v.space = space;
    v.bytes = static_cast<u32>(d.bytes());
    v.alignment = std::max(1u, d.align());
    v.unsized = d.unsized;
    if (space == Space::Shared) {
      // A kernel's own variables lie behind the module's; a device function's are the module's, as any kernel
      // may call it.
      u32& top = fn_->entry ? fn_->shared_bytes : unit_.shared_bytes;
      v.offset = align_up(top, v.alignment);
      if (!v.unsized) top = v.offset + v.bytes;
    } else {
      u32& top = space == Space::Param && fn_->entry ? fn_->parameter_bytes : fn_->frame_bytes;
      v.offset = align_up(top, v.alignment);
      top = v.offset + v.bytes;
    }
    u32 index = static_cast<u32>(fn_->variables.size());
    fn_->variables.push_back(v);
    scopes_[scope_].variables[v.name] = index;
    return index;
  }
  void parameter_list(std::vector<u32>& out) {
    if (!accept('(')) return;
    if (accept(')')) return;
    do {
      std::string_view d = dotted();
      Declaration declared = declaration();
      if (d == "reg") fail("register parameters are not supported");
      out.push_back(add_variable(declared, Space::Param));
    } while (accept(','));
    expect(')');
  }

  void function(bool entry, bool external) {
    auto made = std::make_unique<Function>();
    fn_ = made.get();
    fn_->entry = entry;
    fn_->external = external;
    scopes_.assign(1, Scope{});
    scope_ = 0;
    tables_.clear();
    if (peek('(')) parameter_list(fn_->results);
    fn_->name = std::string(word());
    parameter_list(fn_->parameters);
    while (peek('.')) {
      std::string_view d = dotted();
      if (d == "maxntid" || d == "reqntid") {
        u32 n = 1;
        do n *= static_cast<u32>(integer());
        while (accept(','));
        fn_->max_threads = n;
      } else if (d == "pragma") {
        skip_statement();
      } else if (d == "noreturn" || d == "explicitcluster" || d == "blocksareclusters" || d == "unified") {
        if (d == "unified" && accept('(')) skip_balanced();
      } else if (d == "minnctapersm" || d == "maxnctapersm" || d == "maxnreg" || d == "maxclusterrank" ||
                 d == "reqnctapercluster") {
        do integer();
        while (accept(','));
      } else if (d == "attribute") {
        expect('(');
        skip_balanced();
      } else {
        fail("unknown function directive ." + std::string(d));
      }
    }
    if (accept(';')) {
      fn_->defined = false;
    } else {
      expect('{');
      fn_->defined = true;
      body();
    }
    auto known = unit_.function_named.find(fn_->name);
    if (known == unit_.function_named.end()) {
      fn_->index = static_cast<u32>(unit_.functions.size());
      unit_.function_named.emplace(fn_->name, fn_);
      unit_.functions.push_back(std::move(made));
      // The key must view the stored name.
    } else if (fn_->defined) {
      Function* old = known->second;
      fn_->index = old->index;
      unit_.function_named.erase(known);
      unit_.functions[fn_->index] = std::move(made);
      unit_.function_named.emplace(fn_->name, fn_);
    }
    fn_ = nullptr;
  }
  void skip_balanced() {
    for (int depth = 1; p_ < end_ && depth; ++p_) depth += (*p_ == '(') - (*p_ == ')'), line_ += *p_ == '\n';
  }

  void body() {
    for (int depth = 1; depth;) {
      skip();
      if (p_ >= end_) fail("the text ends inside a function");
      switch (*p_) {
        case '{':
          ++p_, ++depth;
          scopes_.push_back(Scope{});
          scopes_.back().parent = static_cast<int>(scope_);
          scope_ = static_cast<u32>(scopes_.size() - 1);
          break;
        case '}':
          ++p_, --depth;
          if (depth) scope_ = static_cast<u32>(scopes_[scope_].parent);
          break;
        case ';': ++p_; break;
        case '.': body_directive(); break;
        case '@': instruction(); break;
        default: label_or_instruction();
      }
    }
    resolve_symbols();
  }

  void body_directive() {
    std::string_view d = dotted();
    if (d == "reg") {
      Type type = Type::None;
      while (peek('.')) {
        std::string_view w = dotted();
        if (Type t = type_named(w); t != Type::None)
          type = t;
        else
          fail("unsupported register type ." + std::string(w));
      }
      do {
        std::string_view name = word();
        u32 first = static_cast<u32>(fn_->registers.size());
        if (accept('<')) {
          u32 n = static_cast<u32>(integer());
          expect('>');
          fn_->registers.insert(fn_->registers.end(), n, type);
          scopes_[scope_].ranges[name] = {first, n};
        } else {
          fn_->registers.push_back(type);
          scopes_[scope_].registers[name] = first;
        }
      } while (accept(','));
      expect(';');
    } else if (d == "local" || d == "shared" || d == "param") {
      Space space = d == "local" ? Space::Local : d == "shared" ? Space::Shared : Space::Param;
      Declaration declared = declaration();
      add_variable(declared, space);
      if (space == Space::Param && fn_->entry) {
        // A call's argument inside a kernel lives in the frame, not among the kernel's own parameters.
        LocalVariable& v = fn_->variables.back();
        fn_->parameter_bytes = kernel_parameter_bytes();
        v.space = Space::Local;
        v.offset = align_up(fn_->frame_bytes, v.alignment);
        fn_->frame_bytes = v.offset + v.bytes;
      }
      skip_statement();
    } else if (d == "global" || d == "const") {
      module_variable(d, false);
    } else if (d == "loc" || d == "file") {
      skip_line();
    } else if (d == "pragma" || d == "branchtargets" || d == "callprototype" || d == "calltargets") {
      skip_statement();
    } else {
      fail("unknown directive ." + std::string(d));
    }
  }
  u32 kernel_parameter_bytes() const {
    u32 n = 0;
    for (u32 i : fn_->parameters) n = std::max(n, fn_->variables[i].offset + fn_->variables[i].bytes);
    return n;
  }

  void label_or_instruction() {
    const char* a = p_;
    u32 line = line_;
    std::string_view name = word();
    skip();
    if (p_ + 1 < end_ && *p_ == ':' && p_[1] != ':') {
      ++p_;
      if (peek('.')) {
        const char* before = p_;
        std::string_view d = dotted();
        if (d == "branchtargets") {
          TableReference t{name, {}, scope_};
          do t.labels.push_back(word());
          while (accept(','));
          expect(';');
          tables_.push_back(std::move(t));
          return;
        }
        if (d == "callprototype" || d == "calltargets") return skip_statement();
        p_ = before;
      }
      scopes_[scope_].labels[name] = static_cast<u32>(fn_->body.size());
      return;
    }
    p_ = a;
    line_ = line;
    instruction();
  }

  bool find_register(std::string_view name, u32& id) const {
    std::string_view prefix = name;
    while (!prefix.empty() && prefix.back() >= '0' && prefix.back() <= '9') prefix.remove_suffix(1);
    u32 number = 0;
    bool numbered = prefix.size() < name.size();
    if (numbered) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
    for (int s = static_cast<int>(scope_); s >= 0; s = scopes_[s].parent) {
      const Scope& scope = scopes_[s];
      if (auto it = scope.registers.find(name); it != scope.registers.end()) {
        id = it->second;
        return true;
      }
      if (!numbered) continue;
      if (auto it = scope.ranges.find(prefix); it != scope.ranges.end() && number < it->second.count) {
        id = it->second.first + number;
        return true;
      }
    }
    return false;
  }

  void instruction() {
    Instruction in;
    skip();
    const char* begin = p_;
    in.line = line_;
    in.scope = scope_;
    if (accept('@')) {
      in.predicated = true;
      in.predicate_negated = accept('!');
      std::string_view p = word();
      if (!find_register(p, in.predicate)) fail("unknown predicate " + std::string(p));
      skip();
    }
    const char* a = p_;
    while (p_ < end_ &&
           (word_char(*p_) || *p_ == '.' || (*p_ == ':' && p_ + 1 < end_ && (p_[1] == ':' || p_[-1] == ':'))))
      ++p_;
    std::string_view full(a, p_ - a);
    if (full.empty()) fail("expected an instruction");
    std::size_t dot = full.find('.');
    in.opcode = full.substr(0, dot);
    while (dot != std::string_view::npos) {
      std::size_t next = full.find('.', dot + 1);
      in.modifiers.push_back(full.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1));
      dot = next;
    }
    if (!peek(';')) {
      do in.operands.push_back(operand());
      while (accept(','));
    }
    in.text = std::string_view(begin, p_ - begin);
    expect(';');
    fn_->body.push_back(std::move(in));
  }

  Operand operand() {
    skip();
    Operand o;
    if (p_ >= end_) fail("expected an operand");
    char c = *p_;
    if (c == '!') {
      ++p_;
      o = operand();
      o.negated = true;
      return o;
    }
    if (c == '{' || c == '(') {
      ++p_;
      o.kind = c == '{' ? Operand::Vector : Operand::List;
      char close = c == '{' ? '}' : ')';
      if (accept(close)) return o;
      do o.items.push_back(operand());
      while (accept(','));
      expect(close);
      return o;
    }
    if (c == '[') {
      ++p_;
      o.kind = Operand::Address;
      o.items.push_back(operand());
      o.value = 0;
      if (peek('+') || peek('-')) o.value = offset();
      while (accept(',')) o.items.push_back(operand());
      expect(']');
      // sym+imm was parsed as part of the base
      o.value += o.items[0].kind == Operand::Symbol ? o.items[0].value : 0;
      if (o.items[0].kind == Operand::Symbol) o.items[0].value = 0;
      return o;
    }
    if (c == '-' || c == '+') {
      bool negative = false;
      while (p_ < end_ && (*p_ == '-' || *p_ == '+')) negative ^= *p_++ == '-', skip();
      o = number();
      if (negative) {
        if (o.kind == Operand::Integer)
          o.value = 0 - o.value;
        else
          o.value ^= o.is_double ? 1ull << 63 : 1ull << 31;
      }
      return o;
    }
    if (c >= '0' && c <= '9') return number();
    std::string_view name = word();
    if (name == "_") {
      o.kind = Operand::Sink;
      if (accept('|')) {
        Operand second = operand();
        o.items.push_back(second);
      }
      return o;
    }
    if (p_ < end_ && *p_ == '.') {  // a component: %tid.x
      const char* a = name.data();
      ++p_;
      word();
      name = std::string_view(a, p_ - a);
      o.kind = Operand::Special;
      o.name = name;
      return o;
    }
    u32 id;
    if (find_register(name, id)) {
      o.kind = Operand::Register;
      o.index = id;
      if (peek('|')) {
        ++p_;
        o.items.push_back(operand());
      }
      return o;
    }
    if (name[0] == '%') {
      o.kind = Operand::Special;
      o.name = name;
      return o;
    }
    if (name == "WARP_SZ") {
      o.kind = Operand::Integer;
      o.value = 32;
      return o;
    }
    if (name == "generic" && accept('(')) {
      o.kind = Operand::Symbol;
      o.name = word();
      expect(')');
    } else {
      o.kind = Operand::Symbol;
      o.name = name;
    }
    if (peek('+') || peek('-')) o.value = offset();
    return o;
  }
  u64 offset() {
    u64 total = 0;
    while (peek('+') || peek('-')) total += integer();
    return total;
  }

  template <class Map>
  bool look_up(u32 scope, Map Scope::*map, std::string_view name, u32& value) const {
    for (int s = static_cast<int>(scope); s >= 0; s = scopes_[s].parent) {
      const Map& m = scopes_[s].*map;
      if (auto it = m.find(name); it != m.end()) {
        value = it->second;
        return true;
      }
    }
    return false;
  }
  void resolve(Operand& o, u32 scope) {
    for (Operand& i : o.items) resolve(i, scope);
    if (o.kind != Operand::Symbol) return;
    if (look_up(scope, &Scope::variables, o.name, o.index))
      o.kind = Operand::Variable;
    else if (look_up(scope, &Scope::labels, o.name, o.index))
      o.kind = Operand::Label;
  }
  void resolve_symbols() {
    for (Instruction& in : fn_->body)
      for (Operand& o : in.operands) resolve(o, in.scope);
    for (const TableReference& t : tables_) {
      std::vector<u32>& out = fn_->branch_tables[t.name];
      for (std::string_view l : t.labels) {
        u32 at;
        if (!look_up(t.scope, &Scope::labels, l, at)) throw UnsupportedPtx("unknown label " + std::string(l));
        out.push_back(at);
      }
    }
  }
};

}  // namespace

std::shared_ptr<Unit> parse(std::string_view text) {
  auto unit = std::make_shared<Unit>();
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  unit->text = std::string(text);
  Parser(*unit).run();
  unit->reserved_shared = unit->text.find("%reserved_smem_offset") != std::string::npos;
  return unit;
}

}  // namespace vgpu::ptx
