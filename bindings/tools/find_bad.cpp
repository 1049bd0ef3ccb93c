// torch._find_bad(f): the first operation inside a call that makes a nan or inf out of finite
// numbers.
#include <utility>

#include "bindings/tools/check.h"
#include "bindings/tools/tools.h"
#include "engine/base/where.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho::lua {
namespace {

struct Bad {
  int64_t nan = 0, inf = 0;
  explicit operator bool() const { return nan || inf; }
};

Bad look(const Impl* given) {
  Bad bad;
  if (!is_floating(given->dtype) || given->numel == 0 || has_no_values(*given->storage)) return bad;
  const Tensor host = fetch(Tensor(const_cast<Impl*>(given)));
  const Impl* t = host.get();
  const auto see = [&](double x, int64_t = 0) {
    bad.nan += x != x;
    bad.inf += x - x != 0 && x == x;
  };
  if (t->dtype == DType::Float32 && is_dense(t)) {  // the order does not matter
    const float* p = t->host<float>();
    for (int64_t i = 0; i < t->numel; ++i) see(p[i]);
  } else {
    each_number(t, see);
  }
  return bad;
}

class BadFinder : public Observer {
 public:
  explicit BadFinder(lua_State* L) : L_(L) {}
  void before(const Call& c) override {
    outer_ = c.op;
    if (c.op->is_composition()) mode.observer = &inside_;
  }
  void after(const Call& c, double) override { check(c); }
  bool found() const { return found_; }

 private:
  struct Inside : Observer {
    explicit Inside(BadFinder* f) : finder(f) {}
    void before(const Call& c) override {
      if (c.op->is_composition()) mode.observer = this;
    }
    void after(const Call& c, double) override { finder->check(c); }
    BadFinder* finder;
  };

  // The arguments are looked at only when a result is bad.
  void check(const Call& c) {
    if (found_ || c.op->view) return;
    for (const Tensor& t : c.out) {
      const Bad bad = t ? look(t.get()) : Bad();
      if (!bad) continue;
      for (int i = 0; i < c.n; ++i) {
        if (c.arg[i].tag == Tag::Tensor && !(c.inplace && i == 0) && look(c.arg[i].t)) return;
        if (c.arg[i].tag == Tag::Tensors)
          for (uint32_t k = 0; k < c.arg[i].n; ++k)
            if (c.arg[i].tensors[k] && look(c.arg[i].tensors[k])) return;
      }
      found_ = true;
      remember(c, t, bad);
      return;
    }
  }

  void remember(const Call& c, const Tensor& t, Bad bad) {
    const NoGrad quiet;
    const Where where = current_where ? current_where() : Where{};
    lua_createtable(L_, 0, 10);
    set_text(L_, "name", public_name(*c.op));
    set_text(L_, "outer", public_name(*outer_));
    set_text(L_, "source", where.source ? source_name(where.source) : "");
    set_integer(L_, "line", where.line);
    set_integer(L_, "nan", bad.nan);
    set_integer(L_, "inf", bad.inf);
    set_integer(L_, "numel", t.numel());
    set_text(L_, "shape", to_string(t.shape()));
    set_text(L_, "dtype", dtype_short_name(t.dtype()));
    lua_newtable(L_);
    int count = 0;
    for (int i = 0; i < c.n; ++i) {
      if (c.arg[i].tag != Tag::Tensor || (c.inplace && i == 0)) continue;
      push(L_, alias(c.tensor(i)));
      lua_rawseti(L_, -2, ++count);
    }
    lua_setfield(L_, -2, "inputs");
    lua_rawsetp(L_, LUA_REGISTRYINDEX, this);
  }

  lua_State* L_;
  const Op* outer_ = nullptr;
  bool found_ = false;
  Inside inside_{this};
};

}  // namespace

// _find_bad(f) -> ok, results or error, ... as _attempt gives them; after a table that describes
// the first operation inside f whose result was not finite although its inputs were, or nil.
int lua_find_bad(lua_State* L) {
  check_function(L, 1, "_find_bad");
  lua_settop(L, 1);
  BadFinder finder(L);
  lua_pushcfunction(L, lua_attempt);
  lua_insert(L, 1);
  Observer* const outer = std::exchange(mode.observer, &finder);
  const int status = lua_pcall(L, 1, LUA_MULTRET, 0);
  mode.observer = outer;
  if (status != LUA_OK) return lua_error(L);
  if (finder.found()) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &finder);
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &finder);
  } else {
    lua_pushnil(L);
  }
  lua_insert(L, 1);
  return lua_gettop(L);
}

}  // namespace tycho::lua
