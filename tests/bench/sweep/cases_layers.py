"""Convolution, pooling, resampling, normalization, softmax and losses."""
import math

from frame import *  # noqa: F403


def conv_out(n, k, s, p, d): return (n + 2 * p - d * (k - 1) - 1) // s + 1


def conv_case(g, nd, transposed=False, kernel=None, fixed=None, small=False):
    for _ in range(3000):
        groups = 1
        cin, cout = logu(g, 1, 1024 if not small else 16), logu(g, 1, 1024 if not small else 16)
        r = g.random()
        if r < 0.15: groups = cin = cout = logu(g, 2, 512)   # depthwise
        elif r < 0.25:
            groups = g.choice([2, 3, 4, 8, 32]); cin, cout = max(1, cin // groups) * groups, max(1, cout // groups) * groups
        elif r < 0.5: cin, cout = max(1, cin // 16 * 16), max(1, cout // 16 * 16)
        style = g.choice(["one", "square", "square", "square", "odd", "line", "long"])
        if style == "one": ks = [1] * nd
        elif style == "square": ks = [g.choice([3, 3, 3, 5, 7])] * nd
        elif style == "odd": ks = [g.randint(1, 9 if nd < 3 else 4) for _ in range(nd)]
        elif style == "line":
            ks = [1] * nd; ks[g.randrange(nd)] = logu(g, 2, 64)
        else: ks = [logu(g, 1, 64 if nd == 1 else 15 if nd == 2 else 5) for _ in range(nd)]
        st = [g.choice([1, 1, 1, 2, 2, 3, 4])] * nd
        if g.random() < 0.15: st = [g.choice([1, 2, 4]) for _ in range(nd)]
        dl = [g.choice([1, 1, 1, 1, 2, 3])] * nd
        pd = [g.choice([0, k // 2, k // 2, d * (k - 1) // 2]) for k, d in zip(ks, dl)]
        if transposed: dl = [1] * nd; pd = [min(p, k - 1) for p, k in zip(pd, ks)]
        hi = {1: 20000, 2: 256, 3: 40}[nd] if not small else 12
        sp = [logu(g, 4 if not small else 1, hi)] * nd
        if g.random() < 0.4: sp = [logu(g, 1, hi) for _ in range(nd)]
        n = g.choice([1, 1, 2, 4, 8, 16, 32])
        if fixed: n, cin, sp, cout, ks, st, pd, dl, groups = fixed
        if transposed: out = [(x - 1) * s - 2 * p + d * (k - 1) + 1 for x, k, s, p, d in zip(sp, ks, st, pd, dl)]
        else: out = [conv_out(x, k, s, p, d) for x, k, s, p, d in zip(sp, ks, st, pd, dl)]
        if min(out) < 1 or math.prod(out) > 4e6: continue
        places = math.prod(sp if transposed else out)
        flops = 2 * n * places * cin * cout // groups * math.prod(ks)
        mem = n * cin * math.prod(sp) + n * cout * math.prod(out) + cin * cout // groups * math.prod(ks)
        if fixed or (flops < (3e6 if small else 1.5e9) and mem < (1e4 if small else 6e6) and (small or flops > 2e5)): break
    else: raise SystemExit("no shape")
    dt = g.choice(["float32"] * 7 + ["float64", "bfloat16", "bfloat16"]) if not fixed else "float32"
    w = [cin, cout // groups] + ks if transposed else [cout, cin // groups] + ks
    bias = g.random() < 0.6
    opts = ", stride=%s, padding=%s, dilation=%s, groups=%d" % (st, pd, dl, groups)
    f = "conv_transpose%dd" % nd if transposed else "conv%dd" % nd
    pre = "x = %s; w = %s" % (values("n", [n, cin] + sp, dt), values("n", w, dt))
    if bias: pre += "; b = " + values("n", [cout], dt)
    e = "F.%s(x, w, %s%s)" % (f, "b" if bias else "None", opts)
    tol = {"float32": 2e-3, "float64": 2e-5, "bfloat16": 4e-2}[dt]
    info = dict(tol=tol, dtype=dt, desc="x%s w%s s%s p%s d%s g%d%s" % ([n, cin] + sp, w, st, pd, dl, groups, " bias" if bias else ""), mflop=flops // 1000000)
    if flops < 6e8 and g.random() < 0.35: back(f, pre, e, ["x", "w"] + (["b"] if bias else []), **info)
    else: add(f, pre, "r = " + e, **info)


@family("conv1d")
def _(g):
    for _ in times(34): conv_case(g, 1)


@family("conv2d")
def _(g):
    for _ in times(64): conv_case(g, 2)
    F2 = lambda n, ci, sp, co, k, s=(1, 1), p=(0, 0), d=(1, 1), gr=1: (n, ci, list(sp), co, list(k), list(s), list(p), list(d), gr)
    for f in [F2(4, 1024, (71, 1), 128, (64, 1)), F2(2, 128, (80, 1), 256, (64, 1)), F2(8, 1, (1024, 1), 128, (512, 1), (4, 1)), F2(4, 64, (1, 100), 64, (1, 31)), F2(1, 3, (224, 224), 64, (7, 7), (2, 2), (3, 3)), F2(4, 3, (224, 224), 768, (16, 16), (16, 16)),
              F2(8, 64, (56, 56), 64, (3, 3), (1, 1), (1, 1)), F2(8, 256, (14, 14), 1024, (1, 1)), F2(1, 512, (7, 7), 512, (3, 3), (1, 1), (1, 1)), F2(8, 96, (28, 28), 96, (7, 7), (1, 1), (3, 3), (1, 1), 96), F2(8, 144, (28, 28), 144, (3, 3), (2, 2), (1, 1), (1, 1), 144), F2(4, 1, (28, 28), 8, (5, 5)),
              F2(32, 1, (28, 28), 32, (3, 3)), F2(1, 64, (40, 40), 64, (3, 3), (1, 1), (4, 4), (4, 4)), F2(2, 1, (256, 256), 1, (11, 11), (1, 1), (5, 5)), F2(1, 1, (80, 400), 32, (41, 11), (2, 2), (20, 5)), F2(16, 256, (4, 4), 256, (4, 4)), F2(2, 32, (64, 64), 3, (3, 3), (1, 1), (1, 1))]:
        conv_case(g, 2, fixed=f)
    for _ in times(14): conv_case(g, 2, small=True)


@family("conv3d")
def _(g):
    for _ in times(22): conv_case(g, 3)


@family("conv_transpose")
def _(g):
    for _ in times(14): conv_case(g, 1, True)
    for _ in times(26): conv_case(g, 2, True)
    for _ in times(8): conv_case(g, 3, True)


@family("pool")
def _(g):
    for _ in times(5):
        for nd in (1, 2, 3):
            hi = {1: 5000, 2: 160, 3: 30}[nd]
            n, c = g.choice([1, 4, 16]), logu(g, 1, 128)
            sp = [logu(g, 6, hi) for _ in range(nd)]
            while n * c * math.prod(sp) > 3e6: sp = [max(6, v // 2) for v in sp]; c = max(1, c // 2)
            k = g.choice([2, 2, 3, 3, 5]); st = g.choice([1, 2, 2, k]); p = g.choice([0, k // 2])
            x = "x = torch.randn(%s)" % ([n, c] + sp)
            for kind in ("max", "avg"):
                e = "F.%s_pool%dd(x, %d, %d, %d)" % (kind, nd, k, st, p)
                if g.random() < 0.4: back(kind + "_pool", x, e, ["x"], tol=1e-3, desc=[n, c] + sp)
                else: add(kind + "_pool%dd k%d s%d p%d" % (nd, k, st, p), x, "r = " + e, tol=1e-3, desc=[n, c] + sp)
            o = [max(1, g.choice([1, 2, 7, v // 2])) for v in sp]
            kind = g.choice(["max", "avg"])
            e = "F.adaptive_%s_pool%dd(x, %s)" % (kind, nd, o if nd > 1 else o[0])
            if g.random() < 0.4: back("adaptive_%s_pool" % kind, x, e, ["x"], tol=1e-3, desc=[[n, c] + sp, o])
            else: add("adaptive_%s_pool" % kind, x, "r = " + e, tol=1e-3, desc=[[n, c] + sp, o])
    add("max_pool2d indices", "x = torch.randn([8, 32, 64, 64])", "r, i = F.max_pool2d(x, 2, return_indices=True)", ["r", "P(i)"])
    add("max_unpool2d", "x = torch.randn([8, 32, 64, 64]); r0, i = F.max_pool2d(x, 2, return_indices=True)", "r = F.max_unpool2d(r0, i, 2)")
    add("lp_pool2d", "x = torch.rand([8, 32, 64, 64])", "r = F.lp_pool2d(x, 2.0, 2)", tol=1e-3)
    add("max_pool2d [2,1]", "x = torch.randn([4, 128, 256, 1])", "r = F.max_pool2d(x, [2, 1], [2, 1])")
    add("max_pool2d big", "x = torch.randn([2, 16, 100, 100])", "r = F.max_pool2d(x, 25, 1, 12)")
    add("max_pool2d bf16", "x = torch.randn([8, 32, 64, 64]).to(torch.bfloat16)", "r = F.max_pool2d(x, 2)", dtype="bfloat16")
    add("avg_pool2d f64", "x = torch.randn([8, 32, 64, 64]).to(torch.float64)", "r = F.avg_pool2d(x, 3, 1, 1)", dtype="float64")
    add("local_response_norm", "x = torch.randn([4, 32, 56, 56])", "r = F.local_response_norm(x, 5)", tol=1e-3)


@family("resample")
def _(g):
    for mode in ["nearest", "bilinear", "bicubic", "area", "nearest-exact"]:
        for s, o in [([2, 3, 224, 224], [112, 112]), ([4, 64, 28, 28], [56, 56]), ([1, 1, 37, 53], [100, 90]), ([8, 3, 64, 64], [65, 63]), ([1, 512, 7, 7], [14, 14])]:
            if g.random() < 0.3: continue
            e = 'F.interpolate(x, size=%s, mode="%s"%s)' % (o, mode, ", align_corners=%s" % (g.random() < 0.5) if mode in ("bilinear", "bicubic") else "")
            if g.random() < 0.4: back("interpolate " + mode, "x = torch.randn(%s)" % s, e, ["x"], tol=2e-3, desc=[s, o])
            else: add("interpolate " + mode, "x = torch.randn(%s)" % s, "r = " + e, tol=2e-3, desc=[s, o])
    add("interpolate linear", "x = torch.randn([8, 64, 500])", 'r = F.interpolate(x, size=1200, mode="linear")', tol=1e-3)
    add("interpolate nearest 1d", "x = torch.randn([8, 64, 500])", "r = F.interpolate(x, scale_factor=3)", tol=1e-3)
    add("interpolate trilinear", "x = torch.randn([2, 8, 20, 20, 20])", 'r = F.interpolate(x, scale_factor=2, mode="trilinear")', tol=1e-3)
    add("interpolate nearest 3d", "x = torch.randn([2, 8, 20, 20, 20])", "r = F.interpolate(x, scale_factor=2)", tol=1e-3)
    add("interpolate antialias", "x = torch.randn([2, 3, 200, 200])", 'r = F.interpolate(x, size=[64, 64], mode="bilinear", antialias=True)', tol=1e-3)
    add("interpolate bicubic antialias", "x = torch.randn([2, 3, 200, 200])", 'r = F.interpolate(x, size=[64, 64], mode="bicubic", antialias=True)', tol=1e-3)
    add("interpolate uint8", "x = torch.randint(0, 255, [1, 3, 300, 300]).to(torch.uint8)", 'r = F.interpolate(x, size=[128, 128], mode="nearest")')
    for mode in ["bilinear", "nearest", "bicubic"]:
        for pad in ["zeros", "border", "reflection"]:
            s, o = g.choice([([4, 3, 64, 64], [64, 64]), ([1, 64, 32, 32], [40, 50]), ([8, 1, 28, 28], [28, 28])])
            pre = "x = torch.randn(%s); y = torch.rand([%d, %d, %d, 2]) * 2.4 - 1.2" % (s, s[0], o[0], o[1])
            e = 'F.grid_sample(x, y, mode="%s", padding_mode="%s", align_corners=False)' % (mode, pad)
            if g.random() < 0.5: back("grid_sample %s %s" % (mode, pad), pre, e, ["x", "y"], tol=1e-2, desc=[s, o])
            else: add("grid_sample %s %s" % (mode, pad), pre, "r = " + e, tol=1e-2, desc=[s, o])
    add("grid_sample 3d", "x = torch.randn([2, 4, 16, 16, 16]); y = torch.rand([2, 16, 16, 16, 3]) * 2.0 - 1.0", "r = F.grid_sample(x, y, align_corners=False)", tol=1e-3)
    add("affine_grid", "t = torch.randn([8, 2, 3])", "r = F.affine_grid(t, [8, 3, 64, 64], align_corners=False)", tol=1e-3)


@family("norm")
def _(g):
    for _ in times(7):
        n, c = g.choice([1, 2, 8, 32]), g.choice([1, 3, 16, 30, 64, 256])
        sp = g.choice([[], [logu(g, 1, 3000)], [logu(g, 2, 80)] * 2, [logu(g, 2, 16)] * 3])
        while n * c * math.prod(sp) > 3e6: n = max(1, n // 2); c = max(1, c // 2)
        if not sp and n == 1: n = 8
        s = [n, c] + sp
        if n * math.prod(sp) < 2: s[0] = 4
        pre = "x = torch.randn(%s); w = torch.rand([%d]); b = torch.randn([%d]); m = torch.zeros([%d]); v = torch.ones([%d])" % (s, c, c, c, c)
        add("batch_norm eval", pre, "r = F.batch_norm(x, m, v, w, b, False)", tol=1e-3, desc=s)
        add("batch_norm train", pre, "r = F.batch_norm(x, m, v, w, b, True)", tol=2e-3, desc=s)
        back("batch_norm train", pre, "F.batch_norm(x, m, v, w, b, True)", ["x", "w", "b"], tol=2e-2, desc=s)
        gs = g.choice([k for k in (1, 2, 4, 8, 16, c) if c % k == 0])
        add("group_norm %d" % gs, pre, "r = F.group_norm(x, %d, w, b)" % gs, tol=2e-3, nosum=math.prod(s) // s[0] // gs < 3, desc=s)
        if math.prod(s) // s[0] // gs > 2: back("group_norm %d" % gs, pre, "F.group_norm(x, %d, w, b)" % gs, ["x", "w", "b"], tol=2e-2, desc=s)
        if len(s) > 2 and math.prod(sp) > 1:
            add("instance_norm", pre, "r = F.instance_norm(x, None, None, w, b)", tol=2e-3, desc=s)
            back("instance_norm", pre, "F.instance_norm(x, None, None, w, b)", ["x", "w", "b"], tol=2e-2, desc=s)
    for s, k in [([4096, 64], 1), ([128, 768], 1), ([8, 512], 1), ([16, 100, 96], 1), ([4, 8, 30, 20], 2), ([100000, 8], 1), ([2, 50000], 1), ([3, 5], 1), ([64, 1000], 1), ([500, 33], 1)]:
        t = s[-k:]
        dt = g.choice(["float32", "float32", "bfloat16", "float64"])
        pre = "x = %s; w = %s; b = %s" % (values("n", s, dt), values("u", t, dt), values("n", t, dt))
        tol = 5e-2 if dt == "bfloat16" else 5e-3
        add("layer_norm", pre, "r = F.layer_norm(x, %s, w, b)" % t, tol=tol, dtype=dt, desc=s)
        back("layer_norm", pre, "F.layer_norm(x, %s, w, b)" % t, ["x", "w", "b"], tol=tol * 4, dtype=dt, desc=s)
        add("rms_norm", pre, "r = F.rms_norm(x, %s, w)" % t, tol=tol, dtype=dt, desc=s)
        if g.random() < 0.5: back("rms_norm", pre, "F.rms_norm(x, %s, w)" % t, ["x", "w"], tol=tol * 4, dtype=dt, desc=s)
    for s, d in [([3000, 128], 1), ([128, 3000], 0), ([8, 64, 32, 32], 1)]:
        add("normalize", "x = torch.randn(%s)" % s, "r = F.normalize(x, dim=%d)" % d, tol=1e-3, desc=s)
        back("normalize", "x = torch.randn(%s)" % s, "F.normalize(x, dim=%d)" % d, ["x"], tol=1e-2, desc=s)
    add("weight renorm", "x = torch.randn([500, 300])", "r = torch.renorm(x, 2, D(0), 1.0)", tol=1e-3)


@family("softmax")
def _(g):
    for f in ["F.softmax", "F.log_softmax", "F.softmin"]:
        for nd in (1, 2, 2, 3, 3, 4):
            dt, s, d, l = g.choice(FL), sized(g, nd, which=g.choice([0, 1, 2, 3, 3])), g.randrange(nd), g.choice(LAYOUTS)
            e = "%s(x, dim=%d)" % (f, d)
            pre = laid(g, "x", "n", s, dt, l)
            if g.random() < 0.4: back(f, pre, e, ["x"], tol=5e-2 if dt == "bfloat16" else 5e-3, nosum=s[d] == 1, dtype=dt, layout=l, dim=d, desc=s)
            else: add(f, pre, "r = " + e, tol=5e-2 if dt == "bfloat16" else 1e-3, dtype=dt, layout=l, dim=d, desc=s)
    for s, d in [([200000, 2], 1), ([2, 200000], 1), ([2, 200000], 0), ([64, 10], 1), ([32, 50257], 1), ([16, 21, 64, 64], 1), ([8, 8, 128, 128], 3)]:
        for f in ("F.softmax", "F.log_softmax"):
            add(f, "x = torch.randn(%s)" % s, "r = %s(x, dim=%d)" % (f, d), tol=1e-3, dim=d, desc=s)
        back("F.softmax", "x = torch.randn(%s)" % s, "F.softmax(x, dim=%d)" % d, ["x"], tol=5e-3, dim=d, desc=s)
    add("softmax dtype", "x = torch.randn([300, 400]).to(torch.bfloat16)", "r = F.softmax(x, dim=1, dtype=torch.float32)", tol=1e-3)


@family("loss")
def _(g):
    for s in [[64, 10], [2048, 65], [32, 50257], [100000, 3], [8, 21, 64, 64], [4, 2], [512, 1000]]:
        lab = "y = IDX(%d, %s)" % (s[1], [s[0]] + s[2:])
        pre = "x = torch.randn(%s); %s" % (s, lab)
        add("cross_entropy", pre, "r = F.cross_entropy(x, y)", tol=1e-3, desc=s)
        loss("cross_entropy", pre, "F.cross_entropy(x, y)", s)
        o = g.choice([", label_smoothing=0.1", ', reduction="sum"', ', reduction="none"', ", weight=w"])
        p = pre + "; w = torch.rand([%d])" % s[1]
        if "none" in o: back("cross_entropy none", p, "F.cross_entropy(x, y%s)" % o, ["x"], tol=1e-3, desc=s)
        else: loss("cross_entropy" + o, p, "F.cross_entropy(x, y%s)" % o, s)
        loss("nll_loss", "x = F.log_softmax(torch.randn(%s), dim=1); %s" % (s, lab), "F.nll_loss(x, y)", s)
    loss("cross_entropy probabilities", "x = torch.randn([300, 100]); y = F.softmax(torch.randn([300, 100]), dim=1)", "F.cross_entropy(x, y)", [300, 100])
    for f, kx, ky in [("mse_loss", "n", "n"), ("l1_loss", "n", "n"), ("smooth_l1_loss", "n", "n"), ("huber_loss", "n", "n"), ("binary_cross_entropy", "u", "u"), ("binary_cross_entropy_with_logits", "n", "u"), ("kl_div", "n", "u"), ("poisson_nll_loss", "n", "p"), ("soft_margin_loss", "n", "n"), ("hinge_embedding_loss", "n", "n")]:
        s = sized(g, 2, which=g.choice([1, 2, 3]))
        pre = "x = %s; y = %s" % (values(kx, s), values(ky, s))
        if f in ("soft_margin_loss", "hinge_embedding_loss"): pre += "; y = torch.sign(y)"
        add(f, pre, "r = F.%s(x, y)" % f, tol=1e-3, desc=s)
        loss(f, pre, "F.%s(x, y)" % f, s)
        s = [8, 8]
        loss(f, "x = %s; y = %s" % (values(kx, s), values(ky, s)) + ("; y = torch.sign(y)" if "margin" in f or "hinge" in f else ""), "F.%s(x, y)" % f, s)
    back("mse none", "x = torch.randn([300, 400]); y = torch.randn([300, 400])", 'F.mse_loss(x, y, reduction="none")', ["x"])
    loss("bce pos_weight", "x = torch.randn([600, 80]); y = (torch.rand([600, 80]) > 0.9).float(); w = torch.rand([80])", "F.binary_cross_entropy_with_logits(x, y, pos_weight=w)", [600, 80])
    loss("gaussian_nll", "x = torch.randn([500, 64]); y = torch.randn([500, 64]); v = torch.rand([500, 64]) + 0.1", "F.gaussian_nll_loss(x, y, v)", [500, 64])
    loss("triplet", "x = torch.randn([512, 128]); y = torch.randn([512, 128]); z = torch.randn([512, 128])", "F.triplet_margin_loss(x, y, z)", [512, 128])
    loss("cosine_embedding", "x = torch.randn([512, 128]); y = torch.randn([512, 128]); z = torch.sign(torch.randn([512]))", "F.cosine_embedding_loss(x, y, z)", [512, 128])
    loss("margin_ranking", "x = torch.randn([5000]); y = torch.randn([5000]); z = torch.sign(torch.randn([5000]))", "F.margin_ranking_loss(x, y, z)", [5000])
    loss("multi_margin", "x = torch.randn([512, 100]); y = IDX(100, [512])", "F.multi_margin_loss(x, y)", [512, 100])
    loss("multilabel_soft_margin", "x = torch.randn([512, 100]); y = (torch.rand([512, 100]) > 0.5).float()", "F.multilabel_soft_margin_loss(x, y)", [512, 100])
    for t, n, c, u in [(50, 8, 30, 10), (200, 16, 64, 40)]:
        loss("ctc_loss", "x = torch.randn([%d, %d, %d]); y = IDX(%d, [%d, %d]) + 1; a = torch.full([%d], %d); b = torch.full([%d], %d)" % (t, n, c, c - 1, n, u, n, t, n, u), "F.ctc_loss(F.log_softmax(x, dim=2), y, a, b)", [t, n, c, u])


def loss(op, pre, e, s, **kw):
    add(op, pre + "; x.requires_grad_()", "x.grad = None; r = %s; r.backward()" % e, ["r", "x.grad"], tol=2e-3, bwd=True, desc=s, **kw)
