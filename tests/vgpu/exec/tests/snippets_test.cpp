// One hand-written PTX kernel per instruction, on random and special operands, compared with host arithmetic.
#include <bit>
#include <functional>

#include "exec/fp.hpp"
#include "exec/tests/harness.hpp"

using namespace vgpu;
using ptx::bf16;
using ptx::half;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using ptx::Round;

namespace {

constexpr int kThreads = 32 * 24;
std::mt19937_64 g_random(7);

// A 64-bit pattern: its low 32 and 16 bits serve the smaller types too.
u64 pattern(int i) {
  static const u64 special[] = {0,
                                1,
                                ~0ull,
                                0x8000000000000000,
                                0x7fffffffffffffff,
                                0x80000000,
                                0x7fffffff,
                                0xffffffff,
                                0x8000,
                                0x7fff,
                                0x3f800000,
                                0xbf800000,
                                0x7f800000,
                                0xff800000,
                                0x7fc00000,
                                0x00000001,
                                0x007fffff,
                                0x80000001,
                                0x4f000000,
                                0x5f000000,
                                0x3ff0000000000000,
                                0xbff0000000000000,
                                0x7ff0000000000000,
                                0x7ff8000000000000,
                                0x0000000000000010,
                                0x3c003c00,
                                0xbc007c00,
                                0x7e00fc00,
                                0x00010400,
                                0x3f803f80,
                                31,
                                32,
                                33,
                                63,
                                64,
                                255,
                                256};
  constexpr int n = sizeof special / sizeof *special;
  switch (i % 4) {
    case 0: return special[g_random() % n];
    case 1: return g_random() >> (g_random() % 64);
    case 2: {  // a moderate float in the low word, a double over all when the random says so
      float f = std::ldexp(float(g_random() % 20000) / 10000 - 1, int(g_random() % 40) - 20);
      return (g_random() << 32) | std::bit_cast<u32>(f);
    }
    default:
      return std::bit_cast<u64>(
          std::ldexp(double(g_random() % 2000000) / 1000000 - 1, int(g_random() % 80) - 40));
  }
}

using Expected = std::function<u64(u64, u64, u64)>;
enum Compare { Exact, F32, F64, F16, BF16, F16x2, BF16x2 };  // floats: NaN equals NaN

bool same(u64 x, u64 y, Compare how, double tolerance) {
  auto real = [&](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (a == b) return tolerance > 0 || std::signbit(a) == std::signbit(b);
    return std::fabs(a - b) <= tolerance * std::fabs(b);
  };
  auto f = [](u64 v) { return std::bit_cast<float>(u32(v)); };
  switch (how) {
    case F32: return real(f(x), f(y));
    case F64: return real(std::bit_cast<double>(x), std::bit_cast<double>(y));
    case F16: return real(to_float(half{u16(x)}), to_float(half{u16(y)}));
    case BF16: return real(to_float(bf16{u16(x)}), to_float(bf16{u16(y)}));
    case F16x2: return same(x, y, F16, tolerance) && same(x >> 16, y >> 16, F16, tolerance);
    case BF16x2: return same(x, y, BF16, tolerance) && same(x >> 16, y >> 16, BF16, tolerance);
    default: return x == y;
  }
}

// In a snippet: operands %a %b %c (.b64), %ra %rb %rc (.b32), %ha %hb %hc (.b16), %fa.. (.f32), %da.. (.f64);
// results %o (.b64), %ro (.b32, stored zero-extended), %ho (.b16), %fo, %do; scratch %t0-%t9 (.b32), %u0-%u9
// (.b64), %p0-%p9.
void test(const std::string& snippet, Compare how, Expected expected, double tolerance = 0) {
  std::string out = "\tst.global.u64 [%out], %o;\n";
  auto mentions = [&](const char* r) { return snippet.find(r) != std::string::npos; };
  if (mentions("%ro")) out = "\tcvt.u64.u32 %o, %ro;\n" + out;
  if (mentions("%ho")) out = "\tcvt.u64.u16 %o, %ho;\n" + out;
  if (mentions("%fo")) out = "\tmov.b32 %ro, %fo;\n\tcvt.u64.u32 %o, %ro;\n" + out;
  if (mentions("%do")) out = "\tmov.b64 %o, %do;\n" + out;
  std::string text = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_in, .param .u64 k_out, .param .u32 k_skip)
{
	.reg .pred %p<10>;
	.reg .pred %skip;
	.reg .b16 %ha, %hb, %hc, %ho;
	.reg .b32 %ra, %rb, %rc, %ro, %t<10>, %tid, %every, %left;
	.reg .f32 %fa, %fb, %fc, %fo;
	.reg .b64 %a, %b, %c, %o, %u<10>, %in, %out;
	.reg .f64 %da, %db, %dc, %do;
	ld.param.u64 %in, [k_in];
	ld.param.u64 %out, [k_out];
	ld.param.u32 %every, [k_skip];
	mov.u32 %tid, %tid.x;
	mov.u32 %t0, %ctaid.x;
	mad.lo.u32 %tid, %t0, 128, %tid;
	rem.u32 %left, %tid, %every;
	setp.eq.u32 %skip, %left, 1;
	mad.wide.u32 %in, %tid, 24, %in;
	mad.wide.u32 %out, %tid, 8, %out;
	@%skip bra DONE;
	ld.global.u64 %a, [%in];
	ld.global.u64 %b, [%in+8];
	ld.global.u64 %c, [%in+16];
	cvt.u32.u64 %ra, %a;
	cvt.u32.u64 %rb, %b;
	cvt.u32.u64 %rc, %c;
	cvt.u16.u64 %ha, %a;
	cvt.u16.u64 %hb, %b;
	cvt.u16.u64 %hc, %c;
	mov.b32 %fa, %ra;
	mov.b32 %fb, %rb;
	mov.b32 %fc, %rc;
	mov.b64 %da, %a;
	mov.b64 %db, %b;
	mov.b64 %dc, %c;
	)" + snippet +
                     "\n" + out + R"(
DONE:
	ret;
}
)";
  try {
    Program p(text);
    std::vector<u64> in(3 * kThreads);
    for (u64& v : in) v = pattern(static_cast<int>(g_random()) & 3);
    u64 din = p.memory.put(in);
    for (u32 every : {5000u, 3u}) {  // all lanes; then every third lane leaves early
      u64 dout = p.memory.put(std::vector<u64>(kThreads, 0x1234));
      p.launch("k", {kThreads / 128}, {128}, din, dout, every);
      auto r = p.memory.get<u64>(dout);
      int bad = 0;
      for (int i = 0; i < kThreads; ++i) {
        bool skipped = u32(i) % every == 1;
        u64 e = skipped ? 0x1234 : expected(in[3 * i], in[3 * i + 1], in[3 * i + 2]);
        if (!(skipped ? r[i] == e : same(r[i], e, how, tolerance))) {
          if (++bad <= 2)
            std::printf("%s: of 0x%llx 0x%llx 0x%llx is 0x%llx, expected 0x%llx\n", snippet.c_str(),
                        (long long)in[3 * i], (long long)in[3 * i + 1], (long long)in[3 * i + 2],
                        (long long)r[i], (long long)e);
        }
      }
      CHECK(bad == 0);
    }
  } catch (const std::exception& e) {
    FAIL_CHECK(snippet << ": " << e.what());
  }
}

float f32(u64 v) { return std::bit_cast<float>(u32(v)); }
double f64(u64 v) { return std::bit_cast<double>(v); }
u64 bits(float f) { return std::bit_cast<u32>(f); }
u64 bits(double f) { return std::bit_cast<u64>(f); }

// op on 16, 32 and 64 bits, signed and unsigned.
template <class F>
void integers(const std::string& op, F f, bool with16 = true) {
  auto one = [&]<class T>(T, const char* type, const char* o, const char* a, const char* b) {
    test(op + "." + type + " " + o + ", " + a + ", " + b + ";", Exact,
         [=](u64 x, u64 y, u64) { return u64(std::make_unsigned_t<T>(f(T(x), T(y)))); });
  };
  if (with16) one(u16{}, "u16", "%ho", "%ha", "%hb"), one(s16{}, "s16", "%ho", "%ha", "%hb");
  one(u32{}, "u32", "%ro", "%ra", "%rb"), one(s32{}, "s32", "%ro", "%ra", "%rb");
  one(u64{}, "u64", "%o", "%a", "%b"), one(s64{}, "s64", "%o", "%a", "%b");
}

void integer_arithmetic() {
  integers("add", []<class T>(T a, T b) { return T(u64(a) + u64(b)); });
  integers("sub", []<class T>(T a, T b) { return T(u64(a) - u64(b)); });
  integers("mul.lo", []<class T>(T a, T b) { return T(u64(a) * u64(b)); });
  integers("mul.hi", []<class T>(T a, T b) {
    using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return T((W(a) * W(b)) >> (8 * sizeof(T)));
  });
  integers("min", []<class T>(T a, T b) { return a < b ? a : b; });
  integers("max", []<class T>(T a, T b) { return a > b ? a : b; });
  integers("div", []<class T>(T a, T b) {
    return b == 0 ? T(-1) : std::is_signed_v<T> && b == T(-1) ? T(0 - u64(a)) : T(a / b);
  });
  integers("rem", []<class T>(T a, T b) {
    return b == 0 ? a : std::is_signed_v<T> && b == T(-1) ? T(0) : T(a % b);
  });
  test("mul.wide.u32 %o, %ra, %rb;", Exact, [](u64 a, u64 b, u64) { return u64(u32(a)) * u32(b); });
  test("mul.wide.s32 %o, %ra, %rb;", Exact, [](u64 a, u64 b, u64) { return u64(s64(s32(a)) * s32(b)); });
  test("mul.wide.s16 %ro, %ha, %hb;", Exact,
       [](u64 a, u64 b, u64) { return u64(u32(s32(s16(a)) * s16(b))); });
  test("mad.wide.u32 %o, %ra, %rb, %c;", Exact, [](u64 a, u64 b, u64 c) { return u64(u32(a)) * u32(b) + c; });
  test("mad.wide.s32 %o, %ra, %rb, %c;", Exact,
       [](u64 a, u64 b, u64 c) { return u64(s64(s32(a)) * s32(b)) + c; });
  test("mad.wide.u16 %ro, %ha, %hb, %rc;", Exact,
       [](u64 a, u64 b, u64 c) { return u64(u32(u32(u16(a)) * u16(b) + u32(c))); });
  test("mad.lo.s32 %ro, %ra, %rb, %rc;", Exact, [](u64 a, u64 b, u64 c) { return u64(u32(a * b + c)); });
  test("mad.hi.u32 %ro, %ra, %rb, %rc;", Exact,
       [](u64 a, u64 b, u64 c) { return u64(u32(((u64(u32(a)) * u32(b)) >> 32) + c)); });
  test("mad.lo.u64 %o, %a, %b, %c;", Exact, [](u64 a, u64 b, u64 c) { return a * b + c; });
  test("mul24.lo.u32 %ro, %ra, %rb;", Exact,
       [](u64 a, u64 b, u64) { return u64(u32((a & 0xffffff) * (b & 0xffffff))); });
  test("mul24.hi.s32 %ro, %ra, %rb;", Exact, [](u64 a, u64 b, u64) {
    return u64(u32((s64(s32(u32(a) << 8) >> 8) * (s32(u32(b) << 8) >> 8)) >> 16));
  });
  test("sad.s32 %ro, %ra, %rb, %rc;", Exact,
       [](u64 a, u64 b, u64 c) { return u64(u32(c + (s32(a) < s32(b) ? b - a : a - b))); });
  test("sad.u64 %o, %a, %b, %c;", Exact, [](u64 a, u64 b, u64 c) { return c + (a < b ? b - a : a - b); });
  test("abs.s32 %ro, %ra;", Exact, [](u64 a, u64, u64) { return u64(s32(a) < 0 ? 0 - u32(a) : u32(a)); });
  test("abs.s64 %o, %a;", Exact, [](u64 a, u64, u64) { return s64(a) < 0 ? 0 - a : a; });
  test("neg.s16 %ho, %ha;", Exact, [](u64 a, u64, u64) { return u64(u16(0 - a)); });
  test("neg.s64 %o, %a;", Exact, [](u64 a, u64, u64) { return 0 - a; });
  test("add.sat.s32 %ro, %ra, %rb;", Exact, [](u64 a, u64 b, u64) {
    return u64(u32(std::clamp<s64>(s64(s32(a)) + s32(b), INT32_MIN, INT32_MAX)));
  });
  test("sub.sat.s32 %ro, %ra, %rb;", Exact, [](u64 a, u64 b, u64) {
    return u64(u32(std::clamp<s64>(s64(s32(a)) - s32(b), INT32_MIN, INT32_MAX)));
  });
  auto pair = [](auto f) {
    return [f](u64 a, u64 b, u64) {
      return u64(u32(f(a & 0xffff, b & 0xffff) & 0xffff) | u32(f(a >> 16 & 0xffff, b >> 16 & 0xffff)) << 16);
    };
  };
  test("add.u16x2 %ro, %ra, %rb;", Exact, pair([](u64 a, u64 b) { return a + b; }));
  test("min.s16x2 %ro, %ra, %rb;", Exact,
       pair([](u64 a, u64 b) { return u64(u16(std::min(s16(a), s16(b)))); }));
  test("max.u16x2 %ro, %ra, %rb;", Exact, pair([](u64 a, u64 b) { return std::max(a, b); }));
  // 128-bit sums of 32-bit words, and a difference.
  test(
      "mov.b64 {%t0, %t1}, %a; mov.b64 {%t2, %t3}, %b; add.cc.u32 %t4, %t0, %t2; addc.u32 %t5, %t1, %t3; "
      "mov.b64 %o, {%t4, %t5};",
      Exact, [](u64 a, u64 b, u64) { return a + b; });
  test(
      "mov.b64 {%t0, %t1}, %a; mov.b64 {%t2, %t3}, %b; sub.cc.u32 %t4, %t0, %t2; subc.u32 %t5, %t1, %t3; "
      "mov.b64 %o, {%t4, %t5};",
      Exact, [](u64 a, u64 b, u64) { return a - b; });
  test("add.cc.u64 %u0, %a, %b; addc.cc.u64 %u1, %a, %c; addc.u64 %o, %u0, 0;", Exact,
       [](u64 a, u64 b, u64 c) {
         unsigned __int128 low = (unsigned __int128)a + b, high = (unsigned __int128)a + c + u64(low >> 64);
         return u64(low) + u64(high >> 64);
       });
  test("mad.lo.cc.u32 %t0, %ra, %rb, %rc; madc.hi.u32 %t1, %ra, %rb, 0; mov.b64 %o, {%t0, %t1};", Exact,
       [](u64 a, u64 b, u64 c) { return u64(u32(a)) * u32(b) + u32(c); });
  test("dp4a.s32.u32 %ro, %ra, %rb, %rc;", Exact, [](u64 a, u64 b, u64 c) {
    u32 s = u32(c);
    for (int i = 0; i < 32; i += 8) s += u32(s8(a >> i) * int(u8(b >> i)));
    return u64(s);
  });
  test("dp2a.hi.u32.s32 %ro, %ra, %rb, %rc;", Exact, [](u64 a, u64 b, u64 c) {
    return u64(u32(c) + u32(int(u16(a)) * s8(b >> 16)) + u32(int(u16(a >> 16)) * s8(b >> 24)));
  });
}

void bit_operations() {
  test("and.b32 %ro, %ra, %rb;", Exact, [](u64 a, u64 b, u64) { return u64(u32(a & b)); });
  test("or.b64 %o, %a, %b;", Exact, [](u64 a, u64 b, u64) { return a | b; });
  test("xor.b16 %ho, %ha, %hb;", Exact, [](u64 a, u64 b, u64) { return u64(u16(a ^ b)); });
  test("not.b32 %ro, %ra;", Exact, [](u64 a, u64, u64) { return u64(u32(~a)); });
  test("cnot.b64 %o, %a;", Exact, [](u64 a, u64, u64) { return u64(a == 0); });
  test("shl.b32 %ro, %ra, %rb;", Exact,
       [](u64 a, u64 b, u64) { return u64(u32(b) > 31 ? 0 : u32(a) << u32(b)); });
  test("shl.b64 %o, %a, %rb;", Exact, [](u64 a, u64 b, u64) { return u32(b) > 63 ? 0 : a << u32(b); });
  test("shl.b16 %ho, %ha, %rb;", Exact,
       [](u64 a, u64 b, u64) { return u64(u32(b) > 15 ? 0 : u16(u32(u16(a)) << u32(b))); });
  test("shr.s32 %ro, %ra, %rb;", Exact,
       [](u64 a, u64 b, u64) { return u64(u32(s32(a) >> std::min(u32(b), 31u))); });
  test("shr.u32 %ro, %ra, %rb;", Exact,
       [](u64 a, u64 b, u64) { return u64(u32(b) > 31 ? 0 : u32(a) >> u32(b)); });
  test("shr.s64 %o, %a, %rb;", Exact, [](u64 a, u64 b, u64) { return u64(s64(a) >> std::min(u32(b), 63u)); });
  test("shr.s16 %ho, %ha, 3;", Exact, [](u64 a, u64, u64) { return u64(u16(s16(a) >> 3)); });
  test("shf.l.wrap.b32 %ro, %ra, %rb, %rc;", Exact,
       [](u64 a, u64 b, u64 c) { return u64(u32(((b << 32 | u32(a)) << (c & 31)) >> 32)); });
  test("shf.r.clamp.b32 %ro, %ra, %rb, %rc;", Exact,
       [](u64 a, u64 b, u64 c) { return u64(u32((b << 32 | u32(a)) >> std::min(u32(c), 32u))); });
  test("shf.l.clamp.b32 %ro, %ra, %rb, %rc;", Exact, [](u64 a, u64 b, u64 c) {
    return u64(u32(c) >= 32 ? u32(a) : u32(((b << 32 | u32(a)) << u32(c)) >> 32));
  });
  for (int table : {0xe8, 0x96, 0x80, 0xfe, 0x3a, 0x55})
    test("lop3.b32 %ro, %ra, %rb, %rc, " + std::to_string(table) + ";", Exact, [table](u64 a, u64 b, u64 c) {
      u32 r = 0;
      for (int i = 0; i < 32; ++i)
        r |= u32(table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
      return u64(r);
    });
  test("popc.b32 %ro, %ra;", Exact, [](u64 a, u64, u64) { return u64(std::popcount(u32(a))); });
  test("popc.b64 %ro, %a;", Exact, [](u64 a, u64, u64) { return u64(std::popcount(a)); });
  test("clz.b32 %ro, %ra;", Exact, [](u64 a, u64, u64) { return u64(std::countl_zero(u32(a))); });
  test("clz.b64 %ro, %a;", Exact, [](u64 a, u64, u64) { return u64(std::countl_zero(a)); });
  test("brev.b32 %ro, %ra;", Exact, [](u64 a, u64, u64) {
    u32 r = 0;
    for (int i = 0; i < 32; ++i) r |= u32(a >> i & 1) << (31 - i);
    return u64(r);
  });
  test("bfind.u32 %ro, %ra;", Exact, [](u64 a, u64, u64) { return u64(u32(31 - std::countl_zero(u32(a)))); });
  test("bfind.s64 %ro, %a;", Exact,
       [](u64 a, u64, u64) { return u64(u32(63 - std::countl_zero(s64(a) < 0 ? ~a : a))); });
  test("bfind.shiftamt.u32 %ro, %ra;", Exact,
       [](u64 a, u64, u64) { return u64(u32(a) ? u32(std::countl_zero(u32(a))) : ~0u); });
  auto extract = [](u64 a, u32 p, u32 n, int width, bool sign) {
    p &= 255, n &= 255;
    u64 r = 0;
    u32 at = n ? std::min<u32>(p + n - 1, width - 1) : 0;
    u64 fill = sign && n ? a >> at & 1 : 0;
    for (u32 i = 0; i < u32(width); ++i) r |= (i < n && p + i < u32(width) ? a >> (p + i) & 1 : fill) << i;
    return r;
  };
  test("bfe.u32 %ro, %ra, %rb, %rc;", Exact,
       [=](u64 a, u64 b, u64 c) { return extract(u32(a), u32(b), u32(c), 32, false); });
  test("bfe.s32 %ro, %ra, %rb, %rc;", Exact,
       [=](u64 a, u64 b, u64 c) { return extract(u32(a), u32(b), u32(c), 32, true); });
  test("bfe.u64 %o, %a, 7, 40;", Exact, [=](u64 a, u64, u64) { return extract(a, 7, 40, 64, false); });
  test("bfe.s64 %o, %a, %rb, %rc;", Exact,
       [=](u64 a, u64 b, u64 c) { return extract(a, u32(b), u32(c), 64, true); });
  auto insert = [](u64 a, u64 b, u32 p, u32 n, u32 width) {
    p &= 255, n &= 255;
    for (u32 i = 0; i < n && p + i < width; ++i) b = (b & ~(1ull << (p + i))) | (a >> i & 1) << (p + i);
    return b;
  };
  test("bfi.b32 %ro, %ra, %rb, %rc, 9;", Exact,
       [=](u64 a, u64 b, u64 c) { return insert(u32(a), u32(b), u32(c), 9, 32); });
  test("bfi.b64 %o, %a, %b, 13, %rc;", Exact,
       [=](u64 a, u64 b, u64 c) { return insert(a, b, 13, u32(c), 64); });
  test("bmsk.clamp.b32 %ro, %ra, %rb;", Exact, [](u64 a, u64 b, u64) {
    u64 r = 0;
    for (u64 i = u32(a); i < std::min<u64>(32, u64(u32(a)) + u32(b)); ++i) r |= 1ull << i;
    return r;
  });
  test("szext.clamp.s32 %ro, %ra, %rb;", Exact, [](u64 a, u64 b, u64) {
    u32 n = u32(b);
    return u64(n == 0 ? 0 : n >= 32 ? u32(a) : u32(s32(u32(a) << (32 - n)) >> (32 - n)));
  });
  auto permute = [](u64 a, u64 b, u64 c) {
    u64 v = b << 32 | u32(a);
    u32 r = 0;
    for (int i = 0; i < 4; ++i) {
      u32 s = c >> (4 * i) & 15, byte = u8(v >> 8 * (s & 7));
      r |= (s & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
    }
    return u64(r);
  };
  test("prmt.b32 %ro, %ra, %rb, %rc;", Exact, permute);
  test("prmt.b32 %ro, %ra, %rb, 0x5410;", Exact, [=](u64 a, u64 b, u64) { return permute(a, b, 0x5410); });
  test("prmt.b32 %ro, %ra, %rb, 0x92f1;", Exact, [=](u64 a, u64 b, u64) { return permute(a, b, 0x92f1); });
  test("prmt.b32.rc16 %ro, %ra, %rb, %rc;", Exact,
       [=](u64 a, u64 b, u64 c) { return permute(a, b, c & 1 ? 0x3232 : 0x1010); });
  test("mov.b32 {%ha, %hb}, %rc; mov.b32 %ro, {%hb, %ha};", Exact,
       [](u64, u64, u64 c) { return u64(u32(c << 16 | (c >> 16 & 0xffff))); });
  test("mov.b64 {%ha, %hb, %hc, %ho}, %a; mov.b64 %o, {%hc, %ho, %ha, %hb}; cvt.u16.u64 %ho, %o;", Exact,
       [](u64 a, u64, u64) { return u64(u16(a >> 32)); });
}

void comparisons() {
  auto compare = [](const char* op, auto a, auto b) -> bool {
    std::string s = op;
    bool nan = a != a || b != b;
    if (s == "num") return !nan;
    if (s == "nan") return nan;
    bool unordered = s.size() == 3;
    if (nan) return unordered;
    s = s.substr(0, 2);
    if (s == "lo") s = "lt";
    if (s == "ls") s = "le";
    if (s == "hi") s = "gt";
    if (s == "hs") s = "ge";
    return s == "eq"   ? a == b
           : s == "ne" ? a != b
           : s == "lt" ? a < b
           : s == "le" ? a <= b
           : s == "gt" ? a > b
                       : a >= b;
  };
  auto both = [&](const std::string& type, const char* a, const char* b, const char* op, auto get) {
    test("setp." + std::string(op) + "." + type + " %p1, " + a + ", " + b + "; selp.u32 %ro, 7, 9, %p1;",
         Exact, [=](u64 x, u64 y, u64) { return u64(compare(op, get(x), get(y)) ? 7 : 9); });
  };
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    both("s32", "%ra", "%rb", op, [](u64 v) { return s32(v); });
    both("u64", "%a", "%b", op, [](u64 v) { return v; });
    both("s64", "%a", "%b", op, [](u64 v) { return s64(v); });
    both("s16", "%ha", "%hb", op, [](u64 v) { return s16(v); });
    both("u16", "%ha", "%hb", op, [](u64 v) { return u16(v); });
  }
  for (const char* op : {"lo", "ls", "hi", "hs"}) both("u32", "%ra", "%rb", op, [](u64 v) { return u32(v); });
  for (const char* op :
       {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}) {
    both("f32", "%fa", "%fb", op, [](u64 v) { return f32(v); });
    both("f64", "%da", "%db", op, [](u64 v) { return f64(v); });
    both("f16", "%ha", "%hb", op, [](u64 v) { return to_float(half{u16(v)}); });
    both("bf16", "%ha", "%hb", op, [](u64 v) { return to_float(bf16{u16(v)}); });
  }
  test("setp.lt.ftz.f32 %p1, %fa, 0f00000000; selp.b32 %ro, 1, 0, %p1;", Exact,
       [](u64 a, u64, u64) { return u64(ptx::flush(f32(a)) < 0); });
  test(
      "setp.gt.s32 %p0, %rc, 0; setp.lt.and.s32 %p1|%p2, %ra, %rb, %p0; selp.b32 %t0, 1, 0, %p1; selp.b32 "
      "%t1, 2, 0, %p2; or.b32 %ro, %t0, %t1;",
      Exact, [](u64 a, u64 b, u64 c) {
        bool q = s32(c) > 0, x = s32(a) < s32(b);
        return u64((x && q ? 1 : 0) | (!x && q ? 2 : 0));
      });
  test("setp.gt.s32 %p0, %rc, 0; setp.lt.xor.u32 %p1, %ra, %rb, !%p0; selp.b32 %ro, 1, 0, %p1;", Exact,
       [](u64 a, u64 b, u64 c) { return u64((u32(a) < u32(b)) != !(s32(c) > 0)); });
  test(
      "setp.gt.f16x2 %p1|%p2, %ra, %rb; selp.b32 %t0, 1, 0, %p1; selp.b32 %t1, 2, 0, %p2; or.b32 %ro, %t0, "
      "%t1;",
      Exact, [](u64 a, u64 b, u64) {
        auto h = [](u64 v, int s) { return to_float(half{u16(v >> s)}); };
        return u64((h(a, 0) > h(b, 0) ? 1 : 0) | (h(a, 16) > h(b, 16) ? 2 : 0));
      });
  test("set.lt.u32.s32 %ro, %ra, %rb;", Exact,
       [](u64 a, u64 b, u64) { return u64(s32(a) < s32(b) ? ~0u : 0); });
  test("set.ge.f32.f32 %fo, %fa, %fb;", Exact,
       [](u64 a, u64 b, u64) { return u64(f32(a) >= f32(b) ? 0x3f800000 : 0); });
  test("set.ltu.f16x2.f16x2 %ro, %ra, %rb;", Exact, [](u64 a, u64 b, u64) {
    auto h = [](u64 v, int s) { return to_float(half{u16(v >> s)}); };
    return u64((!(h(a, 0) >= h(b, 0)) ? 0x3c00u : 0) | (!(h(a, 16) >= h(b, 16)) ? 0x3c000000u : 0));
  });
  test("selp.f64 %do, %da, %db, %p0;", F64, [](u64 a, u64, u64) { return a; });  // predicates start as true
  test("slct.b64.s32 %o, %a, %b, %rc;", Exact, [](u64 a, u64 b, u64 c) { return s32(c) >= 0 ? a : b; });
  test("slct.f32.f32 %fo, %fa, %fb, %fc;", F32,
       [](u64 a, u64 b, u64 c) { return u64(u32(f32(c) >= 0 ? a : b)); });
  test(
      "setp.lt.s32 %p1, %ra, 0; setp.lt.s32 %p2, %rb, 0; xor.pred %p3, %p1, %p2; not.pred %p4, %p3; or.pred "
      "%p5, %p4, !%p1; and.pred %p6, %p5, %p2; mov.pred %p7, %p6; mov.b32 %ro, 0; @%p7 mov.b32 %ro, 1; @!%p5 "
      "add.u32 %ro, %ro, 2;",
      Exact, [](u64 a, u64 b, u64) {
        bool x = s32(a) < 0, y = s32(b) < 0, p5 = x == y || !x;
        return u64((p5 && y ? 1 : 0) + (p5 ? 0 : 2));
      });
}

void floating() {
  struct Mode {
    const char* name;
    Round round;
  };
  for (Mode m : {Mode{"rn", Round::Nearest}, Mode{"rz", Round::Zero}, Mode{"rm", Round::Down},
                 Mode{"rp", Round::Up}}) {
    std::string r = m.name;
    Round d = m.round;
    test("add." + r + ".f32 %fo, %fa, %fb;", F32,
         [=](u64 a, u64 b, u64) { return bits(ptx::add_round(f32(a), f32(b), d)); });
    test("sub." + r + ".f64 %do, %da, %db;", F64,
         [=](u64 a, u64 b, u64) { return bits(ptx::add_round(f64(a), -f64(b), d)); });
    test("mul." + r + ".f32 %fo, %fa, %fb;", F32,
         [=](u64 a, u64 b, u64) { return bits(ptx::mul_round(f32(a), f32(b), d)); });
    test("mul." + r + ".f64 %do, %da, %db;", F64,
         [=](u64 a, u64 b, u64) { return bits(ptx::mul_round(f64(a), f64(b), d)); });
    test("fma." + r + ".f32 %fo, %fa, %fb, %fc;", F32,
         [=](u64 a, u64 b, u64 c) { return bits(ptx::fma_round(f32(a), f32(b), f32(c), d)); });
    test("fma." + r + ".f64 %do, %da, %db, %dc;", F64,
         [=](u64 a, u64 b, u64 c) { return bits(ptx::fma_round(f64(a), f64(b), f64(c), d)); });
    test("div." + r + ".f32 %fo, %fa, %fb;", F32,
         [=](u64 a, u64 b, u64) { return bits(ptx::div_round(f32(a), f32(b), d)); });
    test("div." + r + ".f64 %do, %da, %db;", F64,
         [=](u64 a, u64 b, u64) { return bits(ptx::div_round(f64(a), f64(b), d)); });
    test("sqrt." + r + ".f32 %fo, %fa;", F32,
         [=](u64 a, u64, u64) { return bits(ptx::sqrt_round(f32(a), d)); });
    test("sqrt." + r + ".f64 %do, %da;", F64,
         [=](u64 a, u64, u64) { return bits(ptx::sqrt_round(f64(a), d)); });
    test("rcp." + r + ".f32 %fo, %fa;", F32,
         [=](u64 a, u64, u64) { return bits(ptx::div_round(1.0f, f32(a), d)); });
  }
  test("add.f32 %fo, %fa, %fb;", F32, [](u64 a, u64 b, u64) { return bits(f32(a) + f32(b)); });
  test("sub.f32 %fo, %fa, %fb;", F32, [](u64 a, u64 b, u64) { return bits(f32(a) - f32(b)); });
  test("mul.ftz.f32 %fo, %fa, %fb;", F32,
       [](u64 a, u64 b, u64) { return bits(ptx::flush(ptx::flush(f32(a)) * ptx::flush(f32(b)))); });
  test("add.sat.f32 %fo, %fa, %fb;", F32, [](u64 a, u64 b, u64) {
    float s = f32(a) + f32(b);
    return bits(s > 0 ? std::min(s, 1.0f) : 0.0f);
  });
  test("fma.rn.ftz.sat.f32 %fo, %fa, %fb, %fc;", F32, [](u64 a, u64 b, u64 c) {
    float s = ptx::flush(std::fma(ptx::flush(f32(a)), ptx::flush(f32(b)), ptx::flush(f32(c))));
    return bits(s > 0 ? std::min(s, 1.0f) : 0.0f);
  });
  test("mul.f64 %do, %da, %db;", F64, [](u64 a, u64 b, u64) { return bits(f64(a) * f64(b)); });
  test("add.f64 %do, %da, 0d3FF8000000000000;", F64, [](u64 a, u64, u64) { return bits(f64(a) + 1.5); });
  test("add.f32 %fo, %fa, 0f3FC00000;", F32, [](u64 a, u64, u64) { return bits(f32(a) + 1.5f); });
  auto smaller = [](auto a, auto b) {
    return a != a ? b : b != b ? a : a < b || (a == b && std::signbit(a)) ? a : b;
  };
  auto larger = [](auto a, auto b) {
    return a != a ? b : b != b ? a : a > b || (a == b && std::signbit(b)) ? a : b;
  };
  test("min.f32 %fo, %fa, %fb;", F32, [=](u64 a, u64 b, u64) { return bits(smaller(f32(a), f32(b))); });
  test("max.f32 %fo, %fa, %fb;", F32, [=](u64 a, u64 b, u64) { return bits(larger(f32(a), f32(b))); });
  test("min.f64 %do, %da, %db;", F64, [=](u64 a, u64 b, u64) { return bits(smaller(f64(a), f64(b))); });
  test("max.NaN.f32 %fo, %fa, %fb;", F32, [=](u64 a, u64 b, u64) {
    return bits(std::isnan(f32(a)) || std::isnan(f32(b)) ? NAN : larger(f32(a), f32(b)));
  });
  test("min.xorsign.abs.f32 %fo, %fa, %fb;", F32, [=](u64 a, u64 b, u64) {
    float x = f32(a), y = f32(b), m = smaller(std::fabs(x), std::fabs(y));
    return bits(std::copysign(m, std::signbit(x) != std::signbit(y) ? -1.0f : 1.0f));
  });
  test("abs.f32 %fo, %fa;", F32, [](u64 a, u64, u64) { return bits(std::fabs(f32(a))); });
  test("neg.f64 %do, %da;", F64, [](u64 a, u64, u64) { return bits(-f64(a)); });
  test("neg.ftz.f32 %fo, %fa;", F32, [](u64 a, u64, u64) { return bits(-ptx::flush(f32(a))); });
  test("copysign.f32 %fo, %fa, %fb;", Exact,
       [](u64 a, u64 b, u64) { return u64((u32(a) & 0x80000000u) | (u32(b) & 0x7fffffffu)); });
  test("copysign.f64 %do, %da, %db;", Exact,
       [](u64 a, u64 b, u64) { return (a & 1ull << 63) | (b & ~(1ull << 63)); });
  test(
      "div.full.f32 %fo, %fa, %fb;", F32, [](u64 a, u64 b, u64) { return bits(f32(a) / f32(b)); }, 3e-7);
  test(
      "rsqrt.approx.f32 %fo, %fa;", F32,
      [](u64 a, u64, u64) { return bits(float(1 / std::sqrt(double(f32(a))))); }, 3e-7);
  test(
      "ex2.approx.f32 %fo, %fa;", F32, [](u64 a, u64, u64) { return bits(float(std::exp2(double(f32(a))))); },
      3e-7);
  test(
      "lg2.approx.f32 %fo, %fa;", F32, [](u64 a, u64, u64) { return bits(float(std::log2(double(f32(a))))); },
      3e-7);
  test(
      "sin.approx.f32 %fo, %fa;", F32, [](u64 a, u64, u64) { return bits(float(std::sin(double(f32(a))))); },
      3e-7);
  test(
      "tanh.approx.f32 %fo, %fa;", F32,
      [](u64 a, u64, u64) { return bits(float(std::tanh(double(f32(a))))); }, 3e-7);
  test(
      "rcp.approx.ftz.f64 %do, %da;", F64,
      [](u64 a, u64, u64) {
        auto flush = [](double x) { return std::fabs(x) < 0x1p-1022 ? std::copysign(0.0, x) : x; };
        return bits(flush(1 / flush(f64(a))));
      },
      1e-6);
  for (const char* t : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"})
    test(std::string("testp.") + t + ".f32 %p1, %fa; selp.b32 %ro, 1, 0, %p1;", Exact, [t](u64 a, u64, u64) {
      std::string s = t;
      float x = f32(a);
      int c = std::fpclassify(x);
      return u64(s == "finite"       ? std::isfinite(x)
                 : s == "infinite"   ? std::isinf(x)
                 : s == "number"     ? !std::isnan(x)
                 : s == "notanumber" ? std::isnan(x)
                 : s == "normal"     ? c == FP_NORMAL
                                     : c == FP_SUBNORMAL);
    });
}

template <class H>
void halves(const std::string& type, Compare one, Compare two, H (*exact)(double)) {
  auto get = [](u64 v) { return ptx::to_double(H{u16(v)}); };
  auto put = [=](double v) { return u64(exact(v).bits); };
  auto single = [&](const std::string& op, int operands, auto f) {
    std::string text =
        op + "." + type + " %ho, %ha" + (operands > 1 ? ", %hb" : "") + (operands > 2 ? ", %hc" : "") + ";";
    test(text, one, [=](u64 a, u64 b, u64 c) { return f(a & 0xffff, b & 0xffff, c & 0xffff); });
    std::string pair =
        op + "." + type + "x2 %ro, %ra" + (operands > 1 ? ", %rb" : "") + (operands > 2 ? ", %rc" : "") + ";";
    test(pair, two, [=](u64 a, u64 b, u64 c) {
      return f(a & 0xffff, b & 0xffff, c & 0xffff) | f(a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff)
                                                         << 16;
    });
  };
  single("add.rn", 2, [=](u64 a, u64 b, u64) { return put(ptx::add_odd(get(a), get(b))); });
  single("sub.rn", 2, [=](u64 a, u64 b, u64) { return put(ptx::add_odd(get(a), -get(b))); });
  single("mul.rn", 2, [=](u64 a, u64 b, u64) { return put(get(a) * get(b)); });
  single("fma.rn", 3, [=](u64 a, u64 b, u64 c) { return put(ptx::add_odd(get(a) * get(b), get(c))); });
  single("fma.rn.relu", 3, [=](u64 a, u64 b, u64 c) {
    double v = ptx::add_odd(get(a) * get(b), get(c));
    return v <= 0 || std::signbit(to_float(H{u16(put(v))})) ? (v != v ? put(NAN) : 0) : put(v);
  });
  single("neg", 1, [=](u64 a, u64, u64) { return a ^ 0x8000; });
  single("abs", 1, [=](u64 a, u64, u64) { return a & 0x7fff; });
  single("min", 2, [=](u64 a, u64 b, u64) {
    double x = get(a), y = get(b);
    return x != x ? b : y != y ? a : x < y || (x == y && (a & 0x8000)) ? a : b;
  });
  single("max.NaN", 2, [=](u64 a, u64 b, u64) {
    double x = get(a), y = get(b);
    return x != x || y != y ? put(NAN) : x > y || (x == y && !(a & 0x8000)) ? a : b;
  });
}

void conversions() {
  // integers
  test("cvt.s32.s8 %ro, %ra;", Exact, [](u64 a, u64, u64) { return u64(u32(s8(a))); });
  test("cvt.u16.u8 %ho, %ha;", Exact, [](u64 a, u64, u64) { return u64(u8(a)); });
  test("cvt.s64.s32 %o, %ra;", Exact, [](u64 a, u64, u64) { return u64(s64(s32(a))); });
  test("cvt.s64.s16 %o, %ha;", Exact, [](u64 a, u64, u64) { return u64(s64(s16(a))); });
  test("cvt.u64.u16 %o, %ha;", Exact, [](u64 a, u64, u64) { return u64(u16(a)); });
  test("cvt.sat.u8.s32 %ro, %ra;", Exact,
       [](u64 a, u64, u64) { return u64(std::clamp<s32>(s32(a), 0, 255)); });
  test("cvt.sat.s16.s64 %t0, %a; and.b32 %ro, %t0, 0xffff;", Exact,
       [](u64 a, u64, u64) { return u64(u16(std::clamp<s64>(s64(a), -32768, 32767))); });
  test("cvt.sat.s32.u64 %ro, %a;", Exact,
       [](u64 a, u64, u64) { return u64(u32(std::min<u64>(a, INT32_MAX))); });
  test("cvt.s8.s32 %ro, %ra;", Exact, [](u64 a, u64, u64) { return u64(u32(s32(s8(a)))); });
  test("cvt.pack.sat.u8.s32.b32 %ro, %ra, %rb, %rc;", Exact, [](u64 a, u64 b, u64 c) {
    return u64(
        u32(c << 16 | u32(std::clamp<s32>(s32(a), 0, 255)) << 8 | u32(std::clamp<s32>(s32(b), 0, 255))));
  });
  test("cvt.pack.sat.s16.s32 %ro, %ra, %rb;", Exact, [](u64 a, u64 b, u64) {
    auto s = [](u64 v) { return u32(u16(std::clamp<s32>(s32(v), -32768, 32767))); };
    return u64(s(a) << 16 | s(b));
  });
  // floats to integers and back
  struct Mode {
    const char *whole, *half;
    Round round;
  };
  for (Mode m : {Mode{"rni", "rn", Round::Nearest}, Mode{"rzi", "rz", Round::Zero},
                 Mode{"rmi", "rm", Round::Down}, Mode{"rpi", "rp", Round::Up}}) {
    std::string i = m.whole, r = m.half;
    Round d = m.round;
    auto clamp = [=](double v, double low, double high) {
      return v != v ? 0.0 : std::clamp(ptx::integral(v, d), low, high);
    };
    auto to64 = [=](double v) {
      v = ptx::integral(v, d);
      return v != v ? INT64_MIN : v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : s64(v);
    };
    test("cvt." + i + ".s32.f32 %ro, %fa;", Exact,
         [=](u64 a, u64, u64) { return u64(u32(s32(clamp(f32(a), INT32_MIN, INT32_MAX)))); });
    test("cvt." + i + ".u32.f64 %ro, %da;", Exact,
         [=](u64 a, u64, u64) { return u64(u32(clamp(f64(a), 0, UINT32_MAX))); });
    test("cvt." + i + ".s64.f32 %o, %fa;", Exact, [=](u64 a, u64, u64) { return u64(to64(f32(a))); });
    test("cvt." + i + ".s64.f64 %o, %da;", Exact, [=](u64 a, u64, u64) { return u64(to64(f64(a))); });
    test("cvt." + i + ".s16.f16 %ho, %ha;", Exact,
         [=](u64 a, u64, u64) { return u64(u16(s16(clamp(to_float(half{u16(a)}), -32768, 32767)))); });
    test("cvt." + i + ".f32.f32 %fo, %fa;", F32,
         [=](u64 a, u64, u64) { return bits(ptx::integral(f32(a), d)); });
    test("cvt." + i + ".f64.f64 %do, %da;", F64,
         [=](u64 a, u64, u64) { return bits(ptx::integral(f64(a), d)); });
    test("cvt." + r + ".f32.s32 %fo, %ra;", F32,
         [=](u64 a, u64, u64) { return bits(ptx::float_of(double(s32(a)), d)); });
    test("cvt." + r + ".f32.u64 %fo, %a;", F32, [=](u64 a, u64, u64) { return bits(ptx::float_of(a, d)); });
    test("cvt." + r + ".f64.s64 %do, %a;", F64,
         [=](u64 a, u64, u64) { return bits(ptx::double_of(s64(a), d)); });
    test("cvt." + r + ".f32.f64 %fo, %da;", F32,
         [=](u64 a, u64, u64) { return bits(ptx::float_of(f64(a), d)); });
    test("cvt." + r + ".f16.f32 %ho, %fa;", F16,
         [=](u64 a, u64, u64) { return u64(ptx::round_to(f32(a), ptx::kHalf, d, false)); });
    test("cvt." + r + ".f16.f64 %ho, %da;", F16,
         [=](u64 a, u64, u64) { return u64(ptx::round_to(f64(a), ptx::kHalf, d, false)); });
    test("cvt." + r + ".bf16.f32 %ho, %fa;", BF16,
         [=](u64 a, u64, u64) { return u64(ptx::round_to(f32(a), ptx::kBf16, d, false)); });
    test("cvt." + r + ".f16.s32 %ho, %ra;", F16,
         [=](u64 a, u64, u64) { return u64(ptx::round_to(s32(a), ptx::kHalf, d, false)); });
  }
  test("cvt.sat.f32.f32 %fo, %fa;", F32, [](u64 a, u64, u64) {
    float x = f32(a);
    return bits(x > 0 ? std::min(x, 1.0f) : 0.0f);
  });
  test("cvt.f64.f32 %do, %fa;", F64, [](u64 a, u64, u64) { return bits(double(f32(a))); });
  test("cvt.f32.f16 %fo, %ha;", F32,
       [](u64 a, u64, u64) { return bits(float(ptx::value_of(a & 0xffff, ptx::kHalf))); });
  test("cvt.f32.bf16 %fo, %ha;", F32,
       [](u64 a, u64, u64) { return bits(float(ptx::value_of(a & 0xffff, ptx::kBf16))); });
  test("cvt.ftz.f64.f32 %do, %fa;", F64, [](u64 a, u64, u64) { return bits(double(ptx::flush(f32(a)))); });
  test("cvt.rn.f16x2.f32 %ro, %fa, %fb;", F16x2, [](u64 a, u64 b, u64) {
    return u64(ptx::round_to(f32(a), ptx::kHalf, Round::Nearest, false)) << 16 |
           ptx::round_to(f32(b), ptx::kHalf, Round::Nearest, false);
  });
  test("cvt.rz.bf16x2.f32 %ro, %fa, %fb;", BF16x2, [](u64 a, u64 b, u64) {
    return u64(ptx::round_to(f32(a), ptx::kBf16, Round::Zero, false)) << 16 |
           ptx::round_to(f32(b), ptx::kBf16, Round::Zero, false);
  });
  test("cvt.rn.relu.f16.f32 %ho, %fa;", F16, [](u64 a, u64, u64) {
    float x = f32(a);
    return u64(ptx::round_to(x < 0 ? 0 : x, ptx::kHalf, Round::Nearest, false));
  });
  test("cvt.rna.tf32.f32 %ro, %fa;", F32, [](u64 a, u64, u64) {
    float x = f32(a);
    return std::isnan(x) ? bits(x) : std::isinf(x) ? bits(x) : u64((u32(a) + 0x1000) & ~0x1fffu);
  });
  for (bool e4 : {true, false}) {
    ptx::Format f = e4 ? ptx::kE4m3 : ptx::kE5m2;
    std::string n = e4 ? "e4m3x2" : "e5m2x2";
    test("cvt.rn.satfinite." + n + ".f32 %ho, %fa, %fb;", Exact, [=](u64 a, u64 b, u64) {
      return u64(ptx::round_to(f32(a), f, Round::Nearest, true)) << 8 |
             ptx::round_to(f32(b), f, Round::Nearest, true);
    });
    test("cvt.rn.satfinite." + n + ".f16x2 %ho, %ra;", Exact, [=](u64 a, u64, u64) {
      return u64(ptx::round_to(to_float(half{u16(a >> 16)}), f, Round::Nearest, true)) << 8 |
             ptx::round_to(to_float(half{u16(a)}), f, Round::Nearest, true);
    });
    test("cvt.rn.f16x2." + n + " %ro, %ha;", F16x2, [=](u64 a, u64, u64) {
      auto h = [&](u64 v) {
        return u64(ptx::round_to(ptx::value_of(v & 0xff, f), ptx::kHalf, Round::Nearest, false));
      };
      return h(a >> 8) << 16 | h(a);
    });
  }
}

void other() {
  test("fns.b32 %ro, %ra, 0, 2;", Exact, [](u64 a, u64, u64) {
    u32 m = u32(a) & (u32(a) - 1);
    return u64(m ? u32(std::countr_zero(m)) : ~0u);
  });
  test(
      "{ .reg .b32 x; .reg .pred q; mov.b32 x, 5; setp.ne.s32 q, %ra, 0; @q bra L; mov.b32 x, 6; L: mov.b32 "
      "%ro, x; }",
      Exact, [](u64 a, u64, u64) { return u64(u32(a) ? 5 : 6); });
  test(
      "and.b32 %t0, %ra, 3; T: .branchtargets A, B, C, D; brx.idx %t0, T; A: mov.b32 %ro, 10; bra E; B: "
      "mov.b32 %ro, 20; bra E; C: mov.b32 %ro, 30; bra E; D: mov.b32 %ro, 40; E: add.u32 %ro, %ro, 1;",
      Exact, [](u64 a, u64, u64) { return 10 * ((a & 3) + 1) + 1; });
  // a loop with its own trip count per lane
  test(
      "and.b32 %t0, %ra, 15; mov.b32 %ro, 0; L: setp.eq.u32 %p1, %t0, 0; @%p1 bra M; add.u32 %ro, %ro, %t0; "
      "sub.u32 %t0, %t0, 1; bra L; M:",
      Exact, [](u64 a, u64, u64) {
        u64 n = a & 15;
        return n * (n + 1) / 2;
      });
  test(
      "{ .local .align 8 .b8 buf[32]; .reg .b64 x; mov.u64 x, buf; st.local.u64 [x+8], %a; st.local.u8 "
      "[x+9], 7; ld.local.v2.u32 {%t0, %t1}, [x+8]; mov.b64 %o, {%t0, %t1}; }",
      Exact, [](u64 a, u64, u64) { return (a & ~0xff00ull) | 0x700; });
  test(
      "{ .shared .align 8 .b8 sh[1024]; .reg .b32 x, y; .reg .b64 z, g; mov.u32 x, sh; mov.u32 y, %tid.x; "
      "mad.lo.u32 x, y, 8, x; st.shared.u64 [x], %a; bar.warp.sync 0xffffffff; cvt.u64.u32 z, x; "
      "cvta.shared.u64 g, z; ld.u64 %o, [g]; isspacep.shared %p1, g; @!%p1 mov.u64 %o, 1; }",
      Exact, [](u64 a, u64, u64) { return a; });
  test("ld.global.s16 %ro, [%in+2];", Exact, [](u64 a, u64, u64) { return u64(u32(s32(s16(a >> 16)))); });
  test("ld.global.nc.L1::no_allocate.v4.u8 {%ha, %hb, %hc, %ho}, [%in]; ", Exact,
       [](u64 a, u64, u64) { return u64(u8(a >> 24)); });
  test("ld.relaxed.gpu.global.s8 %o, [%in];", Exact, [](u64 a, u64, u64) { return u64(s64(s8(a))); });
  test(
      "atom.global.exch.b64 %u0, [%out], %a; atom.global.add.u64 %u1, [%out], 5; ld.volatile.global.u64 %u2, "
      "[%out]; sub.u64 %u2, %u2, %u1; add.u64 %o, %u2, %u0;",
      Exact, [](u64, u64, u64) { return u64(0x1234 + 5); });
  test(
      "st.global.u64 [%out], %a; atom.acq_rel.gpu.global.cas.b32 %t0, [%out], %ra, %rb; ld.global.u32 %t1, "
      "[%out]; mov.b64 %o, {%t0, %t1};",
      Exact, [](u64 a, u64 b, u64) { return u64(u32(a)) | b << 32; });
  test(
      "st.global.u64 [%out], 0; red.relaxed.gpu.global.max.s32 [%out], %ra; red.global.min.u32 [%out+4], "
      "%rb; ld.global.u64 %o, [%out];",
      Exact, [](u64 a, u64, u64) { return u64(u32(std::max<s32>(s32(a), 0))); });
  test("activemask.b32 %t0; mov.u32 %t1, %laneid; shr.u32 %t2, %t0, %t1; and.b32 %ro, %t2, 1;", Exact,
       [](u64, u64, u64) { return u64(1); });
  test("mov.u32 %t0, %lanemask_lt; mov.u32 %t1, %lanemask_ge; xor.b32 %ro, %t0, %t1;", Exact,
       [](u64, u64, u64) { return u64(~0u); });
  test("{ .reg .b128 q; mov.b128 q, {%a, %b}; mov.b128 {%u0, %u1}, q; xor.b64 %o, %u0, %u1; }", Exact,
       [](u64 a, u64 b, u64) { return a ^ b; });
}

}  // namespace

TEST_CASE("integer arithmetic") { integer_arithmetic(); }
TEST_CASE("bit operations") { bit_operations(); }
TEST_CASE("comparisons") { comparisons(); }
TEST_CASE("floating point") { floating(); }
TEST_CASE("half precision") {
  halves<half>("f16", F16, F16x2, ptx::half_of);
  halves<bf16>("bf16", BF16, BF16x2, ptx::bf16_of);
}
TEST_CASE("conversions") { conversions(); }
TEST_CASE("memory, atomics, warps") { other(); }
