// Basic blocks and immediate post-dominators: where divergent lanes come together again.
#include <algorithm>

#include "exec/decode.hpp"

namespace vgpu::ptx {

BasicBlocks basic_blocks(const Program& p) {
  const u32 n = static_cast<u32>(p.code.size());
  std::vector<bool> leader(n + 1, false);
  if (n) leader[0] = true;
  for (u32 i = 0; i < n; ++i) {
    Kind k = p.code[i].kind;
    if (k != Kind::Branch && k != Kind::BranchTable && k != Kind::Return && k != Kind::Exit) continue;
    leader[i + 1] = true;
    for_each_successor(p, i, [&](u32 s) { leader[s] = true; });
  }
  BasicBlocks b;
  b.block_of.resize(n);
  for (u32 i = 0; i < n; ++i) {
    if (leader[i]) b.begin.push_back(i);
    b.block_of[i] = static_cast<u32>(b.begin.size() - 1);
  }
  u32 count = static_cast<u32>(b.begin.size());
  b.begin.push_back(n);
  b.after.resize(count);
  b.before.resize(count);
  for (u32 k = 0; k < count; ++k) {
    for_each_successor(p, b.begin[k + 1] - 1, [&](u32 s) {
      u32 t = b.block_of[s];
      if (std::find(b.after[k].begin(), b.after[k].end(), t) != b.after[k].end()) return;
      b.after[k].push_back(t);
      b.before[t].push_back(k);
    });
  }
  return b;
}

// Cooper, Harvey and Kennedy's iteration, on the reversed graph with a virtual exit.
void find_reconvergence(Program& p) {
  BasicBlocks b = basic_blocks(p);
  const u32 count = static_cast<u32>(b.after.size());
  const u32 exit = count;
  std::vector<u32> leaves;
  for (u32 k = 0; k < count; ++k) {
    const Inst& last = p.code[b.begin[k + 1] - 1];
    bool ends = last.kind == Kind::Return || last.kind == Kind::Exit || b.after[k].empty();
    if (ends) leaves.push_back(k);
  }
  // Reverse post-order of the reversed graph.
  std::vector<u32> number(count + 1, kNone), order;
  std::vector<bool> seen(count + 1, false);
  auto visit = [&](u32 root) {
    std::vector<std::pair<u32, u32>> stack{{root, 0}};
    seen[root] = true;
    while (!stack.empty()) {
      auto& [k, next] = stack.back();
      const std::vector<u32>& edges = k == exit ? leaves : b.before[k];
      if (next < edges.size()) {
        u32 t = edges[next++];
        if (!seen[t]) {
          seen[t] = true;
          stack.push_back({t, 0});
        }
      } else {
        order.push_back(k);
        stack.pop_back();
      }
    }
  };
  visit(exit);
  std::reverse(order.begin(), order.end());
  for (u32 i = 0; i < order.size(); ++i) number[order[i]] = i;
  std::vector<u32> idom(count + 1, kNone);
  idom[exit] = exit;
  std::vector<bool> is_leaf(count, false);
  for (u32 k : leaves) is_leaf[k] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (u32 k : order) {
      if (k == exit) continue;
      u32 best = kNone;
      auto meet = [&](u32 t) {
        if (number[t] == kNone || idom[t] == kNone) return;
        if (best == kNone) {
          best = t;
          return;
        }
        u32 x = best, y = t;
        while (x != y) {
          while (number[x] > number[y]) x = idom[x];
          while (number[y] > number[x]) y = idom[y];
        }
        best = x;
      };
      for (u32 t : b.after[k]) meet(t);
      if (is_leaf[k]) meet(exit);
      if (best != idom[k]) {
        idom[k] = best;
        changed = true;
      }
    }
  }
  for (u32 k = 0; k < count; ++k) {
    Inst& last = p.code[b.begin[k + 1] - 1];
    u32 d = idom[k];
    if (last.kind == Kind::Branch || last.kind == Kind::BranchTable)
      last.reconverge = d == kNone || d == exit ? kNone : b.begin[d];
  }
}

}  // namespace vgpu::ptx
