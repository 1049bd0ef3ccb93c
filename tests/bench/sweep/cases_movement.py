"""Indexing, rearranging and copying."""
import math

from frame import *  # noqa: F403


@family("index")
def _(g):
    for _ in times(3):
        for nd in (1, 2, 3):
            dt = g.choice(FL + ["int64"])
            s, d, l = sized(g, nd, which=g.choice([1, 2, 3])), g.randrange(nd), g.choice(LAYOUTS)
            x = laid(g, "x", "i" if dt == "int64" else "n", s, dt, l)
            t = list(s); t[d] = logu(g, 1, max(1, min(4 * s[d], 3000000 * s[d] // math.prod(s))))
            add("gather", x + "; i = IDX(%d, %s)" % (s[d], t), "r = torch.gather(x, D(%d), i)" % d, dtype=dt, layout=l, dim=d, desc=[s, t])
            k = t[d]
            add("index_select", x + "; i = IDX(%d, [%d])" % (s[d], k), "r = torch.index_select(x, D(%d), i)" % d, dtype=dt, layout=l, dim=d, desc=[s, k])
            src = list(t)
            add("scatter", "x = torch.zeros(%s); i = IDX(%d, %s); y = torch.ones(%s)" % (s, s[d], t, src), "r = torch.scatter(x, D(%d), i, y)" % d, dim=d, desc=[s, t])
            add("scatter_add", "x = torch.zeros(%s); i = IDX(%d, %s); y = torch.randn(%s)" % (s, s[d], t, src), "r = torch.scatter_add(x, D(%d), i, y)" % d, tol=1e-3, dim=d, desc=[s, t])
            y = list(s); y[d] = k
            add("index_add", "x = torch.zeros(%s); i = IDX(%d, [%d]); y = torch.randn(%s)" % (s, s[d], k, y), "r = torch.index_add(x, D(%d), i, y)" % d, tol=1e-3, dim=d, desc=[s, y])
    for red in ["sum", "amax", "mean", "prod"]:
        add("scatter_reduce " + red, "x = torch.randn([500, 300]); i = IDX(500, [2000, 300]); y = torch.rand([2000, 300])", 'r = torch.scatter_reduce(x, D(0), i, y, reduce="%s")' % red, tol=5e-3)
    s = [g.randint(300, 900), g.randint(200, 900)]
    for e in ["x[i]", "x[i, j]", "x[:, j]", "x[mask]", "x[i][:, j]", "x[2]", "x[:, 2]", "x[5:100, 3:50]", "x[i, 3]", "x[i, 2:90]", "x[..., 0]", "x[None, :, :]"]:
        add(e, "x = torch.randn(%s); i = IDX(%d, [700]); j = IDX(%d, [700]); mask = x > 0.0" % (s, s[0], s[1]), "r = " + e, desc=s)
    add("x[i, j] 3d", "x = torch.randn([60, 50, 40]); i = IDX(60, [500]); j = IDX(50, [500])", "r = x[i, j]")
    add("x[:, i, j]", "x = torch.randn([60, 50, 40]); i = IDX(50, [500]); j = IDX(40, [500])", "r = x[:, i, j]")
    add("x[i, :, j]", "x = torch.randn([60, 50, 40]); i = IDX(60, [500]); j = IDX(40, [500])", "r = x[i, :, j]")
    add("x[i 2d]", "x = torch.randn([1000, 64]); i = IDX(1000, [100, 30])", "r = x[i]")
    add("x[rowmask]", "x = torch.randn([20000, 32]); m = torch.rand([20000]) > 0.5", "r = x[m]")
    for op, e in [("index_put", "torch.index_put(x, [i, j], v)"), ("index_put acc", "torch.index_put(x, [i, j], v, accumulate=True)"), ("index_put rows", "torch.index_put(x, [i], w)")]:
        add(op, "x = torch.zeros([500, 200]); i = IDX(500, [3000]); j = IDX(200, [3000]); v = torch.ones([3000]); w = torch.ones([3000, 200])", "r = " + e, tol=1e-3)
    for _ in times(3):
        s, l = sized(g, which=g.choice([2, 3])), g.choice(LAYOUTS)
        n = math.prod(s)
        x = laid(g, "x", "n", s, "float32", l)
        add("masked_fill", x + "; m = torch.rand(%s) > 0.5" % s, "r = x.masked_fill(m, 0.5)", layout=l, desc=s)
        add("masked_select", x + "; m = torch.rand(%s) > %s" % (s, g.choice([0.01, 0.5, 0.99])), "r = x.masked_select(m)", layout=l, desc=s)
        add("take", x + "; i = IDX(%d, [%d])" % (n, min(200000, n * 2)), "r = torch.take(x, i)", layout=l, desc=s)
        add("nonzero", x + "; m = x > %s" % g.choice([2.5, 0.0]), "r = torch.nonzero(m)", ["P(r)"], layout=l, desc=s)
        add("masked_scatter", x + "; m = torch.rand(%s) > 0.5; y = torch.randn(%s)" % (s, s), "r = x.masked_scatter(m, y)", layout=l, desc=s)
        add("argwhere", x, "r = torch.argwhere(x > 1.0)", ["P(r)"], layout=l, desc=s)
    add("where index", "x = torch.rand([400, 500]) > 0.5", "i, j = torch.where(x)", ["P(i)", "P(j)"], lua="i, j = torch.where(x)")
    add("take_along_dim", "x = torch.randn([300, 200]); i = torch.argsort(x, dim=1)", "r = torch.take_along_dim(x, i, dim=1)")
    add("index_fill", "x = torch.randn([300, 2000]); i = IDX(2000, [500])", "r = torch.index_fill(x, D(1), i, 0.5)")
    add("index_copy", "x = torch.randn([300, 2000]); i = torch.randperm(300)[0:100]; y = torch.randn([100, 2000])", "r = torch.index_copy(x, D(0), i, y)")
    add("put_", "x = torch.zeros([300, 200]); i = torch.randperm(60000)[0:20000]; y = torch.randn([20000])", "x.put_(i, y)", ["x"])
    for v, d, n in [(1000, 64, [32, 50]), (50000, 300, [64, 40]), (10, 3, [7]), (100, 1, [50000]), (500, 2048, [100])]:
        pre = "w = torch.randn([%d, %d]); i = IDX(%d, %s)" % (v, d, v, n)
        add("embedding", pre, "r = F.embedding(i, w)", desc=[v, d, n])
        back("embedding", pre, "F.embedding(i, w)", ["w"], tol=2e-3, desc=[v, d, n])
    for mode in ["sum", "mean", "max"]:
        add("embedding_bag " + mode, "w = torch.randn([5000, 64]); i = IDX(5000, [200, 20])", 'r = F.embedding_bag(i, w, mode="%s")' % mode, tol=1e-3)
        back("embedding_bag " + mode, "w = torch.randn([5000, 64]); i = IDX(5000, [200, 20])", 'F.embedding_bag(i, w, mode="%s")' % mode, ["w"], tol=1e-3)
    for c, n in [(10, [1000]), (1000, [500]), (5, [4, 3]), (21, [2, 100, 100])]:
        add("one_hot", "i = IDX(%d, %s)" % (c, n), "r = F.one_hot(i, %d)" % c, desc=[c, n])
    for d in (0, 1):
        back("gather", "x = torch.randn([500, 300]); i = IDX(300, [400, 200])", "torch.gather(x, D(%d), i)" % d, ["x"], tol=1e-3, desc=d)
        back("index_select", "x = torch.randn([500, 300]); i = IDX(300, [900])", "torch.index_select(x, D(%d), i)" % d, ["x"], tol=1e-3, desc=d)
        back("scatter_add", "x = torch.randn([500, 300]); y = torch.randn([400, 200]); i = IDX(300, [400, 200])", "torch.scatter_add(x, D(%d), i, y)" % d, ["x", "y"], tol=1e-3, desc=d)
    back("x[i]", "x = torch.randn([500, 300]); i = IDX(500, [2000])", "x[i]", ["x"], tol=1e-3)
    back("x[i, j]", "x = torch.randn([500, 300]); i = IDX(500, [2000]); j = IDX(300, [2000])", "x[i, j]", ["x"], tol=1e-3)
    back("x[mask]", "x = torch.randn([500, 300]); m = torch.rand([500, 300]) > 0.5", "x[m]", ["x"], tol=1e-3)
    back("x[:, 3:50]", "x = torch.randn([500, 300])", "x[:, 3:50]", ["x"])
    back("masked_fill", "x = torch.randn([500, 300]); m = torch.rand([500, 300]) > 0.5", "x.masked_fill(m, 0.0)", ["x"])
    back("where", "x = torch.randn([500, 300]); y = torch.randn([300]); m = torch.rand([500, 300]) > 0.5", "torch.where(m, x, y)", ["x", "y"], tol=1e-3)


@family("arrange")
def _(g):
    for _ in times(3):
        for nd in (1, 2, 3, 4):
            dt, s, l = g.choice(FL + ["int64", "uint8", "bool"]), sized(g, nd, which=g.choice([0, 1, 2, 3, 3])), g.choice(LAYOUTS)
            x = laid(g, "x", "b" if dt == "bool" else "ip" if "int" in dt else "n", s, dt, l)
            d, n = g.randrange(nd), math.prod(s)
            info = dict(dtype=dt, layout=l, desc=s)
            add("roll", x, "r = torch.roll(x, %d, D(%d))" % (g.randint(1, s[d]), d), dim=d, **info)
            add("flip", x, "r = torch.flip(x, [D(%d)])" % d, dim=d, **info)
            add("clone", x, "r = x.clone()", **info)
            p = list(range(nd)); g.shuffle(p)
            if nd > 1: add("permute.contiguous", x, "r = x.permute(%s).contiguous()" % ", ".join("D(%d)" % i for i in p), perm=p, **info)
            if dt not in ("bool",) and n < 1000000:
                m = g.choice([2, 3, 10])
                add("cat", x + "; y = torch.zeros_like(x)", "r = torch.cat([%s], dim=%d)" % (", ".join(g.choice("xy") for _ in range(m)), d), dim=d, **info)
                add("stack", x + "; y = torch.zeros_like(x)", "r = torch.stack([%s], dim=%d)" % (", ".join(g.choice("xy") for _ in range(m)), d), dim=d, **info)
                k = max(1, s[d] // g.choice([2, 3, 4]))
                add("split+cat", x, "r = torch.cat(L(x.split(%d, D(%d))), dim=%d)" % (k, d, (d + 1) % nd if s[d] % k == 0 else d), dim=d, **info)
                rep = [g.choice([1, 1, 2, 3]) for _ in s]
                add("repeat", x, "r = x.repeat(%s)" % ", ".join(map(str, rep)), rep=rep, **info)
                add("repeat_interleave", x, "r = torch.repeat_interleave(x, %d, dim=%d)" % (g.choice([2, 3]), d), dim=d, **info)
            if dt in ("float32", "float64", "bfloat16"):
                pads = [g.randint(0, 4) for _ in range(2 * g.randint(1, nd))]
                add("pad constant", x, "r = F.pad(x, %s)" % pads, pads=pads, **info)
            if nd >= 2: add("tril", x, "r = torch.%s(x, %d)" % (g.choice(["tril", "triu"]), g.randint(-2, 2)), **info)
            if nd >= 2: add("reshape", x, "r = x.reshape(-1)", **info)
            if nd >= 2: add("expand+contiguous", "x = " + values("n", s[:-1] + [1]), "r = x.expand(%s).contiguous()" % s, desc=s)
    for mode in ["reflect", "replicate", "circular"]:
        for s, p in [([8, 16, 500], [5, 9]), ([4, 32, 60, 60], [1, 1, 1, 1]), ([2, 3, 224, 224], [3, 3, 3, 3]), ([2, 8, 10, 20, 20], [1, 1, 1, 1, 1, 1])]:
            add("pad " + mode, "x = torch.randn(%s)" % s, 'r = F.pad(x, %s, mode="%s")' % (p, mode), desc=s)
            if len(s) == 4: back("pad " + mode, "x = torch.randn(%s)" % s, 'F.pad(x, %s, mode="%s")' % (p, mode), ["x"], tol=1e-3, desc=s)
    for e, s in [("x.t().contiguous()", [2000, 900]), ("x.t().contiguous()", [7, 100000]), ("x.t().contiguous()", [100000, 3]), ("x.permute(D(0), D(2), D(3), D(1)).contiguous()", [8, 64, 56, 56]),
                 ("x.permute(D(0), D(3), D(1), D(2)).contiguous()", [8, 56, 56, 64]), ("x.permute(D(0), D(3), D(1), D(2)).contiguous()", [16, 224, 224, 3]), ("x.permute(D(0), D(2), D(1), D(3)).reshape(32, 128, 512)", [32, 8, 128, 64]),
                 ("x.diagonal().clone()", [1500, 1500]), ("torch.diag(x)", [900]), ("torch.diag_embed(x)", [50, 60]), ("torch.rot90(x)", [900, 700]), ("x.unfold(D(0), 100, 10).contiguous()", [50000]), ("torch.meshgrid(x, x, indexing=\"ij\")", [500]),
                 ("torch.outer(x, x)", [1000]), ("F.pixel_shuffle(x, 2)", [4, 64, 64, 64]), ("F.pixel_unshuffle(x, 2)", [4, 16, 128, 128]), ("F.channel_shuffle(x, 4)", [4, 64, 56, 56]), ("torch.cartesian_prod(x, x)", [300]),
                 ("F.unfold(x, 3, padding=1)", [4, 16, 64, 64]), ("F.unfold(x, [4, 4], stride=4)", [4, 3, 224, 224]), ("F.fold(x, [64, 64], 3, padding=1)", [4, 144, 4096]), ("torch.tril(x)", [30, 100, 100]), ("torch.kron(x, x)", [30, 30]), ("torch.block_diag(x, x, x)", [60, 60]),
                 ("torch.movedim(x, D(0), D(2)).contiguous()", [100, 90, 80]), ("torch.hstack([x, x])", [500, 300]), ("torch.vstack([x, x])", [500, 300]), ("torch.unflatten(x, D(0), [10, 50])", [500, 30]), ("torch.tensor_split(x, 7, D(0))", [700, 30]), ("x.unbind(D(0))", [100, 50]), ("x.chunk(4, D(1))", [100, 400])]:
        if "meshgrid" in e: add(e, "x = torch.randn(%s)" % s, "a, b = " + e, ["a", "b"], desc=s)
        elif "tensor_split" in e or "unbind" in e or "chunk" in e: add(e, "x = torch.randn(%s)" % s, "r = L(%s)" % e, desc=s)
        else: add(e, "x = torch.randn(%s)" % s, "r = " + e, tol=1e-3, desc=s)
    for e, s in [("F.unfold(x, 3, padding=1)", [4, 16, 32, 32]), ("torch.cat([x, x * 2.0], dim=1)", [300, 400]), ("torch.stack([x, x, x])", [300, 400]), ("x.permute(D(0), D(2), D(1)).reshape(-1)", [40, 50, 60]), ("x.repeat(3, 2)", [200, 300]), ("x.expand(64, 300, 40)", [300, 1]),
                 ("torch.roll(x, 3, D(1))", [300, 400]), ("torch.flip(x, [D(0)])", [300, 400]), ("F.pad(x, [1, 2, 3, 4])", [300, 400]), ("torch.tril(x)", [300, 400]), ("x.t().contiguous()", [300, 400]), ("F.pixel_shuffle(x, 2)", [4, 16, 32, 32]), ("torch.repeat_interleave(x, 3, dim=0)", [300, 400]), ("x.diagonal()", [400, 400])]:
        back(e, "x = torch.randn(%s)" % s, e, ["x"], tol=1e-3, desc=s)
