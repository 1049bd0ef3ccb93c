"""Models and optimisers, random numbers, making tensors, showing them, small calls and loops as users write them."""
import math

import dsl
from cases_elementwise import *  # noqa: F403
from cases_rows import *  # noqa: F403
from frame import *  # noqa: F403


@family("model")
def _(g):
    for name, net, x, y in [
        ("mlp tiny", "nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))", [8, 2], None), ("mlp", "nn.Sequential(nn.Linear(100, 200), nn.ReLU(), nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10))", [32, 100], None), ("mlp bn dropout", "nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 10))", [128, 64], None),
        ("conv small", "nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 10))", [16, 1, 28, 28], None), ("conv1d audio", "nn.Sequential(nn.Conv1d(1, 32, 25, stride=4), nn.GELU(), nn.Conv1d(32, 64, 9, stride=4), nn.GroupNorm(8, 64), nn.GELU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10))", [4, 1, 4000], None),
        ("depthwise block", "nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.BatchNorm2d(32), nn.ReLU6(), nn.Conv2d(32, 64, 1), nn.BatchNorm2d(64), nn.ReLU6())", [4, 32, 32, 32], None), ("upsampler", "nn.Sequential(nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, stride=2, padding=1), nn.Tanh())", [4, 64, 8, 8], None),
        ("unet step", "nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.LeakyReLU(0.1), nn.AvgPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.LeakyReLU(0.1), nn.Upsample(scale_factor=2), nn.Conv2d(32, 1, 3, padding=1), nn.Sigmoid())", [2, 3, 64, 64], None), ("encoder layer", "nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)", [8, 32, 64], None), ("conv3d", "nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1))", [2, 1, 16, 16, 16], None),
        ("vgg head", "nn.Sequential(nn.Flatten(), nn.Linear(6272, 512), nn.ReLU(), nn.Linear(512, 100))", [8, 128, 7, 7], None)]:
        pre = "m = %s; x = torch.randn(%s); opt = optim.AdamW(m.parameters(), lr=0.001)" % (net, x)
        det = "Dropout" not in net
        add(name + " eval", pre + "; m.eval()", "with torch.no_grad():\n    r = m(x)", ["r"] if det else [], tol=1e-2, desc=x)
        add(name + " train", pre, "opt.zero_grad(); r = m(x); l = (r * r).mean(); l.backward(); opt.step()", ["l"] if det else [], tol=1e-2, bwd=True, desc=x)


@family("optim")
def _(g):
    for o in ["SGD(ps, lr=0.01)", "SGD(ps, lr=0.01, momentum=0.9, weight_decay=0.001)", "SGD(ps, lr=0.01, momentum=0.9, nesterov=True)", "Adam(ps, lr=0.001)", "AdamW(ps, lr=0.001)", "Adam(ps, lr=0.001, amsgrad=True)", "RMSprop(ps, lr=0.001)", "Adagrad(ps, lr=0.001)", "Adadelta(ps)", "NAdam(ps)", "RAdam(ps)", "Adamax(ps)", "ASGD(ps)", "Rprop(ps)"]:
        for n, s in g.sample([(200, [10, 10]), (60, [64]), (2, [1000, 1000]), (1, [3]), (20, [100, 100]), (1000, [4])], 3):
            add("%s %dx%s" % (o, n, s), "ps = PARAMS(%d, %s); opt = optim.%s" % (n, s, o), "opt.step()", ["ps[0]"], tol=1e-3, desc=[n, s])
    for n, s in [(200, [10, 10]), (2, [1000, 1000])]:
        add("clip_grad_norm_", "ps = PARAMS(%d, %s)" % (n, s), "r = nn.utils.clip_grad_norm_(ps, 1.0)", ["r"], tol=1e-3, desc=[n, s])
        add("zero_grad", "ps = PARAMS(%d, %s); opt = optim.SGD(ps, lr=0.1)" % (n, s), "opt.zero_grad()", [], desc=[n, s])
        add("zero_grad zero", "ps = PARAMS(%d, %s); opt = optim.SGD(ps, lr=0.1)" % (n, s), "opt.zero_grad(set_to_none=False)", [], desc=[n, s])

@family("random")
def _(g):
    for e in ["torch.rand(%s)", "torch.randn(%s)", "torch.randint(0, 10, %s)", "torch.randint(0, 1000000, %s)", "torch.normal(1.0, 2.0, %s)"]:
        for n in (4, 1000, 100000, 2000000):
            s = [n] if g.random() < 0.5 else [max(1, n // 50), 50]
            add(e.split("(")[0], "", "r = " + e % s, tol=1e-4, desc=s)
    for dt in ("float64", "bfloat16"):
        add("rand " + dt, "", "r = torch.rand([300, 1000], dtype=torch.%s)" % dt, tol=2e-2, dtype=dt)
        add("randn " + dt, "", "r = torch.randn([300, 1000], dtype=torch.%s)" % dt, tol=2e-2, dtype=dt)
    add("randint int32", "", "r = torch.randint(0, 100, [300, 1000], dtype=torch.int32)")
    for n in (10, 5000, 1000000): add("randperm", "", "r = torch.randperm(%d)" % n, ["P(r)"], desc=n)
    for s, k, rep in [([10], 3, False), ([1000, 10], 1, False), ([100, 1000], 20, True), ([100000], 1000, True), ([100000], 1000, False), ([64, 50257], 1, False), ([8, 200], 200, False)]:
        add("multinomial", "p = torch.rand(%s)" % s, "r = torch.multinomial(p, %d, replacement=%s)" % (k, rep), ["P(r)"], nosum=not rep, desc=[s, k, rep])
    for n in (10, 1000, 100000, 2000000):
        x = "x = torch.rand([%d])" % n
        add("bernoulli", x, "r = torch.bernoulli(x)", desc=n)
        add("bernoulli_ p", x, "x.bernoulli_(0.3)", [], desc=n)
        add("dropout", x, "r = F.dropout(x, 0.3, training=True)", [], desc=n)
        add("uniform_", x, "x.uniform_(-1.0, 1.0)", ["x"], desc=n)
        add("normal_", x, "x.normal_()", ["x"], desc=n)
        add("rand_like", x, "r = torch.rand_like(x)", desc=n)
        add("randn_like", x, "r = torch.randn_like(x)", desc=n)
        add("exponential_", x, "x.exponential_()", [], desc=n)
        add("dropout bwd", x + "; x.requires_grad_(); g = torch.rand([%d])" % n, "x.grad = None; r = F.dropout(x, 0.3, training=True); r.backward(g)", [], bwd=True, desc=n)
    add("poisson", "x = torch.rand([20000]) * 5.0", "r = torch.poisson(x)", [], desc=20000)
    add("cauchy_", "x = torch.rand([200000])", "x.cauchy_()", [], desc=200000)
    add("log_normal_", "x = torch.rand([200000])", "x.log_normal_()", [], desc=200000)
    add("geometric_", "x = torch.rand([200000])", "x.geometric_(0.3)", [], desc=200000)
    add("dropout2d", "x = torch.rand([16, 32, 28, 28])", "r = F.dropout2d(x, 0.3, training=True)", [])
    add("normal tensors", "a = torch.rand([100000]); b = torch.rand([100000])", "r = torch.normal(a, b)", [])
    add("gumbel_softmax", "x = torch.randn([500, 100])", "r = F.gumbel_softmax(x)", [])
    add("rand+sub", "x = torch.rand([30, 40])", "r = (torch.rand([30, 40]) < 0.5).float() * x", [])


@family("create")
def _(g):
    for n in (4, 1000, 1000000):
        for e in ["torch.zeros([%d])", "torch.ones([%d])", "torch.full([%d], 2.5)", "torch.arange(%d)", "torch.linspace(0.0, 1.0, %d)", "torch.zeros([%d], dtype=torch.int64)", "torch.arange(0.0, %d, 1.0)", "torch.empty([%d])"]:
            add(e, "", "r = " + e % n, ["r"] if "empty" not in e else [], desc=n)
    for e in ["torch.eye(500)", "torch.eye(4)", "torch.logspace(0.0, 2.0, 1000)", "torch.tril_indices(300, 300)", "torch.hann_window(400)", "torch.ones([300, 400], dtype=torch.bool)", "torch.zeros_like(x)", "torch.ones_like(x)", "torch.full_like(x, 3.0)", "torch.empty_like(x)", "x.new_zeros([30, 40])", "torch.tensor([1.0, 2.0, 3.0])", "torch.tensor([[1, 2], [3, 4]])", "torch.tensor(3.5)"]:
        add(e, "x = torch.randn([30, 40])", "r = " + e, [] if "empty" in e or "indices" in e else ["r"])
    add("tensor(list 10000)", "x = torch.randn([10000]); l = x.tolist()", "r = torch.tensor(l)")
    add("tensor(list 100x100)", "x = torch.randn([100, 100]); l = x.tolist()", "r = torch.tensor(l)")
    add("tensor(int list)", "x = torch.arange(10000); l = x.tolist()", "r = torch.tensor(l)")
    for n in (5, 10000): add("tolist", "x = torch.randn([%d])" % n, "r = x.tolist()", [], desc=n)
    add("tolist 2d", "x = torch.randn([100, 100])", "r = x.tolist()", [])
    add("item", "x = torch.randn([])", "r = x.item()")
    add("sum item", "x = torch.randn([100])", "r = x.sum().item()", tol=1e-3)


@family("print")
def _(g):
    for e in ["torch.randn([4])", "torch.randn([4, 5])", "torch.randn([30, 30])", "torch.randn([1000, 1000])", "torch.randint(0, 100, [20])", "torch.randn([2, 3, 4])", "torch.randn([100]) > 0.0", "torch.randn([100000])", "torch.randn([3, 3]).to(torch.bfloat16)", "torch.randn([])", "torch.randn([10, 10]) * 1000000.0", "torch.randn([900])"]:
        add("str", "x = " + e, "s = S(x)", [])
    add("str grad", "x = torch.randn([4, 5]).requires_grad_(); y = x * 2.0", "s = S(y)", [])
    add("str module", "x = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5))", "s = S(x)", [])


@family("small")
def _(g):
    """call latency: every operation on 1 to 64 elements"""
    for f, k in UNARY:
        s = shape(g, g.choice([1, 2]), 1, 64)
        if g.random() < 0.5: add(f, "x = " + values(k, s), "r = " + unary_call(f), desc=s)
    for e, kx, ky in BINARY:
        s = shape(g, g.choice([1, 2]), 1, 64)
        t = s if g.random() < 0.7 else [1]
        if g.random() < 0.6: add(e, "x = %s; y = %s" % (values(kx, s), values(ky, t)), "r = " + e, desc=[s, t])
    for e, k in SCALAR:
        s = shape(g, g.choice([1, 2]), 1, 64)
        if g.random() < 0.6: add(e, "x = " + values(k, s), "r = " + e, desc=s)
    for e, ks in TERNARY:
        s = shape(g, g.choice([1, 2]), 1, 64)
        if g.random() < 0.7: add(e, "; ".join("%s = %s" % (n, values(k, s)) for n, k in zip("xyz", ks)), "r = " + e, desc=s)
    for f in REDUCE:
        s = shape(g, 2, 2, 64, least=2)
        d = g.randrange(2)
        x = "x = " + values("b" if f in ("any", "all") else "u", s)
        if f in ("max", "min", "median"): add(f, x, "v, i = x.%s(dim=%d)" % (f, d), ["v"], desc=s)
        else: add(f, x, "r = x.%s(dim=%d)" % (f, d), ["P(r)"] if f.startswith("arg") else ["r"], tol=1e-3, desc=s)
    E = [("x.view(3, 4)", "x = torch.randn([12])"), ("x.reshape(3, 4)", "x = torch.randn([12])"), ("x.t()", "x = torch.randn([3, 4])"), ("x.transpose(D(0), D(1))", "x = torch.randn([3, 4])"), ("x.permute(D(1), D(0), D(2))", "x = torch.randn([2, 3, 4])"), ("x.unsqueeze(D(0))", "x = torch.randn([3, 4])"), ("x.squeeze(D(0))", "x = torch.randn([1, 4])"), ("x[0]", "x = torch.randn([3, 4])"), ("x[:, 1]", "x = torch.randn([3, 4])"), ("x[1:3]", "x = torch.randn([4, 4])"),
         ("x[0, 1].item()", "x = torch.randn([3, 4])"), ("x.expand(4, 3)", "x = torch.randn([1, 3])"), ("x.flatten()", "x = torch.randn([3, 4])"), ("x.detach()", "x = torch.randn([3, 4])"), ("x.clone()", "x = torch.randn([3, 4])"), ("x.contiguous()", "x = torch.randn([3, 4])"), ("x.t().contiguous()", "x = torch.randn([3, 4])"), ("torch.cat([x, x])", "x = torch.randn([3, 4])"), ("torch.stack([x, x])", "x = torch.randn([3, 4])"), ("torch.cat([x, x], dim=1)", "x = torch.randn([3, 4])"), ("x.roll(1)", "x = torch.randn([8])"), ("x.flip(D(0))", "x = torch.randn([8])"),
         ("x.cumsum(dim=0)", "x = torch.randn([8])"), ("x.sort()", "x = torch.randn([8])"), ("x.topk(3)", "x = torch.randn([8])"), ("x.argsort()", "x = torch.randn([8])"), ("torch.gather(x, D(1), i)", "x = torch.randn([3, 4]); i = IDX(4, [3, 2])"), ("x.index_select(D(0), i)", "x = torch.randn([3, 4]); i = IDX(3, [2])"), ("x[i]", "x = torch.randn([3, 4]); i = IDX(3, [2])"), ("x[m]", "x = torch.randn([3, 4]); m = x > 0.0"), ("x.masked_fill(m, 0.0)", "x = torch.randn([3, 4]); m = x > 0.0"), ("torch.tril(x)", "x = torch.randn([4, 4])"), ("F.one_hot(i, 5)", "i = IDX(5, [4])"),
         ("F.embedding(i, w)", "i = IDX(5, [4]); w = torch.randn([5, 3])"), ("F.softmax(x, dim=1)", "x = torch.randn([3, 4])"), ("F.log_softmax(x, dim=1)", "x = torch.randn([3, 4])"), ("F.layer_norm(x, [4], w, w)", "x = torch.randn([3, 4]); w = torch.randn([4])"), ("F.cross_entropy(x, y)", "x = torch.randn([3, 4]); y = IDX(4, [3])"), ("F.mse_loss(x, y)", "x = torch.randn([3, 4]); y = torch.randn([3, 4])"), ("F.linear(x, w, b)", "x = torch.randn([3, 4]); w = torch.randn([5, 4]); b = torch.randn([5])"), ("x @ w", "x = torch.randn([3, 4]); w = torch.randn([4, 5])"),
         ("torch.bmm(x, w)", "x = torch.randn([2, 3, 4]); w = torch.randn([2, 4, 2])"), ("torch.dot(x, x)", "x = torch.randn([8])"), ("x @ y", "x = torch.randn([3, 4]); y = torch.randn([4])"), ('torch.einsum("ij,jk->ik", x, w)', "x = torch.randn([3, 4]); w = torch.randn([4, 5])"), ("torch.addmm(b, x, w)", "x = torch.randn([3, 4]); w = torch.randn([4, 5]); b = torch.randn([5])"), ("torch.outer(x, x)", "x = torch.randn([6])"), ("F.pad(x, [1, 1])", "x = torch.randn([3, 4])"), ("x.repeat(2, 2)", "x = torch.randn([2, 3])"), ("torch.linalg.inv(x)", "x = torch.randn([3, 3]) + torch.eye(3) * 3.0"),
         ("torch.linalg.det(x)", "x = torch.randn([3, 3])"), ("torch.linalg.solve(x, y)", "x = torch.randn([3, 3]) + torch.eye(3) * 3.0; y = torch.randn([3, 1])"), ("torch.linalg.cholesky(x)", "x = torch.eye(4) * 2.0 + 0.1"), ("torch.linalg.eigvalsh(x)", "x = torch.eye(4) * 2.0 + 0.1"), ("torch.linalg.norm(x)", "x = torch.randn([4])"), ("F.conv1d(x, w)", "x = torch.randn([1, 2, 10]); w = torch.randn([3, 2, 3])"), ("F.conv2d(x, w)", "x = torch.randn([1, 1, 6, 6]); w = torch.randn([2, 1, 3, 3])"), ("F.max_pool2d(x, 2)", "x = torch.randn([1, 1, 6, 6])"), ("F.avg_pool2d(x, 2)", "x = torch.randn([1, 1, 6, 6])"),
         ("F.interpolate(x, scale_factor=2)", "x = torch.randn([1, 1, 3, 3])"), ('F.interpolate(x, scale_factor=2, mode="bilinear")', "x = torch.randn([1, 1, 3, 3])"), ("F.batch_norm(x, m, v)", "x = torch.randn([4, 3]); m = torch.zeros([3]); v = torch.ones([3])"), ("F.group_norm(x, 2)", "x = torch.randn([2, 4, 3])"), ("F.scaled_dot_product_attention(x, x, x)", "x = torch.randn([1, 2, 4, 4])"), ("torch.unique(x)", "x = torch.randint(0, 5, [10])"), ("torch.bincount(x)", "x = torch.randint(0, 5, [10])"), ("torch.searchsorted(b, x)", "b = torch.arange(6).to(torch.float32); x = torch.rand([5]) * 6.0"),
         ("torch.nonzero(x)", "x = torch.randint(0, 2, [10])"), ("torch.histc(x, 5)", "x = torch.randn([30])"), ("torch.quantile(x, 0.5)", "x = torch.randn([30])"), ("x.median()", "x = torch.randn([30])"), ("torch.equal(x, x)", "x = torch.randn([4])"), ("torch.allclose(x, x)", "x = torch.randn([4])"), ("x.to(torch.float64)", "x = torch.randn([4])"), ("x.long()", "x = torch.randn([4])"), ("x.sum()", "x = torch.randn([4])"), ("x.mean()", "x = torch.randn([4])"), ("x.std()", "x = torch.randn([4])"), ("x.max()", "x = torch.randn([4])"), ("x.norm()", "x = torch.randn([4])"), ("x.any()", "x = torch.randn([4]) > 0.0"),
         ("x.prod()", "x = torch.randn([4])"), ("x.argmax()", "x = torch.randn([4])"), ("x.var()", "x = torch.randn([4])"), ("x.tolist()", "x = torch.randn([4])"), ("x.cumprod(dim=0)", "x = torch.randn([4])"), ("x.diagonal()", "x = torch.randn([4, 4])"), ("x.unbind(D(0))", "x = torch.randn([4, 4])"), ("x.split(2)", "x = torch.randn([4, 4])"), ("x.chunk(2)", "x = torch.randn([4, 4])"), ("x.narrow(D(0), D(1), 2)", "x = torch.randn([4, 4])"), ("torch.where(x)", "x = torch.randn([4]) > 0.0"), ("F.dropout(x, 0.5)", "x = torch.randn([4])"), ("torch.meshgrid(x, x, indexing=\"ij\")", "x = torch.randn([4])"),
         ("torch.cdist(x, x)", "x = torch.randn([4, 3])"), ("F.cosine_similarity(x, x)", "x = torch.randn([4, 3])"), ("F.normalize(x)", "x = torch.randn([4, 3])"), ("F.grid_sample(x, y, align_corners=False)", "x = torch.randn([1, 1, 4, 4]); y = torch.rand([1, 3, 3, 2])"), ("torch.scatter(x, D(0), i, x)", "x = torch.randn([3, 4]); i = IDX(3, [3, 4])"), ("torch.index_add(x, D(0), i, x)", "x = torch.randn([3, 4]); i = IDX(3, [3])"), ("torch.svd(x)", "x = torch.randn([3, 3])"), ("torch.multinomial(x, 2)", "x = torch.rand([5])"), ("torch.logsumexp(x, D(0))", "x = torch.rand([5])"), ("torch.lerp(x, x, 0.5)", "x = torch.rand([5])"), ("x.size(D(0))", "x = torch.rand([5])"), ("x.numel()", "x = torch.rand([5])"), ("torch.triu(x, 1)", "x = torch.rand([5, 5])"), ("torch.full([3], 1.5)", ""), ("torch.randperm(8)", ""), ("torch.randn([3, 3])", ""), ("torch.randint(0, 5, [8])", "")]
    for e, pre in E: add(e, pre, "r = " + e, [])
    for dt in ("float64", "bfloat16", "int64"):
        for e in ("x + y", "x * 2", "x.sum()", "x > y"):
            add(e + " " + dt, "x = %s; y = %s" % (values("ip", [6], dt), values("ip", [6], dt)), "r = " + e, dtype=dt)
    B = [("x * y", "n", "n"), ("x + y", "n", "n"), ("torch.exp(x) * y", "n", "n"), ("(x @ y).relu()", "n", "n"), ("(x - y) ** 2", "n", "n"), ("torch.sigmoid(x) / (y + 9.0)", "n", "n"), ("F.softmax(x @ y, dim=1)", "n", "n")]
    for e, kx, ky in B: back(e + " bwd", "x = torch.randn([4, 4]); y = torch.randn([4, 4])", e, ["x", "y"], tol=1e-2)
    for e in ("x.sum()", "x.mean()", "x.std()", "(x * x).sum()", "x.norm()", "F.mse_loss(x, y)", "F.cross_entropy(x, c)"):
        add(e + " bwd", "x = torch.randn([4, 4]).requires_grad_(); y = torch.randn([4, 4]); c = IDX(4, [4])", "x.grad = None; r = %s; r.backward()" % e, ["r", "x.grad"], tol=1e-2, bwd=True)
    for e in ("x.add_(1.0)", "x.mul_(1.0)", "x.zero_()", "x.fill_(1.0)", "x.copy_(y)", "x.add_(y)", "x.clamp_(0.0, 1.0)", "x.relu_()", "x.neg_()", "x.uniform_()", "x.normal_()"):
        add(e, "x = torch.zeros([4]); y = torch.zeros([4])", e, [])
    add("autograd.grad", "x = torch.randn([4]).requires_grad_()", "r = torch.autograd.grad((x * x).sum(), [x])", [], bwd=True)
    add("double backward", "x = torch.randn([4]).requires_grad_()", "h = torch.autograd.grad((x ** 3).sum(), [x], create_graph=True)[0]; r = torch.autograd.grad(h.sum(), [x])[0]", ["r"], bwd=True, lua="h = torch.autograd.grad((x ^ 3):sum(), {x}, {create_graph = true}); r = torch.autograd.grad(h:sum(), {x})", tol=1e-3)
    for m, s in [("nn.Linear(4, 3)", [2, 4]), ("nn.Conv2d(2, 3, 3)", [1, 2, 6, 6]), ("nn.LayerNorm(6)", [3, 6]), ("nn.BatchNorm1d(6)", [3, 6]), ("nn.Embedding(5, 3)", None), ("nn.ReLU()", [4]), ("nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))", [3, 4]), ("nn.Dropout(0.5)", [6]), ("nn.LSTM(3, 4)", [5, 1, 3]), ("nn.GRU(3, 4)", [5, 1, 3])]:
        x = "x = torch.randn(%s)" % s if s else "x = IDX(5, [4])"
        add(m + " call", "m = %s; %s" % (m, x), "y = m(x)", [])


@family("loop")
def _(g):
    def both(op, pre, py, lua, outs=(), **kw): add(op, pre, "pass_ = 0" if False else py, outs, lua=lua, **kw)
    def raw(op, pre, py, lua, outs=(), lua_outs=None, assigned=(), **kw):
        i = sum(1 for c in cases if c["family"] == "loop")
        name = "loop.%04d" % i
        cases.append({"case": name, "family": "loop", "op": op, "bwd": False, "tol": 1e-3, "nosum": False, "seed": i + state["seed"], "py_pre": dsl.to_py(pre), "py": py, "py_outs": list(outs),
                      "lua_pre": dsl.to_lua(pre), "lua": lua, "lua_outs": list(lua_outs or outs), "assigned": list(assigned), **kw})
    raw("minibatches by randperm", "x = torch.randn([6000, 784]); y = IDX(10, [6000])", "p = torch.randperm(6000)\nfor i in range(0, 6000, 64):\n    k = p[i:i+64]\n    a = x[k]; b = y[k]",
        "p = torch.randperm(6000); for i = 1, 6000, 64 do local k = p[{{i, math.min(i + 63, 6000)}}]; a, b = x[k], y[k] end", assigned=["p", "a", "b"])
    raw("minibatches by slice", "x = torch.randn([6000, 784]); y = IDX(10, [6000])", "for i in range(0, 6000, 64):\n    a = x[i:i+64]; b = y[i:i+64]",
        "for i = 1, 6000, 64 do a, b = x[{{i, math.min(i + 63, 6000)}}], y[{{i, math.min(i + 63, 6000)}}] end", assigned=["a", "b"])
    raw("DataLoader TensorDataset", "x = torch.randn([3000, 50]); y = IDX(10, [3000]); d = data.TensorDataset(x, y); l = data.DataLoader(d, batch_size=32, shuffle=True)", "for a, b in l: pass", "for a, b in l() do end")
    raw("DataLoader one by one", "x = torch.randn([500, 50]); y = IDX(10, [500]); d = data.TensorDataset(x, y); l = data.DataLoader(d, batch_size=1)", "for a, b in l: pass", "for a, b in l() do end")
    raw("dataset get + stack", "x = torch.randn([500, 50]); y = IDX(10, [500]); d = data.TensorDataset(x, y)", "s = [d[i][0] for i in range(64)]\nr = torch.stack(s)", "local s = {}; for i = 1, 64 do s[i] = d:get(i)[1] end; r = torch.stack(s)", ["r"], assigned=["s", "r"])
    raw("item by item", "x = torch.randn([200])", "s = 0.0\nfor i in range(200): s += x[i].item()", "s = 0.0; for i = 1, 200 do s = s + x[i]:item() end", ["s"], assigned=["s"])
    raw("set by item", "x = torch.zeros([200])", "for i in range(200): x[i] = i * 0.5", "for i = 1, 200 do x[i] = (i - 1) * 0.5 end", ["x"])
    raw("2d item loop", "x = torch.randn([20, 20])", "s = 0.0\nfor i in range(20):\n    for j in range(20): s += x[i, j].item()", "s = 0.0; for i = 1, 20 do for j = 1, 20 do s = s + x[{i, j}]:item() end end", ["s"], assigned=["s"])
    raw("rows of a matrix", "x = torch.randn([500, 64])", "s = torch.zeros(64)\nfor row in x: s = s + row", "s = torch.zeros(64); for _, row in ipairs{x:unbind()} do s = s + row end", ["s"], assigned=["s"])
    raw("accumulate scalars", "x = torch.randn([100, 64])", "s = 0.0\nfor i in range(100): s += (x[i] * x[i]).sum().item()", "s = 0.0; for i = 1, 100 do s = s + (x[i] * x[i]):sum():item() end", ["s"], assigned=["s"])
    raw("append and cat", "x = torch.randn([50, 100])", "l = []\nfor i in range(50): l.append(torch.relu(x[i:i+1]))\nr = torch.cat(l)", "local l = {}; for i = 1, 50 do l[i] = torch.relu(x[{{i, i}}]) end; r = torch.cat(l)", ["r"], assigned=["l", "r"])
    raw("rnn by hand", "x = torch.randn([20, 8, 16]); w = torch.randn([32, 16]) * 0.1; u = torch.randn([32, 32]) * 0.1; b = torch.randn([32])", "h = torch.zeros(8, 32)\nfor t in range(20): h = torch.tanh(x[t] @ w.T + h @ u.T + b)", "h = torch.zeros(8, 32); for t = 1, 20 do h = torch.tanh(x[t]:matmul(w.T) + h:matmul(u.T) + b) end", ["h"], assigned=["h"])
    raw("gradient descent", "x = torch.randn([100, 5]); y = torch.randn([100]); w = torch.zeros([5]).requires_grad_()", "w.grad = None\nl = ((x @ w - y) ** 2).mean()\nl.backward()\nwith torch.no_grad(): w.sub_(0.01 * w.grad)", "w.grad = nil; l = ((x:matmul(w) - y) ^ 2):mean(); l:backward(); do local _ <close> = torch.no_grad(); w:sub_(0.01 * w.grad) end", ["l"], assigned=["l"])
    raw("game of life", "x = (torch.rand([64, 64]) > 0.7).float().reshape(1, 1, 64, 64); k = torch.ones([1, 1, 3, 3])", "c = F.conv2d(x, k, padding=1) - x\nx = ((c == 3) | ((x == 1) & (c == 2))).float()", "c = F.conv2d(x, k, {padding = 1}) - x; x = (c:eq(3) | (x:eq(1) & c:eq(2))):float()", [], assigned=["c", "x"])
    raw("kmeans step", "x = torch.randn([2000, 8]); c = torch.randn([10, 8])", "d = torch.cdist(x, c)\na = d.argmin(dim=1)\ns = torch.zeros(10, 8).index_add_(0, a, x)\nq = torch.bincount(a, minlength=10).unsqueeze(1)\nr = s / q", "d = torch.cdist(x, c); a = d:argmin{dim = 2}; s = torch.zeros(10, 8):index_add_(1, a, x); q = torch.bincount(a - 1, {minlength = 10}):unsqueeze(2); r = s / q", ["r"], assigned=["d", "a", "s", "q", "r"])
    raw("power iteration", "a = torch.randn([100, 100]); v = torch.randn([100])", "w = a @ v\nv = w / w.norm()", "w = a:matmul(v); v = w / w:norm()", [], assigned=["w", "v"])
    raw("softmax sampling", "x = torch.randn([1, 1000])", "p = F.softmax(x / 0.8, dim=-1)\nv, i = torch.topk(p, 40)\nr = i.gather(1, torch.multinomial(v, 1))", "p = F.softmax(x / 0.8, {dim = -1}); v, i = torch.topk(p, 40); r = i:gather(2, torch.multinomial(v, 1))", [], assigned=["p", "v", "i", "r"])
    raw("normalise images", "x = torch.randint(0, 255, [16, 3, 64, 64]).to(torch.uint8); m = torch.rand([3, 1, 1]); s = torch.rand([3, 1, 1]) + 0.5", "r = (x.float() / 255.0 - m) / s", "r = (x:float() / 255.0 - m) / s", ["r"], assigned=["r"])
    raw("random crop flip", "x = torch.randn([32, 3, 36, 36])", "r = torch.stack([x[i, :, i % 5:i % 5 + 32, 2:34].flip(2) for i in range(32)])", "local l = {}; for i = 0, 31 do l[i + 1] = x[{i + 1, {}, {i % 5 + 1, i % 5 + 32}, {3, 34}}]:flip(3) end; r = torch.stack(l)", ["r"], assigned=["r"])
    raw("moving average", "x = torch.randn([20000])", "r = x.unfold(0, 50, 1).mean(1)", "r = x:unfold(1, 50, 1):mean(2)", ["r"], assigned=["r"])
    raw("pairwise distances", "x = torch.randn([300, 3])", "r = ((x[:, None] - x[None]) ** 2).sum(-1).sqrt()", "r = ((x[{{}, torch.newaxis}] - x[{torch.newaxis}]) ^ 2):sum(-1):sqrt()", ["r"], assigned=["r"])
    raw("ema update", "a = MANY(20, [100, 100]); b = MANY(20, [100, 100])", "for p, q in zip(a, b): p.mul_(0.99).add_(q, alpha=0.01)", "for i = 1, #a do a[i]:mul_(0.99):add_(b[i], {alpha = 0.01}) end")
    raw("state_dict", "m = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 5))", "s = m.state_dict()\nm.load_state_dict(s)", "s = m:state_dict(); m:load_state_dict(s)", assigned=["s"])
    raw("make a module", "", "m = nn.Linear(100, 50)", "m = nn.Linear(100, 50)", assigned=["m"])
    raw("save and load", "x = torch.randn([100, 100])", "torch.save(x, 'py_x.pt')\ny = torch.load('py_x.pt')", "torch.save(x, 'lua_x.pt'); y = torch.load('lua_x.pt')", assigned=["y"])
