// x[...] and x[...] = v in all forms of the dialect: positions from 1, inclusive ranges, masks,
// integer tensors, torch.ellipsis, torch.newaxis, and the same written as a string.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "bindings/core/lua.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho::lua {
namespace {

char ellipsis_mark, newaxis_mark;  // their addresses are torch.ellipsis and torch.newaxis

struct Item {
  enum Kind : uint8_t { Position, Range, Ellipsis, New, Positions } kind;
  int64_t start = 0, stop = 0, step = 1;  // as written; a range's missing stop is -1
  Tensor tensor;
};
using Items = SmallVec<Item, 4>;

[[noreturn]] void bad(const std::string& text, const char* hint = "") {
  fail(tycho::Kind::Index, text, hint);
}

int64_t whole(lua_State* L, int i, const char* what) {
  // One whole number in a tensor stands for it, as in Python.
  if (const Impl* t = lua_type(L, i) == LUA_TUSERDATA ? to_impl(L, i) : nullptr;
      t && t->rank == 0 && !is_floating(t->dtype) && t->dtype != DType::Bool)
    return integer_at(t, 0);
  int is_int = 0;
  const lua_Integer x = lua_tointegerx(L, i, &is_int);
  if (lua_type(L, i) != LUA_TNUMBER) {
    std::string room;
    bad(format("index: %s must be an integer, not %s", what, describe_value(L, i, &room)));
  }
  if (!is_int) bad(format("index: %s must be an integer, not %s", what, lua_tostring(L, i)));
  return x;
}

Item range_item(lua_State* L, int table) {
  Item item{Item::Range, 1, -1, 1, {}};
  const int64_t n = static_cast<int64_t>(lua_rawlen(L, table));
  int64_t* const parts[] = {&item.start, &item.stop, &item.step};
  static const char* const names[] = {"start", "stop", "step"};
  if (n > 3)
    bad("index: a range has at most three parts, {first, last, step}",
        "x[torch.tensor{1, 3, 5, 7}]  -- a list of positions is a tensor");
  for (int k = 0; k < 3; ++k) {
    if (k < n) {
      lua_rawgeti(L, table, k + 1);
    } else {
      lua_getfield(L, table, names[k]);
      if (k == 1 && lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_getfield(L, table, "end");
      }
    }
    if (!lua_isnil(L, -1)) *parts[k] = whole(L, -1, "a range's bound");
    lua_pop(L, 1);
  }
  return item;
}

Item value_item(lua_State* L, int i) {
  switch (lua_type(L, i)) {
    case LUA_TNUMBER:
      return Item{Item::Position, whole(L, i, "a position"), 0, 1, {}};
    case LUA_TTABLE:
      return range_item(L, lua_absindex(L, i));
    case LUA_TLIGHTUSERDATA:
      if (lua_touserdata(L, i) == &ellipsis_mark) return Item{Item::Ellipsis, 0, 0, 1, {}};
      if (lua_touserdata(L, i) == &newaxis_mark || !lua_touserdata(L, i))
        return Item{Item::New, 0, 0, 1, {}};
      break;
    case LUA_TUSERDATA:
      if (Impl* t = to_impl(L, i)) {
        if (is_floating(t->dtype))
          fail(tycho::Kind::DType,
               format("index: positions are integers and masks are bool, not %s",
                      dtype_name(t->dtype)),
               "x[i:long()]");
        return Item{Item::Positions, 0, 0, 1, Tensor(t)};
      }
      break;
    default:
      break;
  }
  std::string room;
  bad(format("index: %s is no position, range, mask or tensor of positions",
             describe_value(L, i, &room)));
}

// "1:2, :, -1, ..., new"
void parse_text(const char* text, Items* items) {
  const char* p = text;
  const auto skip = [&] {
    while (*p == ' ') ++p;
  };
  const auto number = [&](int64_t* out) {
    char* end;
    const long long x = std::strtoll(p, &end, 10);
    if (end == p) return false;
    *out = x;
    p = end;
    skip();
    return true;
  };
  const auto wrong = [&] {
    bad(format("index: \"%s\" is no index; write it like \"1:2, :, -1\"", text));
  };
  skip();
  while (true) {
    if (!std::strncmp(p, "...", 3)) {
      items->push_back(Item{Item::Ellipsis, 0, 0, 1, {}});
      p += 3;
    } else if (!std::strncmp(p, "new", 3)) {
      p += 3;
      if (!std::strncmp(p, "axis", 4)) p += 4;
      items->push_back(Item{Item::New, 0, 0, 1, {}});
    } else {
      Item item{Item::Range, 1, -1, 1, {}};
      const bool first = number(&item.start);
      if (*p == ':') {
        ++p;
        skip();
        number(&item.stop);
        if (*p == ':') {
          ++p;
          skip();
          if (!number(&item.step)) wrong();
        }
      } else if (first) {
        item.kind = Item::Position;
      } else {
        wrong();
      }
      items->push_back(std::move(item));
    }
    skip();
    if (!*p) return;
    if (*p != ',') wrong();
    ++p;
    skip();
  }
}

void read_items(lua_State* L, int i, Items* items) {
  if (lua_type(L, i) == LUA_TSTRING) {
    const char* s = lua_tostring(L, i);
    if (!*s || (!std::strchr("0123456789-:. ", *s) && std::strncmp(s, "new", 3)))
      fail(tycho::Kind::Argument, format("a tensor has no method or field \"%s\"", s));
    return parse_text(s, items);
  }
  if (lua_type(L, i) == LUA_TTABLE) {
    const int n = static_cast<int>(lua_rawlen(L, i));
    for (int k = 1; k <= n; ++k) {
      lua_rawgeti(L, i, k);
      items->push_back(value_item(L, -1));
      lua_pop(L, 1);
    }
    return;
  }
  items->push_back(value_item(L, i));
}

std::string range_text(int64_t n) {
  return n ? format(" (1..%lld, or -%lld..-1)", static_cast<long long>(n),
                    static_cast<long long>(n))
           : "";
}

// Positions as written to 0-based ones, checked.
int64_t place(int64_t i, int dim, int64_t n) {
  if (i == 0) bad("index 0: tensors count from 1; the last one is -1");
  if (i > n || i < -n)
    bad(format("index %lld is out of range for dimension %d with size %lld%s",
               static_cast<long long>(i), dim + 1, static_cast<long long>(n),
               range_text(n).c_str()));
  return i > 0 ? i - 1 : i + n;
}

// A range of dimension `dim`, which was dimension `named` of the tensor that the user indexed.
Tensor slice(const Tensor& x, int dim, int named, const Item& r) {
  const int64_t n = x.size(dim);
  if (r.step < 1)
    bad(format("index: a range's step must be positive, not %lld", static_cast<long long>(r.step)),
        "x:flip(1)  -- reverses");
  if (r.start == 1 && r.stop == -1 && r.step == 1) return x;
  if (r.start == 0 || (r.stop == 0 && r.start != 1))
    bad("index 0: tensors count from 1; the last one is -1");
  int64_t first = r.start > 0 ? r.start - 1 : r.start + n,
          last = r.stop >= 0 ? r.stop : r.stop + n + 1;
  const bool empty = last == first && first >= 0 && first <= n;  // {k, k - 1}
  if (!empty) {
    if (n == 0 && r.start == 1 && r.stop == -1) return x;
    place(r.start, named, n);
    if (r.stop > n)
      bad(format("index %lld is out of range for dimension %d with size %lld%s; ranges are not cut "
                 "off, and {%lld} goes to the end",
                 static_cast<long long>(r.stop), named + 1, static_cast<long long>(n),
                 range_text(n).c_str(), static_cast<long long>(r.start)));
    place(r.stop, named, n);
    if (last < first)
      bad(format("index: the range {%lld, %lld} runs backward in dimension %d with size %lld; the "
                 "empty range after %lld is {%lld, %lld}",
                 static_cast<long long>(r.start), static_cast<long long>(r.stop), named + 1,
                 static_cast<long long>(n), static_cast<long long>(first),
                 static_cast<long long>(first + 1), static_cast<long long>(first)),
          "x:flip(1)  -- reverses");
  }
  return op<"slice">(x, dim, first, last, r.step);
}

// Applies the positions, ranges and new axes as views; tensors of positions stay for `lists`, one
// entry per dimension of the view (undefined: whole dimension).
Tensor basic(const Tensor& x, const Items& items, std::vector<Tensor>* lists) {
  int used = 0;
  bool dots = false;
  for (const Item& it : items) {
    if (it.kind == Item::Ellipsis) {
      if (dots) bad("index: only one ellipsis can stand in an index");
      dots = true;
    } else if (it.kind == Item::Positions) {
      used += it.tensor.dtype() == DType::Bool ? it.tensor.rank() : 1;
    } else if (it.kind != Item::New) {
      ++used;
    }
  }
  if (used > x.rank())
    bad(format("index: %d positions for a tensor with %d dimension%s (shape %s)", used, x.rank(),
               x.rank() == 1 ? "" : "s", to_string(x.shape()).c_str()),
        x.rank() == 0 ? "x:item()  -- the number in a 0-d tensor" : "");
  Tensor y = x;
  int dim = 0, of_x = 0, folded = 0;
  for (const Item& it : items) {
    switch (it.kind) {
      case Item::Position: {
        const int64_t at = place(it.start, of_x, y.size(dim));
        y = op<"select">(y, dim, at);
        ++of_x;
        break;
      }
      case Item::Range:
        y = slice(y, dim, of_x, it);
        ++dim, ++of_x;
        break;
      case Item::Ellipsis:
        dim += x.rank() - used;
        of_x += x.rank() - used;
        break;
      case Item::New:
        y = op<"unsqueeze">(y, dim++);
        break;
      case Item::Positions: {
        const int takes = it.tensor.dtype() == DType::Bool ? it.tensor.rank() : 1;
        if (it.tensor.dtype() == DType::Bool)
          for (int k = 0; k < takes; ++k)
            if (it.tensor.size(k) != y.size(dim + k))
              fail(tycho::Kind::Shape,
                   format(
                       "index: the mask has shape %s, but dimension %d of the tensor has size %lld",
                       to_string(it.tensor.shape()).c_str(), of_x + k + 1,
                       static_cast<long long>(y.size(dim + k))));
        // One entry per index tensor: a mask of several dimensions is one entry for all of them.
        lists->resize(dim - folded);
        // As the operation does, but errors keep naming the index itself.
        const bool here = it.tensor.device() == x.device() || !it.tensor.device().is_cpu();
        lists->push_back(here ? it.tensor : op<"to.device">(it.tensor, x.device()));
        folded += takes - 1;
        dim += takes;
        of_x += takes;
        break;
      }
    }
  }
  return y;
}

}  // namespace

int index_get(lua_State* L) {
  pace_collector(L);
  const Tensor& x = check_tensor(L, 1, "index");
  Tensor y;
  if (lua_isinteger(L, 2)) {  // x[i], the most frequent
    if (x->rank == 0) bad("index: a 0-d tensor has no positions", "x:item()  -- the number in it");
    y = op<"select">(x, 0, place(lua_tointeger(L, 2), 0, x.size(0)));
  } else {
    Items items;
    std::vector<Tensor> lists;
    read_items(L, 2, &items);
    y = basic(x, items, &lists);
    if (!lists.empty())
      y = op<"index">(y, lists);
    else if (y.get() == x.get())
      y = op<"alias">(x);
  }
  push(L, y);
  return 1;
}

int index_set(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "index");
  Items items;
  std::vector<Tensor> lists;
  read_items(L, 2, &items);
  Tensor value;
  if (const Impl* t = to_impl(L, 3)) {
    value = Tensor(const_cast<Impl*>(t));
  } else if (lua_type(L, 3) == LUA_TNUMBER) {
    value = lua_isinteger(L, 3) ? number_tensor(static_cast<int64_t>(lua_tointeger(L, 3)))
                                : number_tensor(static_cast<double>(lua_tonumber(L, 3)));
  } else if (lua_type(L, 3) == LUA_TBOOLEAN) {
    value = number_tensor(static_cast<bool>(lua_toboolean(L, 3)));
  } else {
    std::string room;
    fail(tycho::Kind::Argument,
         format("index: only a number, a boolean or a tensor can be assigned, not %s",
                describe_value(L, 3, &room)),
         "x[i] = torch.tensor{...}");
  }
  Tensor y = basic(x, items, &lists);
  // As in PyTorch, sizes of 1 in front do not count: x[i] = y of shape [1].
  while ((lists.empty() ? value.rank() > y.rank() : value.rank() > 0) && value.size(0) == 1)
    value = op<"select">(value, 0, 0);
  if (lists.empty()) {
    op_<"copy">(y, value);
  } else {
    if (value.dtype() != y.dtype()) value = op<"to.dtype">(value, y.dtype());
    if (!(value.device() == y.device())) value = op<"to.device">(value, y.device());
    op_<"index_put">(y, lists, value, false);
  }
  pace_collector(L);
  return 0;
}

void open_index(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  lua_pushlightuserdata(L, &ellipsis_mark);
  lua_setfield(L, torch, "ellipsis");
  lua_pushlightuserdata(L, &newaxis_mark);
  lua_setfield(L, torch, "newaxis");
}

}  // namespace tycho::lua
