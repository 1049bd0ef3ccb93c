"""Reductions, scans, sorting and searching."""
import math

from frame import *  # noqa: F403


REDUCE = ["sum", "mean", "amax", "amin", "argmax", "argmin", "prod", "norm", "var", "std", "any", "all", "logsumexp", "max", "min", "count_nonzero", "nansum", "median"]


@family("reduce")
def _(g):
    for f in REDUCE:
        for nd in (1, 2, 2, 3, 4):
            s = sized(g, nd, which=g.choice([0, 1, 2, 3, 3, 3]))
            reduce_case(g, f, s, g.randrange(nd))
        for k in range(3):   # each place of a 3-d tensor, long and short
            s = sized(g, 3, which=3)
            s[k] = g.choice([2, 3, 7, 31, 64, 257])
            s = [max(1, v) for v in s]
            while math.prod(s) > 4e6: s[(k + 1) % 3] = max(1, s[(k + 1) % 3] // 2); s[(k + 2) % 3] = max(1, s[(k + 2) % 3] // 2)
            reduce_case(g, f, s, k, plain=True)
    for f in ["sum", "mean", "amax", "prod", "var", "std", "any", "norm", "argmax", "max", "min", "all", "count_nonzero"]:   # everything
        dt, s, l = g.choice(FL), sized(g, which=3), g.choice(LAYOUTS)
        arg = "x > 3.0" if f in ("any", "all") else "x"
        e = "(%s).%s()" % (arg, f)
        add(f + " all", laid(g, "x", "p" if f == "prod" else "n", s, dt, l), "r = " + e, ["P(r)"] if f == "argmax" else ["r"], tol=max(1e-3, TOL[dt]), nosum=f == "prod" or l == "expanded", dtype=dt, layout=l, desc=s)
    for f in ["sum", "mean", "amax", "var", "logsumexp", "norm", "std", "sum", "mean"]:   # two dims
        nd = g.choice([3, 4])
        s, l = sized(g, nd, which=g.choice([2, 3])), g.choice(LAYOUTS)
        d = sorted(g.sample(range(nd), 2))
        add("%s dims %s" % (f, d), laid(g, "x", "n", s, "float32", l), "r = x.%s(dim=%s)" % (f, d), tol=1e-3, layout=l, desc=s)
    for dt in ["int64", "int32", "bool", "uint8"]:
        for f in ["sum", "amax", "any", "argmax", "prod"]:
            if dt == "bool" and f in ("prod", "argmax", "amax"): continue
            s = sized(g, g.choice([1, 2, 3]), which=g.choice([2, 3]))
            d = g.randrange(len(s))
            add("%s %s" % (f, dt), "x = " + values("b" if dt == "bool" else "ip", s, dt), "r = x.%s(dim=%d)" % (f, d), ["P(r)"] if f == "argmax" else ["r"], dtype=dt, nosum=f == "prod", dim=d, desc=s)
    for p in ["1", "3", "torch.inf", "0"]:
        s = sized(g, 2, which=3)
        add("vector_norm %s" % p, "x = torch.randn(%s)" % s, "r = torch.linalg.vector_norm(x, %s, dim=%d)" % (p, g.randrange(2)), tol=1e-3, desc=s)
    for e in ["torch.aminmax(x)", "torch.std_mean(x, dim=1)", "torch.var_mean(x, dim=0)", "torch.std_mean(x)"]:
        s = sized(g, 2, which=3)
        add(e, "x = torch.randn(%s)" % s, "a, b = " + e, ["a", "b"], tol=1e-3, desc=s)
    add("mode", "x = torch.randint(0, 20, [300, 400])", "v, i = torch.mode(x, dim=1)", ["v"], desc=[300, 400])


def reduce_case(g, f, s, d, plain=False):
    dt = "float32" if plain or g.random() < 0.5 else g.choice(FL)
    l = "contiguous" if plain else g.choice(LAYOUTS)
    if f == "median" and math.prod(s) > 1e6: s = [max(1, v // 2) for v in s]
    arg, kind = "x", "n"
    if f in ("any", "all"): dt, kind = "bool", "b"
    if f == "prod": kind = "u"
    kd = g.choice(["", ", keepdim=True"]) if f != "count_nonzero" else ""
    if f in ("max", "min", "median"):
        add(f, laid(g, "x", kind, s, dt, l), "v, i = x.%s(dim=%d%s)" % (f, d, kd), ["v"], tol=max(1e-3, TOL.get(dt, 0)), dtype=dt, layout=l, dim=d, desc=s)
    elif f == "norm":
        add(f, laid(g, "x", kind, s, dt, l), "r = x.norm(dim=%d%s)" % (d, kd), tol=max(1e-3, TOL.get(dt, 0)), dtype=dt, layout=l, dim=d, desc=s)
    else:
        add(f, laid(g, "x", kind, s, dt, l), "r = x.%s(dim=%d%s)" % (f, d, kd), ["P(r)"] if f.startswith("arg") else ["r"], tol=max(1e-3, TOL.get(dt, 0)),
            nosum=dt == "bfloat16" and f.startswith("arg"), dtype=dt, layout=l, dim=d, desc=s)


@family("reduce_bwd")
def _(g):
    for f in ["sum", "mean", "amax", "prod", "norm", "var", "std", "logsumexp", "cumsum", "cumprod", "logcumsumexp"]:
        for _ in range(2):
            nd = g.choice([1, 2, 3])
            s, d = sized(g, nd, which=g.choice([1, 2, 3])), g.randrange(nd)
            back(f, "x = " + values("u" if "prod" in f else "n", s), "x.%s(dim=%d)" % (f, d), ["x"], tol=5e-3, dim=d, desc=s)
    for f in ["max", "min"]:
        s = sized(g, 2, which=3)
        add(f, "x = torch.randn(%s).requires_grad_()" % s, "x.grad = None; v, i = x.%s(dim=%d); v.sum().backward()" % (f, g.randrange(2)), ["v", "x.grad"], bwd=True, desc=s)
    for f in ["sum", "mean", "std", "max", "norm", "prod"]:
        s = sized(g, 2, which=g.choice([0, 3]))
        add(f + " all", "x = torch.randn(%s).requires_grad_()" % s, "x.grad = None; r = x.%s(); r.backward()" % f, ["r", "x.grad"], bwd=True, tol=5e-3, nosum=f == "prod", desc=s)


@family("scan")
def _(g):
    for f in ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"]:
        for nd in (1, 2, 2, 3, 3):
            dt = g.choice(["float32", "float32", "float64", "bfloat16", "int64"]) if f in ("cumsum",) else g.choice(["float32", "float32", "float64"])
            s, d, l = sized(g, nd, which=g.choice([0, 2, 3, 3])), g.randrange(nd), g.choice(LAYOUTS)
            pre = laid(g, "x", "i" if dt == "int64" else "u", s, dt, l)
            if f in ("cummax", "cummin"): add(f, pre, "v, i = torch.%s(x, dim=%d)" % (f, d), ["v", "P(i)"], dtype=dt, layout=l, dim=d, desc=s)
            else: add(f, pre, "r = torch.%s(x, dim=%d)" % (f, d), tol=5e-2 if dt == "bfloat16" else 5e-3, dtype=dt, layout=l, dim=d, desc=s)
    for e in ["torch.diff(x, dim=0)", "torch.diff(x, dim=1)", "torch.trapezoid(y, x)", "torch.cumulative_trapezoid(y, x)"]:
        add(e, "x = torch.randn([600, 900]).cumsum(dim=1); y = torch.randn([600, 900])", "r = " + e, tol=1e-3)


@family("sort")
def _(g):
    for nd in (1, 1, 2, 2, 3, 3, 1, 2):
        dt, s, d, l = g.choice(["float32", "float32", "float64", "int64", "bfloat16", "int32", "uint8"]), sized(g, nd, which=g.choice([0, 1, 2, 3])), g.randrange(nd), g.choice(LAYOUTS)
        while math.prod(s) > 800000: s = [max(1, v // 2) for v in s]
        pre = laid(g, "x", "ip" if "int" in dt else "n", s, dt, l)
        add("sort", pre, "v, i = torch.sort(x, dim=%d, descending=%s)" % (d, g.random() < 0.5), ["v"], dtype=dt, layout=l, dim=d, desc=s)
        if nd <= 2: add("argsort", pre, "r = torch.argsort(x, dim=%d)" % d, ["P(r)"], nosum=True, dtype=dt, layout=l, dim=d, desc=s)
    add("sort stable", "x = torch.randint(0, 100, [300000])", "v, i = torch.sort(x, stable=True)", ["v", "P(i)"])
    add("sort sorted input", "x = torch.arange(300000).to(torch.float32)", "v, i = torch.sort(x)", ["v"])
    add("msort", "x = torch.randn([700, 300])", "r = torch.msort(x)")
    for nd in (1, 1, 2, 2, 2, 3, 3):
        dt, s, d = g.choice(["float32", "float32", "float64", "int64", "bfloat16"]), sized(g, nd, which=g.choice([1, 2, 3])), g.randrange(nd)
        k = logu(g, 1, s[d])
        add("topk %d" % k, "x = " + values("i" if dt == "int64" else "n", s, dt), "v, i = torch.topk(x, %d, dim=%d, largest=%s)" % (k, d, g.random() < 0.6), ["v"], dtype=dt, dim=d, desc=s)
    for f in ["kthvalue", "median", "nanmedian", "quantile", "nanquantile"]:
        for nd in (1, 2, 3):
            s, d = sized(g, nd, which=g.choice([1, 2, 2])), g.randrange(nd)
            pre = "x = torch.randn(%s)" % s
            if f == "kthvalue": add(f, pre, "v, i = torch.kthvalue(x, %d, dim=%d)" % (logu(g, 1, s[d]), d), ["v"], dim=d, desc=s)
            elif "quantile" in f: add(f, pre + "; q = torch.tensor([0.1, 0.5, 0.9])", "r = torch.%s(x, q, dim=%d)" % (f, d), tol=1e-3, dim=d, desc=s)
            else: add(f, pre, "v, i = torch.%s(x, dim=%d)" % (f, d), ["v"], dim=d, desc=s)
    for dt, hi, n in [("int64", 100, 300000), ("int64", 1000000, 300000), ("float32", 0, 200000), ("int32", 50, 1000), ("uint8", 100, 1000000), ("int64", 10, 64), ("bool", 0, 100000)]:
        x = "torch.rand([%d])" % n if dt == "float32" else "(torch.rand([%d]) > 0.5)" % n if dt == "bool" else "torch.randint(0, %d, [%d]).to(torch.%s)" % (hi, n, dt)
        add("unique", "x = " + x, "r = torch.unique(x)", dtype=dt, desc=n)
        add("unique inverse counts", "x = " + x, "r, i, c = torch.unique(x, return_inverse=True, return_counts=True)", ["r", "P(i)", "c"], dtype=dt, desc=n)
    add("unique dim 0", "x = torch.randint(0, 4, [2000, 6])", "r = torch.unique(x, dim=0)")
    add("unique dim 1", "x = torch.randint(0, 3, [6, 1000])", "r = torch.unique(x, dim=1)")
    add("unique_consecutive", "x = torch.randint(0, 3, [500000])", "r = torch.unique_consecutive(x)")
    for n, m, right in [(1000, 200000, False), (100000, 100000, True), (20, 1000000, False), (10, 10, True)]:
        for dt in ("float32", "int64"):
            x = "torch.rand([%d])" if dt == "float32" else "torch.randint(0, 100000, [%d])"
            add("searchsorted", "b, i = torch.sort(%s); x = %s" % (x % n, x % m), "r = torch.searchsorted(b, x, right=%s)" % right, ["P(r)"], dtype=dt, desc=[n, m])
            add("bucketize", "b, i = torch.sort(%s); x = %s" % (x % n, x % m), "r = torch.bucketize(x, b, right=%s)" % right, ["P(r)"], dtype=dt, desc=[n, m])
    add("searchsorted rows", "b, i = torch.sort(torch.randn([200, 64])); x = torch.randn([200, 500])", "r = torch.searchsorted(b, x)", ["P(r)"])
    for n, m in [(1000000, 10), (1000000, 100000), (200, 20)]:
        add("bincount", "x = torch.randint(0, %d, [%d])" % (m, n), "r = torch.bincount(x)", desc=[n, m])
        add("bincount weights", "x = torch.randint(0, %d, [%d]); w = torch.rand([%d])" % (m, n, n), "r = torch.bincount(x, w)", tol=1e-3, desc=[n, m])
        add("histc", "x = torch.randn([%d])" % n, "r = torch.histc(x, %d, -3.0, 3.0)" % min(m, 1000), desc=[n, m])
    add("histc own bounds", "x = torch.randn([300000])", "r = torch.histc(x, 64)")
    add("isin", "x = torch.randint(0, 10000, [200000]); y = torch.randint(0, 10000, [500])", "r = torch.isin(x, y)")
    add("isin few", "x = torch.randint(0, 10000, [200000]); y = torch.randint(0, 10000, [5])", "r = torch.isin(x, y)")
    add("topk bwd", "x = torch.randn([200, 1000]).requires_grad_()", "x.grad = None; v, i = torch.topk(x, 10); v.sum().backward()", ["v", "x.grad"], bwd=True)
    add("sort bwd", "x = torch.randn([200, 500]).requires_grad_(); g = torch.randn([200, 500])", "x.grad = None; v, i = torch.sort(x); v.backward(g)", ["v", "x.grad"], bwd=True)
