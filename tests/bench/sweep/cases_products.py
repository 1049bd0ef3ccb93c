"""Products of matrices, linear algebra, attention and recurrent layers."""
import math

from frame import *  # noqa: F403


@family("matmul")
def _(g):
    def mm(op, a, b, dt="float32", e="a @ b", la="contiguous", lb="contiguous", bwd=False):
        pre = laid(g, "a", "n", a, dt, la) + "; " + laid(g, "b", "n", b, dt, lb)
        info = dict(tol={"float32": 1e-3, "float64": 2e-5, "bfloat16": 3e-2, "int64": 0}[dt], dtype=dt, layout=la + "," + lb, desc=[a, b])
        if bwd: back(op, pre, e, ["a", "b"], **info)
        else: add(op, pre, "r = " + e, **info)
    DT = ["float32"] * 4 + ["float64", "bfloat16"]
    lay = lambda: g.choice(["contiguous"] * 3 + ["transposed"] * 2 + ["sliced"])
    for _ in times(26):   # random m n k
        while True:
            m, n, k = (logu(g, 1, 3000) for _ in range(3))
            if 2e3 < m * n * k < 2e9: break
        mm("mm", [m, k], [k, n], g.choice(DT), la=lay(), lb=lay())
    for m, k, n in [(100000, 3, 3), (3, 3, 100000), (50000, 16, 1), (1, 2000, 3000), (4, 100000, 4), (2000, 1, 2000), (2, 512, 50000), (60000, 10, 784), (8, 4096, 4096), (1, 64, 64), (3, 3, 3), (33, 65, 17), (128, 128, 128), (500, 500, 500), (64, 30000, 64), (1000, 8, 1000)]:
        mm("mm", [m, k], [k, n])
        if m * n * k < 5e8: mm("mm", [m, k], [k, n], g.choice(["float64", "bfloat16"]), la=lay(), lb=lay())
    for _ in times(16):
        while True:
            b, m, n, k = logu(g, 2, 500), logu(g, 1, 300), logu(g, 1, 300), logu(g, 1, 300)
            if 1e4 < b * m * n * k < 1e9: break
        mm("bmm", [b, m, k], [b, k, n], g.choice(DT), "torch.bmm(a, b)", la=lay(), lb=lay())
    for a, b in [([32, 8, 100, 64], [32, 8, 64, 100]), ([8, 1, 50, 30], [12, 30, 20]), ([64, 10, 30], [30, 40]), ([30, 40], [50, 40, 20]), ([10000, 3, 3], [10000, 3, 3]), ([10000, 4, 4], [10000, 4, 1]), ([1000, 16, 16], [16, 16]), ([100, 1, 500], [100, 500, 1]), ([5000, 2, 2], [5000, 2, 2]), ([200, 50], [50]), ([50], [50, 700]), ([100, 40, 50], [50]), ([512], [100, 512, 20])]:
        mm("matmul", a, b, g.choice(DT))
    for n in (10, 1000, 1000000):
        mm("dot", [n], [n], "float32", "torch.dot(a, b)")
        mm("dot", [n], [n], g.choice(["float64", "bfloat16"]), "torch.dot(a, b)")
    for m, n in [(3000, 3000), (10, 20000), (20000, 10), (200, 300), (8, 8), (1000000, 4)]:
        mm("mv", [m, n], [n], g.choice(DT), "torch.mv(a, b)", la=g.choice(["contiguous", "transposed"]))
        add("addmv", "c = torch.randn([%d]); a = torch.randn([%d, %d]); b = torch.randn([%d])" % (m, m, n, n), "r = torch.addmv(c, a, b)", tol=1e-3, desc=[m, n])
    for _ in times(12):
        while True:
            m, n, k = (logu(g, 1, 2000) for _ in range(3))
            if 1e3 < m * n * k < 1e9: break
        dt = g.choice(DT)
        tol = {"float32": 1e-3, "float64": 2e-5, "bfloat16": 3e-2}[dt]
        c = g.choice([[m, n], [n], [m, 1]])
        pre = "c = %s; a = %s; b = %s" % (values("n", c, dt), values("n", [m, k], dt), values("n", [k, n], dt))
        add("addmm", pre, "r = torch.addmm(c, a, b%s)" % g.choice(["", ", beta=0.5, alpha=2.0"]), tol=tol, dtype=dt, desc=[m, k, n])
        pre = "x = %s; w = %s; b = %s" % (values("n", [m, k], dt), values("n", [n, k], dt), values("n", [n], dt))
        add("linear", pre, "r = F.linear(x, w, b)", tol=tol, dtype=dt, desc=[m, k, n])
    for m, k, n in [(1, 784, 128), (64, 784, 10), (32, 10, 10), (1, 4096, 1000), (7, 33, 129), (2048, 64, 3), (100000, 8, 1), (128, 512, 2048), (16, 2, 1), (512, 1, 512)]:
        add("linear", "x = torch.randn([%d, %d]); w = torch.randn([%d, %d]); b = torch.randn([%d])" % (m, k, n, k, n), "r = F.linear(x, w, b)", tol=1e-3, desc=[m, k, n])
        back("linear", "x = torch.randn([%d, %d]); w = torch.randn([%d, %d]); b = torch.randn([%d])" % (m, k, n, k, n), "F.linear(x, w, b)", ["x", "w", "b"], tol=2e-3, desc=[m, k, n])
    back("linear 3d", "x = torch.randn([16, 100, 96]); w = torch.randn([200, 96]); b = torch.randn([200])", "F.linear(x, w, b)", ["x", "w", "b"], tol=2e-3)
    add("linear 4d", "x = torch.randn([4, 20, 30, 48]); w = torch.randn([24, 48])", "r = F.linear(x, w)", tol=2e-3)
    for a, b in [([300, 200], [200, 400]), ([64, 50, 60], [64, 60, 70]), ([2000, 5], [5, 3]), ([100, 4, 4], [100, 4, 4]), ([8, 8], [8, 8]), ([40, 60, 30], [30, 20]), ([500], [500])]:
        mm("matmul", a, b, g.choice(["float32", "float32", "float64"]), bwd=True, la=lay() if len(a) > 1 else "contiguous")
    for eq, ss in [("ij,jk->ik", ([200, 300], [300, 150])), ("bij,bjk->bik", ([32, 40, 50], [32, 50, 30])), ("bhqd,bhkd->bhqk", ([4, 8, 64, 32], [4, 8, 64, 32])), ("ij,ij->i", ([500, 300], [500, 300])), ("i,j->ij", ([700], [600])), ("ijk,ilm,njm,nlk,abc->n", ([6, 5, 4], [6, 3, 2], [7, 5, 2], [7, 3, 4], [2, 3, 2])),
                   ("bnij,bnjk->bik", ([8, 10, 20, 30], [8, 10, 30, 20])), ("ijk->kji", ([60, 70, 80],)), ("ii->i", ([900, 900],)), ("bi,oij,bj->bo", ([32, 20], [15, 20, 30], [32, 30])), ("bqhd,bkhd->bhqk", ([4, 64, 8, 32], [4, 64, 8, 32])), ("nchw,oc->nohw", ([4, 32, 28, 28], [64, 32])), ("ijk->i", ([100, 90, 80],)), ("...ij,...jk->...ik", ([10, 5, 20, 30], [10, 5, 30, 20]))]:
        ns = ["t%d" % i for i in range(len(ss))]
        add("einsum " + eq, "; ".join("%s = torch.randn(%s)" % p for p in zip(ns, ss)), 'r = torch.einsum("%s", %s)' % (eq, ", ".join(ns)), tol=2e-3, desc=list(ss))
    back("einsum", "x = torch.randn([4, 64, 8, 32]); y = torch.randn([4, 64, 8, 32])", 'torch.einsum("bqhd,bkhd->bhqk", x, y)', ["x", "y"], tol=2e-3)
    back("einsum 3", "x = torch.randn([32, 20]); w = torch.randn([15, 20, 30]); y = torch.randn([32, 30])", 'torch.einsum("bi,oij,bj->bo", x, w, y)', ["x", "w", "y"], tol=2e-3)
    add("baddbmm", "c = torch.randn([16, 40, 60]); a = torch.randn([16, 40, 50]); b = torch.randn([16, 50, 60])", "r = torch.baddbmm(c, a, b)", tol=1e-3)
    add("addbmm", "c = torch.randn([40, 60]); a = torch.randn([16, 40, 50]); b = torch.randn([16, 50, 60])", "r = torch.addbmm(c, a, b)", tol=1e-3)
    add("addr", "c = torch.randn([400, 600]); a = torch.randn([400]); b = torch.randn([600])", "r = torch.addr(c, a, b)", tol=1e-3)
    add("tensordot", "a = torch.randn([20, 30, 40]); b = torch.randn([30, 40, 50])", "r = torch.tensordot(a, b, 2)", tol=1e-3)
    add("int64 mm", "a = torch.randint(-9, 9, [200, 300]); b = torch.randint(-9, 9, [300, 100])", "r = a @ b")
    add("int32 mm", "a = torch.randint(-9, 9, [64, 64]).to(torch.int32); b = torch.randint(-9, 9, [64, 64]).to(torch.int32)", "r = a @ b")
    add("chain multi_dot", "a = torch.randn([100, 5]); b = torch.randn([5, 200]); c = torch.randn([200, 3])", "r = torch.linalg.multi_dot([a, b, c])", tol=1e-3)
    for p in ("1.0", "2.0"):
        add("cdist p" + p, "a = torch.randn([800, 30]); b = torch.randn([900, 30])", "r = torch.cdist(a, b, p=%s)" % p, tol=2e-3)
        back("cdist p" + p, "a = torch.randn([200, 30]); b = torch.randn([150, 30])", "torch.cdist(a, b, p=%s)" % p, ["a", "b"], tol=2e-2)
    add("pdist", "a = torch.randn([500, 20])", "r = F.pdist(a)", tol=1e-3)
    add("cosine_similarity", "a = torch.randn([5000, 64]); b = torch.randn([5000, 64])", "r = F.cosine_similarity(a, b, dim=1)", tol=1e-3)
    add("F.bilinear", "a = torch.randn([64, 20]); b = torch.randn([64, 30]); w = torch.randn([10, 20, 30])", "r = F.bilinear(a, b, w)", tol=1e-3)
    add("cov", "a = torch.randn([50, 2000])", "r = torch.cov(a)", tol=1e-3)

@family("recurrent")
def _(g):
    for kind in ["LSTM", "GRU", "RNN"]:
        for n, t, i, h, l, bi in [(1, 20, 8, 16, 1, False), (16, 50, 64, 128, 1, False), (32, 28, 28, 128, 2, False), (4, 100, 40, 64, 1, True), (64, 10, 256, 256, 1, False), (1, 200, 128, 512, 1, False), (3, 7, 5, 11, 1, False), (128, 30, 1, 32, 1, False)]:
            bf = g.random() < 0.6
            x = "x = torch.randn(%s)" % ([n, t, i] if bf else [t, n, i])
            pre = x + "; m = nn.%s(%d, %d, num_layers=%d, batch_first=%s, bidirectional=%s)" % (kind, i, h, l, bf, bi)
            d = "n%d t%d in%d h%d layers%d%s" % (n, t, i, h, l, " bi" if bi else "")
            if g.random() < 0.6: add(kind, pre, "with torch.no_grad():\n    y, st = m(x)", ["y"], tol=5e-3, desc=d)
            if g.random() < 0.75: add(kind, pre + "; x.requires_grad_(); y0, s0 = m(x); g = torch.empty_like(y0).copy_(torch.randn(y0.shape)); y0 = None; s0 = None", "m.zero_grad(); x.grad = None; y, st = m(x); y.backward(g)", ["y", "x.grad", "m.weight_hh_l0.grad"], tol=2e-2, bwd=True, desc=d)
        add(kind + "Cell", "m = nn.%sCell(64, 128); x = torch.randn([32, 64])" % kind, "with torch.no_grad():\n    h = m(x)", [], desc="step")


@family("attention")
def _(g):
    for n, h, lq, lk, d in [(1, 1, 10, 10, 8), (4, 8, 128, 128, 64), (16, 4, 64, 64, 32), (1, 12, 512, 512, 64), (2, 8, 1, 500, 64), (8, 2, 33, 77, 20), (64, 4, 16, 16, 16), (1, 8, 1000, 50, 40), (2, 4, 256, 256, 128), (32, 12, 12, 12, 64)]:
        for mode in g.sample(["plain", "causal", "bool", "float"], 2):
            if mode == "causal" and lq != lk: mode = "bool"
            dt = g.choice(["float32", "float32", "float32", "bfloat16"])
            q, k = [n, h, lq, d], [n, h, lk, d]
            pre = "q = %s; k = %s; v = %s" % (values("n", q, dt), values("n", k, dt), values("n", k, dt))
            o = {"plain": "", "causal": ", is_causal=True", "bool": ", attn_mask=mask", "float": ", attn_mask=mask"}[mode]
            if mode == "bool": pre += "; mask = torch.ones([%d, %d]).tril(%d) > 0.0" % (lq, lk, max(0, lk - lq))
            if mode == "float": pre += "; mask = %s" % values("n", g.choice([[lq, lk], [n, 1, lq, lk], [n, h, lq, lk]]), dt)
            e = "F.scaled_dot_product_attention(q, k, v%s)" % o
            info = dict(tol=5e-2 if dt == "bfloat16" else 2e-3, dtype=dt, desc=[q, k])
            if g.random() < 0.5: back("sdpa " + mode, pre, e, ["q", "k", "v"], **info)
            else: add("sdpa " + mode, pre, "r = " + e, **info)
    for n, t, e, h in [(8, 64, 128, 8), (2, 200, 256, 4), (1, 10, 16, 2)]:
        pre = "m = nn.MultiheadAttention(%d, %d, batch_first=True); x = torch.randn([%d, %d, %d])" % (e, h, n, t, e)
        add("MultiheadAttention", pre, "with torch.no_grad():\n    y, w = m(x, x, x)", ["y", "w"], tol=2e-3, desc=[n, t, e, h])
        add("MultiheadAttention", pre, "m.zero_grad(); y, w = m(x, x, x, need_weights=False); y.sum().backward()", ["y"], tol=2e-3, bwd=True, desc=[n, t, e, h])
    add("by hand", "q = torch.randn([4, 8, 100, 64]); k = torch.randn([4, 8, 100, 64]); v = torch.randn([4, 8, 100, 64])", "r = F.softmax((q @ k.transpose(D(-2), D(-1))) * 0.125, dim=-1) @ v", tol=2e-3)
    add("by hand mask", "q = torch.randn([4, 8, 100, 64]); k = torch.randn([4, 8, 100, 64]); v = torch.randn([4, 8, 100, 64]); m = torch.ones([100, 100]).triu(1) > 0.0", "a = (q @ k.transpose(D(-2), D(-1))) * 0.125; a = a.masked_fill(m, -1e9); r = F.softmax(a, dim=-1) @ v", tol=2e-3)

@family("linalg")
def _(g):
    for f, e, outs in [("inv", "r = torch.linalg.inv(a)", ["r"]), ("solve", "r = torch.linalg.solve(a, b)", ["r"]), ("svd", "u, s, v = torch.linalg.svd(a)", ["s"]), ("svd thin", "u, s, v = torch.linalg.svd(a, full_matrices=False)", ["s"]), ("svdvals", "r = torch.linalg.svdvals(a)", ["r"]), ("qr", "q, r = torch.linalg.qr(a)", ["r.abs()"]), ("cholesky", "r = torch.linalg.cholesky(p)", ["r"]), ("eigh", "r, v = torch.linalg.eigh(p)", ["r"]),
                       ("eigvalsh", "r = torch.linalg.eigvalsh(p)", ["r"]), ("det", "r = torch.linalg.det(a)", ["r"]), ("slogdet", "s, r = torch.linalg.slogdet(a)", ["r"]), ("pinv", "r = torch.linalg.pinv(a)", ["r"]), ("matrix_exp", "r = torch.linalg.matrix_exp(a * 0.01)", ["r"]), ("solve_triangular", "r = torch.linalg.solve_triangular(t, b, upper=False)", ["r"]), ("matrix_power", "r = torch.linalg.matrix_power(a * 0.1, 5)", ["r"]), ("lstsq", "r = torch.linalg.lstsq(a, b)", []), ("cholesky_solve", "r = torch.cholesky_solve(b, t)", ["r"]), ("matrix_rank", "r = torch.linalg.matrix_rank(a)", ["r"]), ("matrix_norm nuc", 'r = torch.linalg.matrix_norm(a, "nuc")', ["r"])]:
        hi = 256 if f in ("inv", "solve", "cholesky", "det", "slogdet", "solve_triangular", "matrix_power", "matrix_exp", "cholesky_solve", "qr", "lstsq") else 120
        for n, b in [(g.choice([2, 3, 4]), g.choice([1, 500, 2000])), (g.choice([8, 10, 16]), g.choice([1, 50, 200])), (g.choice([32, 50, 64]), g.choice([1, 8])), (g.choice([100, 120, 128, 200, 256]), 1)]:
            n = min(n, hi)
            if f in ("svd", "svd thin", "svdvals", "eigh", "eigvalsh", "pinv", "matrix_exp", "matrix_rank", "matrix_norm nuc") : b = min(b, 300)
            dt = g.choice(["float32", "float32", "float64"])
            lead = [] if b == 1 else [b]
            pre = "a = %s + torch.eye(%d, dtype=torch.%s) * %d.0; b = %s; p = a @ a.mT + torch.eye(%d, dtype=torch.%s); t = torch.tril(a)" % (values("n", lead + [n, n], dt), n, dt, n, values("n", lead + [n, 3], dt), n, dt)
            tol = 1e-2 if dt == "float32" else 1e-4
            add(f, pre, e, outs, tol=tol, dtype=dt, desc=lead + [n, n])
    for f, e, s in [("inv", "torch.linalg.inv(a)", [50, 50]), ("solve", "torch.linalg.solve(a, b)", [64, 64]), ("det", "torch.linalg.det(a * 0.05)", [30, 30]), ("cholesky", "torch.linalg.cholesky(a @ a.mT + i)", [64, 64]), ("slogdet", "torch.linalg.slogdet(a)", [60, 60]), ("eigvalsh", "torch.linalg.eigvalsh(a @ a.mT)", [40, 40]), ("svdvals", "torch.linalg.svdvals(a)", [30, 40]), ("inv batch", "torch.linalg.inv(a)", [200, 8, 8])]:
        pre = "a = torch.randn(%s) + torch.eye(%d, %d) * 20.0; b = torch.randn([%d, 5]); i = torch.eye(%d); a.requires_grad_()" % (s, s[-2], s[-1], s[-2], s[-2])
        if f == "slogdet": add(f, pre, "a.grad = None; sg, r = %s; r.backward()" % e, ["a.grad"], tol=1e-2, bwd=True, desc=s)
        else: add(f, pre, "a.grad = None; r = %s; r.sum().backward()" % e, ["a.grad"], tol=1e-2, bwd=True, desc=s)
    add("qr tall", "a = torch.randn([2000, 20])", "q, r = torch.linalg.qr(a)", ["r.abs()"], tol=1e-2)
    add("svd tall", "a = torch.randn([1000, 20])", "u, s, v = torch.linalg.svd(a, full_matrices=False)", ["s"], tol=1e-2)
    add("svd wide", "a = torch.randn([20, 1000])", "u, s, v = torch.linalg.svd(a, full_matrices=False)", ["s"], tol=1e-2)
    add("lstsq tall", "a = torch.randn([3000, 10]); b = torch.randn([3000, 1])", "r = torch.linalg.lstsq(a, b)", [], tol=1e-2)
    add("inv 512", "a = torch.randn([512, 512]) + torch.eye(512) * 30.0", "r = torch.linalg.inv(a)", tol=1e-2)
    add("solve 600", "a = torch.randn([600, 600]) + torch.eye(600) * 30.0; b = torch.randn([600, 10])", "r = torch.linalg.solve(a, b)", tol=1e-2)
    add("cholesky 600", "a = torch.randn([600, 600]); p = a @ a.mT + torch.eye(600) * 30.0", "r = torch.linalg.cholesky(p)", tol=1e-2)
    add("eigh 200", "a = torch.randn([200, 200]); p = a + a.mT", "r, v = torch.linalg.eigh(p)", ["r"], tol=1e-2)
    add("svd 150", "a = torch.randn([150, 150])", "u, s, v = torch.linalg.svd(a)", ["s"], tol=1e-2)
    add("trace", "a = torch.randn([900, 900])", "r = torch.trace(a)", tol=1e-2)
    add("cross", "a = torch.randn([20000, 3]); b = torch.randn([20000, 3])", "r = torch.linalg.cross(a, b)", tol=1e-3)
    add("vander", "a = torch.rand([3000])", "r = torch.vander(a, 10)", tol=1e-3)
