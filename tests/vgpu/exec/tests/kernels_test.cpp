// Runs the kernels of kernels.cu and compares with the host. VGPU_TEST_PTX names their PTX, VGPU_TEST_SM the
// architecture that it is for.
#include <algorithm>
#include <numeric>

#include "exec/fp.hpp"
#include "exec/tests/harness.hpp"

using namespace vgpu;
using u64 = std::uint64_t;
using ptx::bf16;
using ptx::half;

namespace {

std::mt19937_64 g_random(12345);
float uniform(float lo, float hi) { return std::uniform_real_distribution<float>(lo, hi)(g_random); }
int integer(int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(g_random); }
std::vector<int> integers(std::size_t n, int lo, int hi) {
  std::vector<int> v(n);
  for (int& x : v) x = integer(lo, hi);
  return v;
}
std::vector<float> floats(std::size_t n, float lo, float hi) {
  std::vector<float> v(n);
  for (float& x : v) x = uniform(lo, hi);
  return v;
}
bool close(double a, double b, double relative, double absolute = 0) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  return std::fabs(a - b) <= std::max(absolute, relative * std::max(std::fabs(a), std::fabs(b)));
}

void reductions(Program& p) {
  for (std::size_t n : {1000ul, 100000ul}) {
    auto x = floats(n, -1, 1);
    auto y = floats(n, -1, 1);
    u64 dx = p.memory.put(x), dy = p.memory.put(y);
    p.launch("saxpy", {static_cast<unsigned>((n + 255) / 256)}, {256}, 2.5f, dx, dy, int(n));
    auto r = p.memory.get<float>(dy);
    bool same = true;
    for (std::size_t i = 0; i < n; ++i) same &= r[i] == std::fma(2.5f, x[i], y[i]);
    CHECK(same);

    u64 out = p.memory.allocate(13 * 4);
    p.launch("reduce_grid", {13}, {256}, dx, out, static_cast<long long>(n));
    double sum = 0, expected = 0;
    for (float f : p.memory.get<float>(out)) sum += f;
    for (float f : x) expected += f;
    CHECK(close(sum, expected, 1e-4, 1e-2));
    for (u64 seed : {0ull, 1ull, 99ull}) {
      u64 total = p.memory.put(std::vector<double>{0});
      p.launch_with("reduce_vec4", {7}, {128}, 0, seed, false, dx, total, int(n / 4));
      CHECK(close(p.memory.get<double>(total)[0], expected, 1e-4, 1e-2));
    }
  }
  auto x = integers(512, -1000, 1000);
  u64 dx = p.memory.put(x), out = p.memory.allocate(16 * 4), out16 = p.memory.allocate(32 * 4);
  p.launch("warp_reduce", {4}, {128}, dx, out, out16);
  auto sums = p.memory.get<int>(out), most = p.memory.get<int>(out16);
  for (int w = 0; w < 16; ++w)
    CHECK(sums[w] == std::accumulate(x.begin() + 32 * w, x.begin() + 32 * (w + 1), 0));
  for (int w = 0; w < 32; ++w)
    CHECK(most[w] == *std::max_element(x.begin() + 16 * w, x.begin() + 16 * (w + 1)));

  auto s = integers(2048, 0, 100);
  u64 ds = p.memory.put(s), o = p.memory.allocate(2048 * 4);
  p.launch("block_scan", {4}, {128}, ds, o);
  auto scanned = p.memory.get<int>(o);
  bool same = true;
  for (int b = 0; b < 4; ++b) {
    int run = 0;
    for (int i = 0; i < 512; ++i) same &= scanned[b * 512 + i] == run, run += s[b * 512 + i];
  }
  CHECK(same);

  std::vector<unsigned> keys(1024);
  for (unsigned& k : keys) k = static_cast<unsigned>(g_random());
  u64 dk = p.memory.put(keys);
  p.launch("block_sort", {2}, {128}, dk);
  for (int b = 0; b < 2; ++b) std::sort(keys.begin() + b * 512, keys.begin() + (b + 1) * 512);
  CHECK(p.memory.get<unsigned>(dk) == keys);
}

int classify(int kind, int v) {
  switch (kind) {
    case 0: return v + 1;
    case 1: return v * 3;
    case 2: return v ^ 0x55;
    case 3: return v - 1000;
    case 4: return v << 3;
    case 5: return v >> 1;
    case 6: return ~v;
    case 7: return v * v;
    case 8: return v % 10;
    case 9: return 42;
    case 10: return -v;
    case 11: return v | 3;
    default: return 0;
  }
}
struct Big {
  float a;
  double b;
  int c[3];
};

void divergence(Program& p) {
  auto x = integers(300, 1, 1000);
  u64 dx = p.memory.put(x), out = p.memory.allocate(300 * 4);
  for (u64 seed : {0ull, 5ull}) {
    p.launch_with("collatz", {3}, {128}, 0, seed, false, dx, out, 300);
    auto r = p.memory.get<int>(out);
    bool same = true;
    for (int i = 0; i < 300; ++i) {
      long long v = x[i];
      int steps = 0;
      while (v != 1) {
        v = v & 1 ? 3 * v + 1 : v / 2;
        if (++steps > 400) break;
      }
      same &= r[i] == steps;
    }
    CHECK(same);
  }
  auto n = integers(32, 0, 12);
  u64 dn = p.memory.put(n);
  u64 dr = p.memory.allocate(32 * 4);
  p.launch("nested", {1}, {32}, dn, dr);
  auto r = p.memory.get<int>(dr);
  for (int i = 0; i < 32; ++i) {
    int s = 0;
    for (int a = 0; a < n[i]; ++a) {
      if (a % 3 == i % 3) continue;
      for (int b = 0; b < (i ^ a) % 7; ++b) {
        if (b == 5) break;
        s += a * b + (s & 1 ? 7 : 3);
      }
    }
    CHECK(r[i] == s + (i ^ 5));
  }
  auto kind = integers(200, -1, 13), v = integers(200, -5000, 5000);
  u64 dk = p.memory.put(kind), dv = p.memory.put(v);
  p.launch("switches", {2}, {128}, dk, dv, 200);
  auto sv = p.memory.get<int>(dv);
  for (int i = 0; i < 200; ++i) CHECK(sv[i] == classify(kind[i], v[i]));

  auto f = floats(32, -4, 4);
  u64 df = p.memory.put(f);
  p.launch("indirect", {1}, {32}, df);
  auto rf = p.memory.get<float>(df);
  for (int i = 0; i < 32; ++i) CHECK(rf[i] == (i % 3 == 0 ? f[i] + 1 : i % 3 == 1 ? f[i] * f[i] : -f[i]));

  std::vector<Big> s(40);
  for (int i = 0; i < 40; ++i) s[i] = {float(i), i * 0.5, {i, 2 * i, 3 * i}};
  u64 ds = p.memory.put(s);
  p.launch("structs", {1}, {64}, ds, 40);
  auto rs = p.memory.get<Big>(ds);
  for (int k = 0; k < 40; ++k) {
    Big e = s[k];
    e.a += k, e.b *= k, e.c[k % 3] += k;
    CHECK((rs[k].a == e.a && rs[k].b == e.b && rs[k].c[0] == e.c[0] && rs[k].c[1] == e.c[1] &&
           rs[k].c[2] == e.c[2]));
  }
  u64 fibs = p.memory.allocate(64 * 4);
  p.launch("recursion", {1}, {64}, fibs);
  auto fr = p.memory.get<int>(fibs);
  int fib[12] = {0, 1};
  for (int i = 2; i < 12; ++i) fib[i] = fib[i - 1] + fib[i - 2];
  for (int i = 0; i < 64; ++i) CHECK(fr[i] == fib[i % 12]);
}

void memory(Program& p) {
  u64 out = p.memory.allocate(64 * 4), count = p.memory.allocate(4);
  p.launch("globals", {1}, {64}, out, count);
  auto r = p.memory.get<float>(out);
  double c[3] = {1.5, 2.5, 3.5};
  for (int i = 0; i < 64; ++i) CHECK(r[i] == 4 + float(c[i % 3]) + (i & 1 ? 3 + 'h' : 1 + 'n'));
  CHECK(p.memory.get<int>(count)[0] == 7 + 128);

  auto x = floats(128, -1, 1);
  u64 dx = p.memory.put(x), dy = p.memory.allocate(128 * 4);
  p.launch_with("dynamic_shared", {1}, {128}, 128 * 4, 0, false, dx, dy, 128);
  auto y = p.memory.get<float>(dy);
  for (int i = 0; i < 128; ++i) CHECK(y[i] == x[127 - i] + float(i % 32));

  u64 dl = p.memory.allocate(64 * 4);
  p.launch("locals", {1}, {64}, dl, 100);
  auto l = p.memory.get<int>(dl);
  for (int t = 0; t < 64; ++t) {
    int a[24], s = 0;
    for (int i = 0; i < 24; ++i) a[i] = i * t;
    for (int i = 0; i < 100; ++i)
      a[(i * 7) % 24] = int(unsigned(a[(i * 7) % 24]) + unsigned(a[(i * 5 + t) % 24]));
    for (int i = 0; i < 24; ++i) s = int(unsigned(s) * 31 + unsigned(a[i]));
    CHECK(l[t] == s);
  }
  u64 dg = p.memory.put(std::vector<int>(128, 9));
  p.launch("generic_pointers", {1}, {64}, dg, 2);
  auto g = p.memory.get<int>(dg);
  for (int t = 0; t < 64; ++t) {
    int e = t % 3 == 0 ? 14 + 2000 : t % 3 == 1 ? (63 - t) * 10 + 5 + 1000 : 8 + 3000;
    CHECK(g[t] == e);
  }
  std::vector<int> a = integers(4 * 32, -100, 100);
  std::vector<short> b(4 * 32);
  std::vector<signed char> ch(4 * 32);
  std::vector<double> d(2 * 32);
  std::vector<long long> e(2 * 32);
  for (auto& v : b) v = static_cast<short>(integer(-30000, 30000));
  for (auto& v : ch) v = static_cast<signed char>(integer(-128, 127));
  for (auto& v : d) v = uniform(-5, 5);
  for (auto& v : e) v = integer(-1000, 1000);
  u64 da = p.memory.put(a), db = p.memory.put(b), dc = p.memory.put(ch), dd = p.memory.put(d),
      de = p.memory.put(e);
  u64 o = p.memory.allocate(4 * 32 * 4), od = p.memory.allocate(2 * 32 * 8);
  p.launch("vectors", {1}, {32}, da, db, dc, dd, de, o, od);
  auto ro = p.memory.get<int>(o);
  auto rd = p.memory.get<double>(od);
  for (int i = 0; i < 32; ++i) {
    CHECK(ro[4 * i] == a[4 * i] + b[4 * i]);
    CHECK(ro[4 * i + 1] == a[4 * i + 1] + b[4 * i + 1] + ch[4 * i + 1]);
    CHECK(ro[4 * i + 2] == a[4 * i + 2] + ch[4 * i + 2]);
    CHECK(ro[4 * i + 3] == a[4 * i + 3] + int(e[2 * i] ^ e[2 * i + 1]));
    CHECK((rd[2 * i] == d[2 * i + 1] && rd[2 * i + 1] == d[2 * i] + ch[4 * i]));
  }
}

void atomics(Program& p, u64 seed) {
  std::vector<int> i32(16, 0);
  std::vector<unsigned> u32v = {~0u, 0, 0, 0, 5, 0};
  std::vector<u64> u64v = {0, 0};
  u64 a = p.memory.put(i32), b = p.memory.put(u32v), c = p.memory.put(u64v),
      d = p.memory.put(std::vector<float>{0});
  u64 e = p.memory.put(std::vector<double>{0}), f = p.memory.put(std::vector<unsigned>{0}),
      g = p.memory.put(std::vector<std::uint16_t>{0, 0});
  u64 h = p.memory.put(std::vector<long long>{0});
  const int n = 4 * 96;
  p.launch_with("atomics", {4}, {96}, 0, seed, false, a, b, c, d, e, f, g, h);
  auto ri = p.memory.get<int>(a);
  auto ru = p.memory.get<unsigned>(b);
  auto rl = p.memory.get<u64>(c);
  CHECK((ri[0] == n * (n - 1) / 2 && ri[1] == -(n - 1) && ri[2] == n - 1 && ri[3] == 77));
  unsigned x = 0, inc = 0, dec = 5;
  for (int t = 0; t < n; ++t) {
    x ^= unsigned(t);
    inc = inc >= 9 ? 0 : inc + 1;
    dec = dec == 0 || dec > 9 ? 9 : dec - 1;
  }
  CHECK(
      (ru[0] == 0 && ru[1] == ~0u && ru[2] == x && ru[3] == inc && ru[4] == dec && ru[5] == unsigned(3 * n)));
  CHECK((rl[0] == (u64(n) * (n - 1) / 2) << 30 && rl[1] == u64(n - 1) * (n - 1)));
  CHECK(p.memory.get<long long>(h)[0] == -(n - 1));
  CHECK((p.memory.get<float>(d)[0] == n * 0.5f && p.memory.get<double>(e)[0] == n * 0.25));
  auto h2 = p.memory.get<std::uint16_t>(f);
  CHECK((ptx::to_float(half{h2[0]}) == n && ptx::to_float(half{h2[1]}) == n * 0.5f));
  CHECK(ptx::to_float(bf16{p.memory.get<std::uint16_t>(g)[0]}) == 64);
  for (int k = 0; k < 8; ++k) CHECK(ri[8 + k] == n / 8);

  auto v = integers(20 * 64, -50, 50);
  u64 dv = p.memory.put(v), partial = p.memory.allocate(20 * 4), out = p.memory.allocate(4),
      ticket = p.memory.put(std::vector<unsigned>{0});
  p.launch_with("last_block", {20}, {64}, 0, seed, false, dv, partial, out, ticket);
  CHECK(p.memory.get<int>(out)[0] == std::accumulate(v.begin(), v.end(), 0));
}

void warps(Program& p, int sm) {
  auto x = integers(32, 0, 100);
  u64 dx = p.memory.put(x), out = p.memory.allocate(32 * 16 * 4);
  p.launch("warp_functions", {1}, {32}, dx, out);
  auto r = p.memory.get<unsigned>(out);
  unsigned ballot = 0, add = 0;
  bool any = false;
  for (int i = 0; i < 32; ++i) ballot |= unsigned(x[i] & 1) << i, add += unsigned(x[i]), any |= x[i] > 90;
  bool equal = std::all_of(x.begin(), x.end(), [&](int v) { return (v >= 0) == (x[0] >= 0); });
  for (int i = 0; i < 32; ++i) {
    unsigned* o = &r[i * 16];
    CHECK(o[0] == unsigned(x[i >= 3 ? i - 3 : i]));
    CHECK(o[1] == unsigned(x[i % 16 + 5 < 16 ? i + 5 : i]));
    CHECK(o[2] == unsigned(x[i ^ 9]));
    CHECK(o[3] == unsigned(x[i / 8 * 8 + i * 7 % 8]));
    CHECK((o[4] == ballot && o[5] == unsigned(any) && o[6] == 1));
    unsigned m = 0;
    for (int k = 0; k < 32; ++k) m |= unsigned(x[k] % 4 == x[i] % 4) << k;
    CHECK((o[7] == m && o[8] == ~0u && o[9] == unsigned(equal) && o[10] == ~0u));
    if (sm >= 80) {
      CHECK((o[11] == add && o[12] == unsigned(*std::min_element(x.begin(), x.end())) &&
             o[13] == unsigned(*std::max_element(x.begin(), x.end()))));
    }
    CHECK(o[14] == unsigned(x[i ^ 1] * 3));
    unsigned seen = 0, at = ~0u;
    for (unsigned k = 0; k < 32; ++k)
      if (0xf0f0f0f0u >> k & 1 && ++seen == unsigned(i % 8) + 1) at = k;
    CHECK(o[15] == at);
  }
  u64 dg = p.memory.allocate(64 * 4);
  p.launch("groups", {1}, {64}, dg);
  auto g = p.memory.get<int>(dg);
  for (int t = 0; t < 64; ++t) {
    int base = t / 8 * 8, e = 8 * base + 28;
    if (t % 3 == 0) {
      int rank = 0, size = 0;
      for (int k = t / 32 * 32; k < t / 32 * 32 + 32; ++k) {
        size += k % 3 == 0;
        rank += k % 3 == 0 && k < t;
      }
      e += 1000 * rank + 100000 * size;
    }
    CHECK(g[t] == e);
  }
  u64 ds = p.memory.allocate(160 * 4);
  p.launch("syncs", {1}, {160}, ds);
  for (int v : p.memory.get<int>(ds)) CHECK(v == 54 * 10000 + 100);
  u64 de = p.memory.put(std::vector<int>(300, -1));
  p.launch("early_exit", {3}, {100}, de, 250);
  auto e = p.memory.get<int>(de);
  for (int i = 0; i < 300; ++i) CHECK(e[i] == (i < 200 ? 100 : i < 250 ? 50 : -1));

  for (u64 seed : {0ull, 3ull, 4ull}) {
    const int n = 6 * 64;
    std::vector<int> data(2 * n, 0);
    for (int i = 0; i < n; ++i) data[n + i] = i;
    u64 dd = p.memory.put(data), o = p.memory.allocate(n * 4);
    p.launch_with("grid_sync", {6}, {64}, 0, seed, true, dd, o);
    for (int round = 0; round < 5; ++round)
      for (int i = 0; i < n; ++i)
        data[(round % 2) * n + i] += data[((round + 1) % 2) * n + (i * 7 + 13) % n] + 1;
    CHECK(p.memory.get<int>(o) == std::vector<int>(data.begin(), data.begin() + n));

    auto v = integers(40 * 32, 0, 9);
    u64 dv = p.memory.put(v), sums = p.memory.put(std::vector<int>(40, 0)),
        flags = p.memory.put(std::vector<int>(40, 0));
    u64 scanned = p.memory.allocate(40 * 32 * 4);
    p.launch_with("look_back", {40}, {32}, 0, seed, false, dv, sums, flags, scanned);
    std::partial_sum(v.begin(), v.end(), v.begin());
    CHECK(p.memory.get<int>(scanned) == v);
  }
}

template <class H>
void small_floats(Program& p, const char* kernel, H (*from)(float), H (*exact)(double), bool fused) {
  const int n = 4000;
  std::vector<std::uint16_t> a(n), b(n);
  for (int i = 0; i < n; ++i) {
    a[i] = i < 2000 ? static_cast<std::uint16_t>(g_random()) : from(uniform(-8, 8)).bits;
    b[i] = i < 1500 ? static_cast<std::uint16_t>(g_random()) : from(uniform(-8, 8)).bits;
  }
  u64 da = p.memory.put(a), db = p.memory.put(b), out = p.memory.allocate(n * 16);
  p.launch(kernel, {(n + 127) / 128}, {128}, da, db, out, n);
  auto r = p.memory.get<std::uint16_t>(out);
  auto same = [](H x, H y) {
    float f = ptx::to_float(x), g = ptx::to_float(y);
    return (f != f && g != g) || x.bits == y.bits;
  };
  int bad = 0;
  for (int i = 0; i < n; ++i) {
    H x{a[i]}, y{b[i]};
    double dx = ptx::to_double(x), dy = ptx::to_double(y);
    auto at = [&](int k) { return H{r[8 * i + k]}; };
    // Sums and products of small formats, rounded from long double at once.
    bad += !same(at(0), exact(ptx::add_odd(dx, dy)));
    bad += !same(at(1), exact(dx * dy));
    if (fused) bad += !same(at(2), exact(ptx::add_odd(dx * dy, dx)));
    float q = ptx::to_float(at(3)), eq = ptx::to_float(exact(dx / dy));
    bad += !close(q, eq, 0.01, 1e-30) && std::isfinite(eq) && std::fabs(eq) > 1e-30f;
    if (dx == dx && dy == dy) {
      bad += !(ptx::to_float(at(4)) == std::max(dx, dy)) + !(ptx::to_float(at(5)) == std::min(dx, dy));
      bad += !same(at(6), dx < dy ? x : H{static_cast<std::uint16_t>(y.bits ^ 0x8000)});
    }
    H low = exact(ptx::add_odd(dx, dy)), high = exact(ptx::add_odd(dy, dy));
    bad += !same(at(7), exact(ptx::add_odd(ptx::to_double(high), -ptx::to_double(low))));
  }
  if (bad) std::printf("%s: %d of %d differ\n", kernel, bad, n);
  CHECK(bad == 0);
}

void fp8(Program& p) {
  std::vector<float> x = {0,        -0.0f, 1,     448,   449,   464,          480,           1e9f,    -1e9f,
                          INFINITY, NAN,   57344, 60000, 1e-9f, 0.001953125f, 0.0009765625f, 0.00097f};
  for (int i = 0; i < 2000; ++i) x.push_back(std::ldexp(uniform(-2, 2), integer(-18, 17)));
  const int n = static_cast<int>(x.size());
  u64 dx = p.memory.put(x), e4 = p.memory.allocate(n), e5 = p.memory.allocate(n),
      back = p.memory.allocate(n * 8);
  p.launch("fp8", {static_cast<unsigned>(n + 127) / 128}, {128}, dx, e4, e5, back, n);
  auto r4 = p.memory.get<unsigned char>(e4), r5 = p.memory.get<unsigned char>(e5);
  auto rb = p.memory.get<float>(back);
  // Nearest by search over all values of the format.
  auto nearest = [](float v, const ptx::Format& f) {
    if (std::isnan(v)) return NAN;
    float best = 0, best_gap = INFINITY;
    unsigned best_code = 0;
    for (unsigned c = 0; c < 128; ++c) {
      float w = static_cast<float>(ptx::value_of(c, f));
      if (!std::isfinite(w)) continue;
      float gap = std::isinf(v) ? -w : std::fabs(std::fabs(v) - w);
      if (gap < best_gap || (gap == best_gap && !(c & 1) && (best_code & 1)))
        best = w, best_gap = gap, best_code = c;
    }
    return std::copysign(best, v);
  };
  int bad = 0;
  for (int i = 0; i < n; ++i) {
    float a = nearest(x[i], ptx::kE4m3), b = nearest(x[i], ptx::kE5m2);
    bool ok4 = std::isnan(a) ? std::isnan(rb[2 * i])
                             : a == rb[2 * i] && a == float(ptx::value_of(r4[i], ptx::kE4m3));
    bool ok5 = std::isnan(b) ? std::isnan(rb[2 * i + 1])
                             : b == rb[2 * i + 1] && b == float(ptx::value_of(r5[i], ptx::kE5m2));
    if (!ok4 || !ok5) {
      if (++bad < 5)
        std::printf("fp8 of %g: %g (expected %g), %g (expected %g)\n", x[i], rb[2 * i], a, rb[2 * i + 1], b);
    }
  }
  CHECK(bad == 0);
}

void arithmetic(Program& p) {
  const int n = 3000;
  {
    std::vector<long long> a(n), b(n);
    for (int i = 0; i < n; ++i) {
      a[i] = static_cast<long long>(g_random()) >> integer(0, 63);
      do b[i] = static_cast<long long>(g_random()) >> integer(0, 63);
      while (int(b[i]) == 0 || b[i] == 0);
      if (i < 50) a[i] = INT64_MIN + i / 2, b[i] = i % 2 ? -1 : 1;
    }
    u64 da = p.memory.put(a), db = p.memory.put(b), out = p.memory.allocate(n * 24 * 8);
    p.launch("integers", {(n + 127) / 128}, {128}, da, db, out, n);
    auto r = p.memory.get<long long>(out);
    int bad[24] = {};
    for (int i = 0; i < n; ++i) {
      long long x = a[i], y = b[i], *o = &r[i * 24];
      int xs = int(x), ys = int(y);
      unsigned xu = unsigned(xs), yu = unsigned(ys);
      auto check = [&](int k, long long e) { bad[k] += o[k] != e; };
      if (y != -1) check(0, x / y), check(1, x % y);
      check(2, (long long)((unsigned long long)x / (unsigned long long)y));
      if (ys != -1) check(3, xs / ys);
      check(4, xu % yu);
      check(5, (long long)(((__int128)x * y) >> 64));
      check(6, int((long long)xs * ys >> 32));
      check(7, (long long)((unsigned long long)x << (y & 63)));
      check(8, x >> (y & 63));
      check(9, __builtin_popcountll(x) + (x ? __builtin_clzll(x) : 64) * 100 + __builtin_ffs(xs) * 10000);
      unsigned long long rev = 0;
      for (int k = 0; k < 64; ++k) rev |= ((unsigned long long)x >> k & 1) << (63 - k);
      check(10, (long long)rev);
      u64 both = u64(yu) << 32 | xu;
      auto byte = [&](int k) { return unsigned(both >> (8 * k)) & 0xff; };
      // __byte_perm keeps the selector's low three bits
      check(11, (long long)(byte(6) | byte(4) << 8 | byte(1) << 16 | byte(5) << 24));
      check(12, (long long)(unsigned)(both >> (ys & 31)));
      int dot = 17;
      for (int k = 0; k < 4; ++k)
        dot = int(unsigned(dot) + unsigned((signed char)(xu >> 8 * k) * (signed char)(yu >> 8 * k)));
      check(13, dot);
      unsigned v4 = 0, v2 = 0;
      for (int k = 0; k < 4; ++k) v4 |= (((xu >> 8 * k) + (yu >> 8 * k)) & 0xff) << 8 * k;
      for (int k = 0; k < 2; ++k)
        v2 |= (unsigned)(std::uint16_t)std::max((short)(xu >> 16 * k), (short)(yu >> 16 * k)) << 16 * k;
      check(14, (long long)(v4 ^ v2));
      __int128 product = (__int128)x * y + x;
      check(15, (long long)(product >> 64));
      check(16, (long long)(product / 1000003));
      check(17, (short)xs * (signed char)ys + (unsigned char)xs);
      check(18, (long long)(unsigned)((unsigned)std::min(xs, ys) + std::max(xu, yu)));
      check(19, (long long)(int)(xs < 0 ? 0u - xu : xu) +
                    (y < 0 ? (long long)(0ull - (unsigned long long)y) : y));
      check(20, (long long)(unsigned)(5u + (xs < ys ? yu - xu : xu - yu)));
      auto to_s64 = [](double v) {
        return v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (long long)v;
      };
      check(21, (long long)((u64)to_s64(float(x)) + (u64)to_s64(double(y) * 0.5)));
      float scaled = float(xs) * 0.37f;
      check(22, (long long)(unsigned)((unsigned)(int)std::nearbyint(scaled) + (unsigned)(double(yu) * 0.99)));
      check(23, (long long)(unsigned)((unsigned)(int)(((long long)xs + ys + 1) >> 1) +
                                      (xu & 0xffffff) * (yu & 0xffffff)));
    }
    for (int k = 0; k < 24; ++k) {
      if (bad[k]) std::printf("integers %d: %d differ\n", k, bad[k]);
      CHECK(bad[k] == 0);
    }
  }
  {
    auto a = floats(n, -20, 20), b = floats(n, -20, 20);
    u64 da = p.memory.put(a), db = p.memory.put(b), out = p.memory.allocate(n * 24 * 4);
    p.launch("floats", {(n + 127) / 128}, {128}, da, db, out, n);
    auto r = p.memory.get<float>(out);
    int bad[24] = {};
    for (int i = 0; i < n; ++i) {
      float x = a[i], y = b[i], *o = &r[i * 24];
      auto check = [&](int k, double e, double relative = 0, double absolute = 0) {
        bad[k] += !close(o[k], e, relative, absolute);
      };
      check(0, x + y), check(1, x * y), check(2, x / y), check(3, std::fma(x, y, x)),
          check(4, std::sqrt(std::fabs(x)));
      check(5, std::sin(double(x)), 3e-7, 2e-7), check(6, std::cos(double(y)), 3e-7, 2e-7),
          check(7, std::exp(double(x)), 3e-7);
      check(8, std::log(std::fabs(double(y))), 3e-7, 1e-7), check(9, std::tanh(double(x)), 5e-7);
      check(10, std::pow(std::fabs(double(x)), double(y)), 2e-6),
          check(11, 1 / std::sqrt(std::fabs(double(y))), 3e-7);
      check(12, std::fmin(x, y)), check(13, std::fmax(x, y));
      check(14, std::floor(x) + std::ceil(y) + std::trunc(x) + std::nearbyint(y));
      check(15, std::erf(double(x)), 5e-7), check(16, std::atan2(double(x), double(y)), 1e-6),
          check(17, std::fmod(x, y));
      check(18, ptx::add_round(x, y, ptx::Round::Zero)), check(19, ptx::mul_round(x, y, ptx::Round::Up));
      check(20, ptx::div_round(x, y, ptx::Round::Down)), check(21, std::exp(double(x)), 3e-6);
      check(22, std::cbrt(double(x)), 5e-7), check(23, std::copysign(x, y));
    }
    for (int k = 0; k < 24; ++k) {
      if (bad[k]) std::printf("floats %d: %d differ\n", k, bad[k]);
      CHECK(bad[k] == 0);
    }
  }
  {
    std::vector<double> a(n), b(n);
    for (int i = 0; i < n; ++i)
      a[i] = uniform(-20, 20) + 1e-9 * uniform(-1, 1), b[i] = uniform(-20, 20) + 1e-9 * uniform(-1, 1);
    u64 da = p.memory.put(a), db = p.memory.put(b), out = p.memory.allocate(n * 16 * 8);
    p.launch("doubles", {(n + 127) / 128}, {128}, da, db, out, n);
    auto r = p.memory.get<double>(out);
    int bad[16] = {};
    for (int i = 0; i < n; ++i) {
      double x = a[i], y = b[i], *o = &r[i * 16];
      auto check = [&](int k, double e, double relative = 0) {
        bad[k] += !close(o[k], e, relative, relative / 4);
      };
      check(0, x + y), check(1, x * y), check(2, x / y), check(3, std::fma(x, y, x)),
          check(4, std::sqrt(std::fabs(x)));
      check(5, std::sin(x), 1e-15), check(6, std::cos(y), 1e-15), check(7, std::exp(x), 1e-15),
          check(8, std::log(std::fabs(y)), 1e-15);
      check(9, std::tanh(x), 1e-15), check(10, std::pow(std::fabs(x), y), 1e-14),
          check(11, 1 / std::sqrt(std::fabs(y)), 1e-15);
      check(12, std::fmin(x, y)), check(13, std::floor(x) + std::ceil(y) + std::trunc(x) + std::nearbyint(y));
      check(14, std::erf(x), 1e-15), check(15, ptx::add_round(x, y, ptx::Round::Up));
    }
    for (int k = 0; k < 16; ++k) {
      if (bad[k]) std::printf("doubles %d: %d differ\n", k, bad[k]);
      CHECK(bad[k] == 0);
    }
  }
}

void faults(Program& p) {
  u64 out = p.memory.put(std::vector<int>(32, 0));
  std::fflush(stdout);
  p.launch("prints", {1}, {32}, 77);  // CTest matches the line
  p.launch("asserts", {1}, {32}, 5);
  CHECK_THROWS_SAYING(KernelFault, p.launch("asserts", {1}, {32}, 20), "too many");
  CHECK_THROWS_SAYING(KernelFault, p.launch("asserts", {1}, {32}, 20), "kernels.cu:");
  CHECK_THROWS_SAYING(KernelFault, p.launch("out_of_bounds", {1}, {32}, out, 1), "thread (31,0,0)");
  CHECK_THROWS_SAYING(KernelFault, p.launch("out_of_bounds", {1}, {32}, out, 1), "kernel out_of_bounds");
  CHECK_THROWS_SAYING(KernelFault, p.launch("out_of_bounds", {1}, {32}, out, 1), "st.global.u32");
  CHECK_THROWS_SAYING(KernelFault, p.launch("misaligned", {1}, {32}, out), "misaligned write");
  u64 stride = p.memory.put(std::vector<int>{3, 0});
  CHECK_THROWS_SAYING(KernelFault, p.launch("shared_out_of_bounds", {1}, {32}, stride),
                      "out-of-bounds shared");
  CHECK_THROWS_SAYING(KernelFault, p.launch("null_read", {1}, {1}, u64{0}, out), "address 0x0");
  u64 zero = p.memory.put(std::vector<float>(32, 0.0f));
  p.launch("uninitialised", {1}, {32}, zero);
  for (float f : p.memory.get<float>(zero)) CHECK(std::isnan(f));

  p.launch("waits_a_while", {2}, {64}, zero);
  u64 lock_count = p.memory.put(std::vector<int>{0});
  setenv("VGPU_WATCHDOG", "3000000", 1);
  try {
    p.launch("spin_lock", {2}, {32}, lock_count);
    CHECK(p.memory.get<int>(lock_count)[0] == 64);
  } catch (const KernelFault& e) {
    CHECK(std::string(e.what()).find("thread") != std::string::npos);
  }
  zero = p.memory.put(std::vector<int>(32, 0));
  u64 waiting = p.memory.put(std::vector<int>(64, 0));
  p.launch("lock_first", {2}, {32}, lock_count, waiting);
  CHECK(p.memory.get<int>(lock_count)[0] == 128);
  p.launch("split_sync", {1}, {32}, waiting);
  auto w = p.memory.get<int>(waiting);
  for (int i = 0; i < 32; ++i) CHECK(w[i] == (i < 10 ? i + 10 + 1 : i - 10));
  CHECK_THROWS_SAYING(KernelFault, p.launch("endless", {1}, {32}, zero), "");
  CHECK_THROWS_SAYING(KernelFault, p.launch("barrier_deadlock", {1}, {64}, zero), "");
  unsetenv("VGPU_WATCHDOG");
  setenv("VGPU_DEADLOCK_MS", "200", 1);
  CHECK_THROWS_SAYING(KernelFault, p.launch("endless", {4}, {32}, zero), "deadlock");
  unsetenv("VGPU_DEADLOCK_MS");
  u64 o = p.memory.allocate(256);
  p.launch("race", {1}, {64}, o);
  setenv("VGPU_RACECHECK", "1", 1);
  CHECK_THROWS_SAYING(KernelFault, p.launch("race", {1}, {64}, o), "data race");
  auto x = floats(1000, -1, 1);
  u64 dx = p.memory.put(x), sums = p.memory.allocate(13 * 4);
  p.launch("reduce_grid", {13}, {256}, dx, sums, 1000ll);  // CUB has no races
  unsetenv("VGPU_RACECHECK");
}

}  // namespace

TEST_CASE("kernels give what the host computes") {
  Program p(read_text(std::getenv("VGPU_TEST_PTX")));
  const int sm = std::atoi(std::getenv("VGPU_TEST_SM"));
  SECTION("reductions") { reductions(p); }
  SECTION("divergence") { divergence(p); }
  SECTION("memory") { memory(p); }
  SECTION("atomics") {
    for (u64 seed : {0ull, 1ull, 2ull}) atomics(p, seed);
  }
  SECTION("warps") { warps(p, sm); }
  SECTION("halves") { small_floats<half>(p, "halves", ptx::to_half, ptx::half_of, true); }
  SECTION("bfloats") { small_floats<bf16>(p, "bfloats", ptx::to_bf16, ptx::bf16_of, sm >= 80); }
  SECTION("fp8") { fp8(p); }
  SECTION("arithmetic") { arithmetic(p); }
  SECTION("faults") { faults(p); }
}
