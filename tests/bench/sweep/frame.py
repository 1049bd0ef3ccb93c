"""How a case is written: one statement with its set-up, in Python (dsl.py turns it into Lua), with seeded shapes, layouts
and options. The families are in cases_*.py; a family's cases depend on the seed and its name only."""
import math
import random
import zlib

import dsl

cases = []
families = []
state = {"family": "", "seed": 0, "more": 1.0}


def add(op, pre, stmt, outs=("r",), tol=2e-4, bwd=False, nosum=False, lua=None, lua_pre=None, **info):
    i = sum(1 for c in cases if c["family"] == state["family"])
    name = "%s.%04d" % (state["family"], i)
    pre, stmt = pre.strip(), stmt.strip()
    try:
        c = {"case": name, "family": state["family"], "op": op, "bwd": bwd, "tol": tol, "nosum": nosum,
             "seed": zlib.crc32(("%d %s" % (state["seed"], name)).encode()) % 100000,
             "py_pre": dsl.to_py(pre), "py": dsl.to_py(stmt), "py_outs": [dsl.to_py(o) for o in outs],
             "lua_pre": lua_pre if lua_pre is not None else dsl.to_lua(pre),
             "lua": lua if lua is not None else dsl.to_lua(stmt), "lua_outs": [dsl.to_lua(o) for o in outs],
             "assigned": dsl.names(stmt), **info}
    except Exception as e:
        raise SystemExit("%s %s: %s\n%s\n%s" % (name, op, e, pre, stmt))
    cases.append(c)


def family(name):
    def wrap(f):
        def go():
            state["family"] = name
            f(random.Random("%d %s" % (state["seed"], name)))
        go.name = name
        families.append(go)
        return go
    return wrap


times = lambda n: range(max(1, round(n * state["more"])))


def logu(g, lo, hi): return max(lo, min(hi, int(round(math.exp(g.uniform(math.log(lo), math.log(hi + 0.5)))))))


def shape(g, nd, lo, hi, least=1):
    """nd sizes of uneven length, between lo and hi elements together"""
    n = math.exp(g.uniform(math.log(lo), math.log(hi)))
    w = [g.random() ** 1.5 + 0.03 for _ in range(nd)]
    s = [max(least, round(n ** (x / sum(w)))) for x in w]
    if g.random() < 0.3:
        k = g.randrange(nd)
        s[k] = max(least, g.choice([s[k] // 16 * 16 or s[k], s[k] | 1]))
    return s


SIZES = [(1, 64), (65, 3000), (5000, 100000), (200000, 3000000)]
def sized(g, nd=None, which=None, least=1):
    lo, hi = SIZES[which if which is not None else g.choice([0, 1, 2, 2, 3, 3])]
    return shape(g, nd or g.choice([1, 2, 2, 3, 4]), lo, hi, least)


def values(kind, s, dt="float32"):
    t = {"n": "torch.randn(%s)", "u": "(torch.rand(%s) * 0.9 + 0.05)", "p": "(torch.rand(%s) * 3.0 + 0.1)",
         "g1": "(torch.rand(%s) * 3.0 + 1.1)", "i": "torch.randint(-50, 50, %s)", "ip": "torch.randint(1, 100, %s)",
         "sh": "torch.randint(0, 8, %s)", "b": "(torch.rand(%s) > 0.5)", "big": "(torch.randn(%s) * 50.0)"}[kind] % (s,)
    own = {"i": "int64", "ip": "int64", "sh": "int64", "b": "bool"}.get(kind, "float32")
    return t if dt == own else t + ".to(torch.%s)" % dt


def laid(g, name, kind, s, dt, layout):
    """text that makes a tensor of this shape in this layout"""
    s = list(s)
    if layout == "transposed" and len(s) >= 2:
        b = s[:-2] + [s[-1], s[-2]]
        return "%s = %s.transpose(D(-1), D(-2))" % (name, values(kind, b, dt))
    if layout == "reversed" and len(s) >= 2:
        p = ", ".join("D(%d)" % i for i in reversed(range(len(s))))
        return "%s = %s.permute(%s)" % (name, values(kind, s[::-1], dt), p)
    if layout == "sliced":
        b = s[:-1] + [s[-1] + 5]
        return "%s_ = %s; %s = %s_[..., 2:%d]" % (name, values(kind, b, dt), name, name, s[-1] + 2)
    if layout == "stepped":
        b = s[:-1] + [s[-1] * 2]
        return "%s_ = %s; %s = %s_[..., 0:%d:2]" % (name, values(kind, b, dt), name, name, s[-1] * 2)
    if layout == "rows" and len(s) >= 2:
        b = [s[0] * 3] + s[1:]
        return "%s_ = %s; %s = %s_[0:%d:3]" % (name, values(kind, b, dt), name, name, s[0] * 3)
    if layout == "expanded" and len(s) >= 2:
        k = g.randrange(len(s))
        b = s[:k] + [1] + s[k + 1:]
        return "%s = %s.expand(%s)" % (name, values(kind, b, dt), s)
    return "%s = %s" % (name, values(kind, s, dt))


LAYOUTS = ["contiguous"] * 5 + ["transposed", "transposed", "sliced", "stepped", "rows", "reversed", "expanded"]
TOL = {"float32": 2e-4, "float64": 2e-5, "bfloat16": 2e-2, "float16": 5e-3}
FL = ["float32"] * 5 + ["float64", "float64", "bfloat16", "bfloat16"]


def back(op, pre, e, params, **kw):
    pre += "; " + "; ".join("%s.requires_grad_()" % p for p in params) + "; r0 = %s; g = torch.empty_like(r0).copy_(torch.randn(r0.shape)); r0 = None" % e
    body = "; ".join("%s.grad = None" % p for p in params) + "; r = %s; r.backward(g)" % e
    add(op, pre, body, ["r"] + ["%s.grad" % p for p in params], bwd=True, **kw)
