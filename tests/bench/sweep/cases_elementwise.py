"""Elementwise operations: one, two and three operands, integers, in place and out=, conversions."""
import math

from frame import *  # noqa: F403


UNARY = [("torch." + n, k) for n, k in [
    ("abs", "n"), ("neg", "n"), ("exp", "n"), ("exp2", "n"), ("expm1", "n"), ("log", "p"), ("log2", "p"), ("log10", "p"),
    ("log1p", "p"), ("sqrt", "p"), ("rsqrt", "p"), ("square", "n"), ("reciprocal", "p"), ("sin", "n"), ("cos", "n"),
    ("tan", "u"), ("asin", "u"), ("acos", "u"), ("atan", "n"), ("sinh", "n"), ("cosh", "n"), ("tanh", "n"), ("asinh", "n"),
    ("acosh", "g1"), ("atanh", "u"), ("sigmoid", "n"), ("erf", "n"), ("erfc", "n"), ("erfinv", "u"), ("lgamma", "p"),
    ("digamma", "p"), ("floor", "big"), ("ceil", "big"), ("round", "big"), ("trunc", "big"), ("frac", "big"), ("sign", "n"),
    ("isnan", "n"), ("isinf", "n"), ("isfinite", "n"), ("relu", "n"), ("logit", "u"), ("sinc", "n"), ("i0", "n"),
    ("nan_to_num", "n"), ("deg2rad", "n"), ("signbit", "n"), ("sgn", "n"), ("positive", "n")]] + [("F." + n, "n") for n in [
    "gelu", "silu", "mish", "softplus", "elu", "selu", "celu", "hardswish", "hardsigmoid", "hardtanh", "leaky_relu",
    "logsigmoid", "softsign", "tanhshrink", "relu6", "hardshrink", "softshrink"]]


def unary_call(f, x="x"): return "%s(%s)" % (f, x)


@family("unary")
def _(g):
    for f, k in UNARY:
        s = sized(g, which=3)
        add(f, "x = " + values(k, s), "r = " + unary_call(f), desc=s)
        for _ in times(1):
            dt, s, l = g.choice(FL), sized(g, which=g.choice([1, 2, 2, 3])), g.choice(LAYOUTS)
            add(f, laid(g, "x", k, s, dt, l), "r = " + unary_call(f), tol=TOL[dt], dtype=dt, layout=l, desc=s)
    for f in ["abs", "neg", "sign", "square", "bitwise_not", "logical_not", "sqrt", "exp", "isnan", "relu", "sin"]:
        dt, s, l = g.choice(["int64", "int64", "int32", "uint8"]), sized(g), g.choice(LAYOUTS)
        add("torch." + f, laid(g, "x", "ip", s, dt, l), "r = torch.%s(x)" % f, dtype=dt, layout=l, desc=s)
    add("F.gelu tanh", "x = torch.randn([800, 900])", 'r = F.gelu(x, approximate="tanh")')
    add("F.prelu", "x = torch.randn([16, 64, 900]); w = torch.rand([64])", "r = F.prelu(x, w)")
    add("F.glu", "x = torch.randn([700, 1024])", "r = F.glu(x, D(1))")
    add("F.threshold", "x = torch.randn([700, 1024])", "r = F.threshold(x, 0.1, 20.0)")
    add("torch.polygamma", "x = torch.rand([100, 1024]) + 0.5", "r = torch.polygamma(1, x)")


@family("unary_bwd")
def _(g):
    for f, k in g.sample(UNARY, 34):
        if f.split(".")[1] in ("isnan", "isinf", "isfinite", "signbit", "sign", "floor", "ceil", "round", "trunc", "sgn"): continue
        dt, s, l = g.choice(FL), sized(g, which=g.choice([0, 2, 3])), g.choice(["contiguous"] * 4 + ["transposed", "stepped"])
        back(f, laid(g, "x", k, s, dt, l), unary_call(f), ["x"], tol=TOL[dt] * 5, dtype=dt, layout=l, desc=s)

BINARY = [("x + y", "n", "n"), ("x - y", "n", "n"), ("x * y", "n", "n"), ("x / y", "n", "p"), ("x // y", "n", "p"), ("x % y", "n", "p"),
          ("torch.pow(x, y)", "p", "n"), ("torch.maximum(x, y)", "n", "n"), ("torch.minimum(x, y)", "n", "n"), ("torch.fmod(x, y)", "n", "p"),
          ("torch.atan2(x, y)", "n", "n"), ("torch.hypot(x, y)", "n", "n"), ("torch.copysign(x, y)", "n", "n"), ("torch.logaddexp(x, y)", "n", "n"),
          ("torch.xlogy(x, y)", "n", "p"), ("x == y", "n", "n"), ("x < y", "n", "n"), ("x >= y", "n", "n"), ("x != y", "n", "n"),
          ("torch.logical_and(x, y)", "n", "n"), ("torch.isclose(x, y)", "n", "n"), ("torch.fmax(x, y)", "n", "n"), ("torch.lerp(x, y, 0.3)", "n", "n"),
          ("torch.nextafter(x, y)", "n", "n"), ("torch.heaviside(x, y)", "n", "n"), ("torch.add(x, y, alpha=0.5)", "n", "n"),
          ('torch.div(x, y, rounding_mode="trunc")', "n", "p"), ("torch.float_power(x, y)", "p", "n")]
SCALAR = [("x + 1.5", "n"), ("x * 2", "n"), ("x / 3.0", "n"), ("1.0 / x", "p"), ("1.0 - x", "n"), ("x ** 2", "n"), ("x ** 3", "n"), ("x ** 0.5", "p"), ("x ** (-1)", "p"),
          ("x ** 2.5", "p"), ("x ** (-2)", "p"), ("2.0 ** x", "n"), ("x % 0.7", "n"), ("x // 0.7", "n"), ("x > 0.5", "n"), ("x == 0.0", "n"), ("x <= 0.1", "n"), ("torch.fmod(x, 0.7)", "n"),
          ("x.clamp(-1.0, 1.0)", "n"), ("x.clamp(min=0.1)", "n"), ("x.clamp(max=0.1)", "n"), ("x.clip(-0.5, 0.5)", "n"), ("-x", "n"), ("x.masked_fill(x > 0.3, 0.0)", "n")]
TERNARY = [("torch.where(x > 0.0, x, y)", "nn"), ("torch.where(x > y, x, 0.0)", "nn"), ("torch.where(x > y, 1.0, 0.0)", "nn"), ("torch.addcmul(x, y, z, value=0.5)", "nnn"),
           ("torch.addcdiv(x, y, z, value=0.5)", "nnp"), ("torch.clamp(x, y, z)", "nnn"), ("torch.clamp(x, min=y)", "nn"), ("torch.lerp(x, y, z)", "nnu"),
           ("(x * y + z).relu()", "nnn"), ("x * torch.sigmoid(y) + z * (1.0 - torch.sigmoid(y))", "nnn"), ("(x - y) ** 2 * z", "nnn")]
INTS = [("x + y", "i", "i"), ("x * y", "i", "i"), ("x // y", "i", "ip"), ("x % y", "i", "ip"), ("x / y", "i", "ip"), ("x & y", "i", "i"), ("x | y", "i", "i"), ("x ^ y", "i", "i"), ("x << y", "ip", "sh"),
        ("x >> y", "ip", "sh"), ("x == y", "i", "i"), ("x < y", "i", "i"), ("torch.maximum(x, y)", "i", "i"), ("torch.gcd(x, y)", "ip", "ip"), ("torch.lcm(x, y)", "ip", "ip"),
        ("torch.fmod(x, y)", "i", "ip"), ("x - y", "i", "i"), ("x ** y", "sh", "sh"), ("torch.where(x > y, x, y)", "i", "i"), ("x.clamp(-10, 10)", "i", "i"), ("x % 7", "i", "i"), ("x // 7", "i", "i"), ("x * 3", "i", "i")]


def broadcast_pair(g, s):
    """shapes that broadcast to s"""
    a, b, nd = list(s), list(s), len(s)
    how = g.choice(["row", "column", "outer", "scalar0", "middle", "channel"])
    if how == "scalar0": return a, [], how
    if nd == 1: return a, [1], "one"
    if how == "row": b = [s[-1]]
    elif how == "column": b = s[:-1] + [1]
    elif how == "outer": a, b = s[:-1] + [1], [s[-1]]
    elif how == "channel": b = [s[1]] + [1] * (nd - 2) if nd > 2 else [1, s[1]]
    else: b[g.randrange(nd)] = 1
    return a, b, how


@family("binary")
def _(g):
    for e, kx, ky in BINARY:
        dt = "float32"
        s = sized(g, which=3)
        add(e, "x = %s; y = %s" % (values(kx, s), values(ky, s)), "r = " + e, desc=s)
        dt, s, l, m = g.choice(FL), sized(g, which=g.choice([1, 2, 2, 3])), g.choice(LAYOUTS), g.choice(LAYOUTS)
        add(e, laid(g, "x", kx, s, dt, l) + "; " + laid(g, "y", ky, s, dt, m), "r = " + e, tol=TOL[dt], dtype=dt, layout=l + "," + m, desc=s)
    for e, kx, ky in BINARY[:5] + g.sample(BINARY[5:], 9):
        dt, s = g.choice(FL), sized(g, nd=g.choice([2, 3, 4]), which=g.choice([2, 3]))
        a, b, how = broadcast_pair(g, s)
        add(e + " " + how, "x = %s; y = %s" % (values(kx, a, dt), values(ky, b, dt)), "r = " + e, tol=TOL[dt], dtype=dt, desc=[a, b])
    for e, k in SCALAR:
        dt, s, l = g.choice(FL), sized(g, which=g.choice([2, 3])), g.choice(LAYOUTS)
        add(e, laid(g, "x", k, s, dt, l), "r = " + e, tol=TOL[dt], dtype=dt, layout=l, desc=s)
    for e, ks in TERNARY:
        dt, s = g.choice(FL), sized(g, which=g.choice([2, 3]))
        ls = [g.choice(LAYOUTS) for _ in ks]
        add(e, "; ".join(laid(g, n, k, s, dt, l) for n, k, l in zip("xyz", ks, ls)), "r = " + e, tol=TOL[dt], dtype=dt, layout=",".join(ls), desc=s)
    for dx, dy in [("float32", "int64"), ("bfloat16", "float32"), ("int32", "int64"), ("float64", "float32"), ("float32", "bool"), ("int64", "uint8"), ("bfloat16", "bfloat16")]:
        s = sized(g, which=g.choice([2, 3]))
        e = g.choice(["x + y", "x * y"])
        kind = lambda d: "ip" if "int" in d else "b" if d == "bool" else "n"
        add(e + " mixed", "x = %s; y = %s" % (values(kind(dx), s, dx), values(kind(dy), s, dy)), "r = " + e, tol=2e-2 if dx == "bfloat16" else 2e-4, dtype=dx + "," + dy, desc=s)


@family("binary_int")
def _(g):
    for e, kx, ky in INTS:
        dt, s, l, m = g.choice(["int64", "int64", "int64", "int32", "uint8" if kx != "i" else "int32"]), sized(g, which=g.choice([2, 3])), g.choice(LAYOUTS), g.choice(LAYOUTS)
        add(e, laid(g, "x", kx, s, dt, l) + "; " + laid(g, "y", ky, s, dt, m), "r = " + e, dtype=dt, layout=l + "," + m, desc=s)
    for e in ["x & y", "x | y", "x ^ y", "~x", "torch.logical_or(x, y)", "torch.where(x, 1.0, 2.0)", "torch.where(x, z, 0.0)", "z * x"]:
        s = sized(g, which=3)
        add(e + " bool", "x = %s; y = %s; z = %s" % (values("b", s, "bool"), values("b", s, "bool"), values("n", s)), "r = " + e, dtype="bool", desc=s)


@family("binary_bwd")
def _(g):
    for e, kx, ky in [BINARY[i] for i in (0, 1, 2, 3, 6, 7, 10, 11, 13, 14, 22)]:
        dt, s = g.choice(FL), sized(g, nd=g.choice([2, 3]), which=g.choice([0, 2, 3]))
        if g.random() < 0.6: a, b, how = broadcast_pair(g, s)
        else: a, b, how = s, s, "same"
        back(e + " " + how, "x = %s; y = %s" % (values(kx, a, dt), values(ky, b, dt)), e, ["x", "y"], tol=TOL[dt] * 20, dtype=dt, desc=[a, b])
    for e, ks in TERNARY:
        if "1.0, 0.0" in e: continue
        s = sized(g, nd=g.choice([2, 3]), which=g.choice([2, 3]))
        back(e, "; ".join("%s = %s" % (n, values(k, s)) for n, k in zip("xyz", ks)), e, [n for n in "xyz" if n in e], tol=2e-3, desc=s)
    for e, k in SCALAR[:12]:
        s = sized(g, which=g.choice([2, 3]))
        back(e, "x = " + values(k, s), e, ["x"], tol=1e-3, desc=s)


@family("inplace_out")
def _(g):
    for f, k in g.sample(UNARY[:46], 16):
        if f.endswith("isfinite") or f.endswith("isnan") or f.endswith("isinf") or f.endswith("signbit"): continue
        if f.split(".")[1] in ("nan_to_num_", "relu"): continue
        dt, s, l, m = g.choice(FL), sized(g, nd=g.choice([1, 2, 3]), which=g.choice([2, 3])), g.choice(LAYOUTS), g.choice(LAYOUTS[:-1])
        add(f + " out=", laid(g, "x", k, s, dt, l) + "; " + laid(g, "o", "n", s, dt, m), "%s(x, out=o)" % f, ["o"], tol=TOL[dt], dtype=dt, layout=l + "->" + m, desc=s)
    for f in ["add", "sub", "mul", "div", "maximum", "pow", "atan2", "fmod"]:
        dt, s, l, m = g.choice(FL), sized(g, nd=g.choice([1, 2, 3]), which=g.choice([2, 3])), g.choice(LAYOUTS), g.choice(LAYOUTS[:-1])
        add("torch.%s out=" % f, laid(g, "x", "p", s, dt, l) + "; y = " + values("p", s, dt) + "; " + laid(g, "o", "n", s, dt, m), "torch.%s(x, y, out=o)" % f, ["o"], tol=TOL[dt], dtype=dt, layout=l + "->" + m, desc=s)
    for e, k in [("x.abs_()", "n"), ("x.neg_()", "n"), ("x.relu_()", "n"), ("x.clamp_(-0.5, 0.5)", "n"), ("x.sigmoid_()", "n"), ("x.tanh_()", "n"), ("x.floor_()", "n"), ("x.round_()", "n"), ("x.sqrt_()", "p"),
                 ("x.add_(z)", "n"), ("x.add_(z, alpha=0.5)", "n"), ("x.sub_(z)", "n"), ("x.mul_(o)", "n"), ("x.mul_(1.0)", "n"), ("x.div_(o)", "n"), ("x.zero_()", "n"), ("x.fill_(3.0)", "n"), ("x.copy_(y)", "n"),
                 ("x.addcmul_(z, y)", "n"), ("x.lerp_(y, 0.1)", "n"), ("x.masked_fill_(y > 0.0, 1.0)", "n"), ("x.pow_(1.0)", "n"), ("x.maximum(y)", "n"), ("x.add_(c)", "n"), ("x.mul_(c + 1.0)", "n"), ("x.clamp_(min=0.0)", "n"), ("x.exp_().log_()", "n"), ("x.leaky_relu_(1.0)" if False else "x.cos_()", "n"), ("x.sin_()", "n")]:
        dt, s, l = g.choice(FL), sized(g, nd=g.choice([1, 2, 3]), which=g.choice([0, 2, 2, 3, 3])), g.choice(LAYOUTS[:-1])
        pre = laid(g, "x", k, s, dt, l)
        for n, t in (("z", "torch.zeros(%s)" % s), ("o", "torch.ones(%s)" % s), ("y", "torch.randn(%s)" % s), ("c", "torch.zeros(%s)" % [s[-1]])):
            if n + ")" in e or n + "," in e or n + " " in e: pre += "; %s = %s.to(torch.%s)" % (n, t, dt)
        add(e, pre, e, ["x"], tol=max(TOL[dt], 1e-3), dtype=dt, layout=l, desc=s)
    for e in ["x[mask] = 0.0", "x[0:20] = 1.0", "x[:, 3] = 2.0", "x[idx] = y", "x[:, 10:200:3] = 0.0", "x[5] = 1.0", "x[idx, cidx] = 1.0"]:
        s = [g.randint(300, 900), g.randint(300, 900)]
        add(e, "x = torch.randn(%s); mask = x > 0.3; idx = IDX(%d, [50]); cidx = IDX(%d, [50]); y = torch.zeros([50, %d])" % (s, s[0], s[1], s[1]), e, ["x"], desc=s)


@family("convert")
def _(g):
    D = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
    pairs = [(a, b) for a in D for b in D if a != b]
    for a, b in g.sample(pairs, min(len(pairs), int(44 * state["more"]))) + [("float32", "bfloat16"), ("bfloat16", "float32"), ("float32", "float64"), ("float64", "float32"), ("float32", "int64"), ("int64", "float32"), ("uint8", "float32"), ("float32", "uint8"), ("bool", "float32"), ("float32", "bool")]:
        s, l = sized(g, which=g.choice([1, 2, 3, 3])), g.choice(LAYOUTS)
        kind = "b" if a == "bool" else "ip"
        add("to %s->%s" % (a, b), laid(g, "x", kind, s, a, l), "r = x.to(torch.%s)" % b, dtype=a, layout=l, desc=s)
    for a, b in g.sample(pairs, 10):
        s, l = sized(g, which=3), g.choice(LAYOUTS)
        add("copy_ %s->%s" % (a, b), laid(g, "x", "b" if a == "bool" else "ip", s, a, l) + "; o = torch.zeros(%s, dtype=torch.%s)" % (s, b), "o.copy_(x)", ["o"], dtype=a, layout=l, desc=s)
    for e in ["x.float()", "x.half()", "x.double()", "x.bfloat16()", "x.int()", "x.bool()"]:
        add(e, "x = torch.randn([4, 4]).to(torch.float%s)" % ("64" if "float()" in e else "32"), "r = " + e, desc=[4, 4])
