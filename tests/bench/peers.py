#!/usr/bin/env python3
"""The benchmark's tasks on PyTorch: one JSON line per task on standard output, keys as tasks.lua writes.

  python peers.py [GROUP...] [--peer torch|torch-malloc] [--threads N] [--only PREFIX,...] [--seconds S] [--list]

`torch` is PyTorch as a user runs it; `torch-malloc` the same with the C library told to keep freed blocks and
to use huge pages: the fair opponent wherever new results are large. tests/bench/run starts one process per
peer, thread count and group. The statements stand in the same order as in tasks.lua.
"""
import argparse
import gc
import json
import math
import os
import statistics
import sys
import tempfile
import time
import timeit

KEPT_BLOCKS = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "68719476736",
    "MALLOC_TOP_PAD_": "268435456",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
GROUPS = "abcdefgh"


class Data(dict):
    """Named values, each made when the first statement that uses it runs."""

    def __init__(self, **makers):
        super().__init__()
        self.makers = makers

    def bind(self, statement):
        """The globals that `statement` needs."""
        import torch
        names = compile(statement, "", "exec").co_names
        for name in names:
            if name in self.makers and name not in self:
                self[name] = self.makers[name]()
        have = {"torch": torch, "F": torch.nn.functional, **self}
        return {name: have[name] for name in names if name in have}


def normal(*shape, grad=False, dtype=None):
    import torch
    return lambda: torch.randn(shape).to(dtype or torch.float32).requires_grad_(grad)


def filled(value, *shape, grad=False):
    import torch
    return lambda: torch.full(shape, float(value)).requires_grad_(grad)


def integers(low, high, *shape):
    import torch
    return lambda: torch.randint(low, high, shape)


def group_a():
    e = Data(a=normal(4), b=normal(4), z=filled(0, 4), r=normal(4, grad=True), s=normal(),
             m8=normal(8, 8), m64=normal(64, 64))
    for name, statement in (
            ("empty_loop", "pass"),
            ("add4", "c = a + b"),
            ("adds4", "c = a + 1.0"),
            ("muladd4", "c = a * b + a"),
            ("add4_grad", "c = r + b"),
            ("muladd4_grad", "c = r * b + r"),
            ("add4_", "a.add_(z)"),
            ("view", "v = a.view(2, 2)"),
            ("index", "v = a[0]"),
            ("slice", "v = a[1:3]"),
            ("sum4", "c = a.sum()"),
            ("item", "x = s.item()"),
            ("zeros4", "c = torch.zeros(4)"),
            ("from_list4", "c = torch.tensor([1.0, 2.0, 3.0, 4.0])"),
            ("mm8", "c = m8 @ m8"),
            ("mm64", "c = m64 @ m64"),
            ("fwdbwd4", "((r * b) + r).sum().backward()")):
        yield f"a.{name}", statement, e
    yield "a.add4_nograd", "c = r + b", e, {"no_grad": True}


def mlp(sizes, batch, activation, optimiser, loss, target):
    import torch
    from torch import nn
    net = nn.Sequential(nn.Linear(sizes[0], sizes[1]), activation(), nn.Linear(sizes[1], sizes[2]))
    opt = optimiser(net.parameters())
    x, y = torch.randn(batch, sizes[0]), target()

    def step():
        opt.zero_grad()
        loss(net(x), y).backward()
        opt.step()
    return step


def group_b():
    from torch import nn, optim
    import torch.nn.functional as F
    small = lambda: mlp((2, 16, 1), 8, nn.Tanh, lambda p: optim.SGD(p, lr=0.1), F.mse_loss, normal(8, 1))
    large = lambda: mlp((784, 128, 10), 64, nn.ReLU, lambda p: optim.Adam(p, lr=1e-3), F.cross_entropy,
                        integers(0, 10, 64))
    yield "b.mlp_2_16_1", "step()", Data(step=small), {"inner": 1000}
    yield "b.mlp_784_128_10", "step()", Data(step=large), {"inner": 1000}


def group_c():
    import torch
    chain = "h = a*a*a*0.044715 + a; y = (torch.tanh(h*0.7978845608) + 1)*a"
    for z, n in (("1e4", 10**4), ("1e5", 10**5), ("1e6", 10**6), ("1e7", 10**7)):
        e = Data(a=normal(n), b=normal(n), zero=filled(0, n), out=filled(0, n), p=lambda: torch.rand(n) + 0.1)
        if z != "1e5":
            for name, statement in (
                    ("add", "c = a + b"),
                    ("mul", "c = a * b"),
                    ("exp", "c = torch.exp(a)"),
                    ("tanh", "c = torch.tanh(a)"),
                    ("sigmoid", "c = torch.sigmoid(a)"),
                    ("gelu", "c = F.gelu(a)"),
                    ("pow", "c = p ** 2.5"),
                    ("add_out", "torch.add(a, b, out=out)"),
                    ("exp_out", "torch.exp(a, out=out)"),
                    ("add_", "a.add_(zero)")):
                yield f"c.{name}.{z}", statement, e
        yield f"c.chain8.{z}", chain, e
        if z in ("1e4", "1e6"):
            yield (f"c.chain8_bwd.{z}", f"a.grad = None; {chain}; y.backward(g)",
                   Data(a=normal(n, grad=True), g=filled(1, n)))
    n = 10**6
    e = Data(a=normal(n), b=normal(n), column=normal(1000, 1), row=normal(1000))
    yield "c.bcast.1e6", "c = column + row", e
    yield "c.gt.1e6", "c = a > b", e
    yield "c.where.1e6", "c = torch.where(a > b, a, b)", e
    for short, dtype in (("f64", torch.float64), ("bf16", torch.bfloat16)):
        e = Data(a=normal(n, dtype=dtype), b=normal(n, dtype=dtype))
        yield f"c.add_{short}.1e6", "c = a + b", e
        yield f"c.exp_{short}.1e6", "c = torch.exp(a)", e
    yield "c.add_i64.1e6", "c = a + b", Data(a=integers(0, 1000, n), b=integers(0, 1000, n))

    def optimiser(make):
        parameters = [torch.nn.Parameter(torch.randn(250000)) for _ in range(100)]
        for p in parameters:
            p.grad = torch.randn(250000)
        return make(parameters)
    for name, make in (("adamw", lambda p: torch.optim.AdamW(p, lr=1e-3)),
                       ("sgd", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))):
        yield f"c.{name}.25e6", "opt.step()", Data(opt=lambda make=make: optimiser(make))


def group_d():
    e = Data(s=normal(1024, 1000), l=normal(1024, 1024), w=filled(1, 1024), b=filled(0, 1024))
    yield "d.softmax", "y = F.softmax(s, -1)", e
    yield "d.log_softmax", "y = F.log_softmax(s, -1)", e
    yield "d.layer_norm", "y = F.layer_norm(l, (1024,), w, b, 1e-5)", e
    e = Data(s=normal(1024, 1000, grad=True), l=normal(1024, 1024, grad=True), w=filled(1, 1024, grad=True),
             b=filled(0, 1024, grad=True), gs=normal(1024, 1000), gl=normal(1024, 1024),
             labels=integers(0, 1000, 1024))
    yield "d.softmax_bwd", "s.grad = None; F.softmax(s, -1).backward(gs)", e
    yield ("d.layer_norm_bwd",
           "l.grad = w.grad = b.grad = None; F.layer_norm(l, (1024,), w, b, 1e-5).backward(gl)", e)
    yield "d.cross_entropy_bwd", "s.grad = None; F.cross_entropy(s, labels).backward()", e
    e = Data(x=normal(10**7), x4=normal(10**4), x6=normal(10**6), q=normal(4096, 4096))
    for name, statement in (
            ("sum.1e4", "y = x4.sum()"),
            ("sum.1e7", "y = x.sum()"),
            ("mean.1e7", "y = x.mean()"),
            ("std.1e7", "y = x.std()"),
            ("argmax.1e7", "y = x.argmax()"),
            ("cumsum.1e7", "y = x.cumsum(0)"),
            ("sum0.4096", "y = q.sum(0)"),
            ("sum1.4096", "y = q.sum(1)"),
            ("mean1.4096", "y = q.mean(1)"),
            ("max0.4096", "v, i = q.max(0)"),
            ("max1.4096", "v, i = q.max(1)"),
            ("argmax1.4096", "i = q.argmax(1)"),
            ("var1.4096", "y = q.var(1)"),
            ("sort.1e6", "v, i = x6.sort()"),
            ("topk10.1e6", "v, i = x6.topk(10)")):
        yield f"d.{name}", statement, e


def group_e():
    import torch
    e = Data(x=normal(10**7), y=filled(0, 10**7), q=normal(4096, 4096),
             ten=lambda: [torch.randn(10**6) for _ in range(10)],
             T=normal(100000, 128), idx=integers(0, 100000, 50000), G=normal(4096, 1024),
             I=integers(0, 1024, 4096, 1024), o=filled(0, 100000), i6=integers(0, 100000, 10**6),
             x6=normal(10**6), o2=filled(0, 100000, 128), src=normal(50000, 128),
             m=lambda: torch.rand(10**6) < 0.5, im=normal(32, 64, 56, 56), W=normal(50000, 128, grad=True),
             ids=integers(0, 50000, 64, 128), g=normal(64, 128, 128), x5=normal(10**5),
             l5=lambda: torch.randn(10**5).tolist())
    for name, statement in (
            ("clone.1e7", "c = x.clone()"),
            ("copy_.1e7", "y.copy_(x)"),
            ("to_bf16.1e7", "c = x.to(torch.bfloat16)"),
            ("transpose.4096", "c = q.t().contiguous()"),
            ("cat10.1e6", "c = torch.cat(ten)"),
            ("index_select", "c = T[idx]"),
            ("gather", "c = G.gather(1, I)"),
            ("scatter_add", "o.scatter_add_(0, i6, x6)"),
            ("index_add", "o2.index_add_(0, idx, src)"),
            ("masked_select", "c = x6[m]"),
            ("nhwc", "c = im.permute(0, 2, 3, 1).contiguous()"),
            ("embedding_bwd", "W.grad = None; F.embedding(ids, W).backward(g)"),
            ("randn.1e6", "c = torch.randn(1000000)"),
            ("rand.1e6", "c = torch.rand(1000000)"),
            ("randperm.6e4", "c = torch.randperm(60000)"),
            ("tolist.1e5", "c = x5.tolist()"),
            ("from_list.1e5", "c = torch.tensor(l5)")):
        yield f"e.{name}", statement, e
    yield "e.embedding", "c = F.embedding(ids, W)", e, {"no_grad": True}

    def loader():
        data = torch.utils.data
        rows = data.TensorDataset(torch.randn(60000, 784), torch.randint(0, 10, (60000,)))
        return data.DataLoader(rows, batch_size=64, shuffle=True)
    yield "e.loader", "for _ in loader: pass", Data(loader=loader)

    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "state.pt")

    def state():
        return {f"w{i}": torch.randn(10**7) for i in range(10)}

    def file():
        if not os.path.exists(path):
            torch.save(state(), path)
        return path
    yield "e.save_400MB", "torch.save(t, f)", Data(t=state, f=file)
    yield "e.load_400MB", "c = torch.load(f)", Data(f=file)
    yield "e.load_mmap_sum_400MB", "for v in torch.load(f, mmap=True).values(): v.sum()", Data(f=file)


def group_f():
    import torch

    def pair(left, right, dtype=None):
        return Data(a=normal(*left, dtype=dtype), b=normal(*right, dtype=dtype))
    for n in (16, 32, 128, 256, 512, 1024, 2048):
        yield f"f.mm_f32.{n}", "c = a @ b", pair((n, n), (n, n))
    yield "f.mm_f64.512", "c = a @ b", pair((512, 512), (512, 512), torch.float64)
    yield "f.mm_bf16.1024", "c = a @ b", pair((1024, 1024), (1024, 1024), torch.bfloat16)
    yield "f.bmm", "c = a @ b", pair((64, 128, 128), (64, 128, 128))
    yield "f.linear", "c = F.linear(x, w, b)", Data(x=normal(64, 784), w=normal(512, 784), b=normal(512))
    yield "f.mv.4096", "c = a @ b", pair((4096, 4096), (4096,))
    yield "f.mm_skinny", "c = a @ b", pair((8192, 64), (64, 64))
    yield "f.mm_i64.256", "c = a @ b", Data(a=integers(-9, 9, 256, 256), b=integers(-9, 9, 256, 256))
    head = normal(4, 8, 512, 64)
    yield ("f.sdpa", "c = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
           Data(q=head, k=head, v=head))
    yield ("f.mm_bwd.512", "a.grad = b.grad = None; (a @ b).backward(g)",
           Data(a=normal(512, 512, grad=True), b=normal(512, 512, grad=True), g=normal(512, 512)))


def low(f, *arguments):
    import torch
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return f(*arguments)


def group_g():
    import torch
    import torch.nn.functional as F
    shapes = (  # name, N, C, height = width, channels out, kernel, stride, padding, groups
        ("conv7x7", 8, 3, 224, 64, 7, 2, 3, 1),
        ("conv3x3", 32, 64, 56, 64, 3, 1, 1, 1),
        ("conv1x1", 32, 256, 28, 64, 1, 1, 0, 1),
        ("convdw3x3", 32, 128, 28, 128, 3, 1, 1, 128),
        ("conv3x3s", 8, 256, 14, 256, 3, 1, 1, 1))
    for kind in ("f32", "bf16"):
        bf16 = kind == "bf16"
        dtype = torch.bfloat16 if bf16 else None
        for name, N, C, H, O, k, stride, pad, n in shapes:
            h = (H + 2 * pad - k) // stride + 1
            call = f"conv2d(x, w, None, {stride}, {pad}, 1, {n})"
            for suffix, grad, statement in (
                    ("", False, f"y = {call}"),
                    ("_bwd", True, f"x.grad = w.grad = None; {call}.backward(g)")):
                yield f"g.{name}{suffix}.{kind}", statement, Data(
                    x=normal(N, C, H, H, grad=grad), w=normal(O, C // n, k, k, grad=grad),
                    g=normal(N, O, h, h, dtype=dtype),
                    conv2d=lambda: (lambda *a: low(F.conv2d, *a)) if bf16 else F.conv2d)

        def leaf(*shape):
            return lambda: normal(*shape, dtype=dtype)().requires_grad_()
        before, after = (32, 64, 112, 112), (32, 64, 56, 56)
        yield f"g.maxpool.{kind}", "y = F.max_pool2d(x, 3, 2, 1)", Data(x=normal(*before, dtype=dtype))
        yield (f"g.maxpool_bwd.{kind}", "x.grad = None; F.max_pool2d(x, 3, 2, 1).backward(g)",
               Data(x=leaf(*before), g=normal(*after, dtype=dtype)))
        yield (f"g.batchnorm_bwd.{kind}",
               "x.grad = w.grad = b.grad = None; F.batch_norm(x, m, v, w, b, True).backward(g)",
               Data(x=leaf(*after), g=normal(*after, dtype=dtype), w=filled(1, 64, grad=True),
                    b=filled(0, 64, grad=True), m=filled(0, 64), v=filled(1, 64)))


def make_model(name):
    import torch
    from torch import nn
    import torch.nn.functional as F

    def conv_bn(start, to, kernel, stride, padding):
        return nn.Sequential(nn.Conv2d(start, to, kernel, stride, padding, bias=False), nn.BatchNorm2d(to))

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.c2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
            self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.c1(x)), 2)
            x = F.max_pool2d(F.relu(self.c2(x)), 2)
            return self.f3(F.relu(self.f2(F.relu(self.f1(x.flatten(1))))))

    class Block(nn.Module):
        """A residual block: two 3x3 when wide is 1, else 1x1, 3x3, 1x1 to `wide` times the width."""

        def __init__(self, start, width, stride, wide):
            super().__init__()
            if wide == 1:
                units = [conv_bn(start, width, 3, stride, 1), conv_bn(width, width, 3, 1, 1)]
            else:
                units = [conv_bn(start, width, 1, 1, 0), conv_bn(width, width, 3, stride, 1),
                         conv_bn(width, wide * width, 1, 1, 0)]
            self.units = nn.ModuleList(units)
            change = stride != 1 or start != wide * width
            self.down = conv_bn(start, wide * width, 1, stride, 0) if change else None

        def forward(self, x):
            y = self.units[0](x)
            for unit in self.units[1:]:
                y = unit(F.relu(y))
            return F.relu(y + (x if self.down is None else self.down(x)))

    class ResNet(nn.Module):
        def __init__(self, wide, depths, stem, pool, classes):
            super().__init__()
            self.stem, self.pool = conv_bn(3, 64, *stem), pool
            start, blocks = 64, []
            for stage, depth in enumerate(depths):
                for k in range(depth):
                    blocks.append(Block(start, 64 << stage, 2 if k == 0 and stage else 1, wide))
                    start = wide * (64 << stage)
            self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(start, classes)

        def forward(self, x):
            x = F.relu(self.stem(x))
            if self.pool:
                x = F.max_pool2d(x, 3, 2, 1)
            return self.fc(self.blocks(x).mean((2, 3)))

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.n1, self.n2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, width = x.shape
            q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                       for t in self.qkv(self.n1(x)).split(width, 2))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self, vocabulary=65, length=128, width=128, heads=4, layers=4):
            super().__init__()
            self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, ids):
            x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.rnn = nn.Embedding(65, 64), nn.LSTM(64, 128, batch_first=True)
            self.head = nn.Linear(128, 65)

        def forward(self, ids):
            return self.head(self.rnn(self.token(ids))[0])

    return {"lenet": LeNet, "gpt": GPT, "lstm": Lstm,
            "resnet18": lambda: ResNet(1, (2, 2, 2, 2), (3, 1, 1), False, 10),
            "resnet50": lambda: ResNet(4, (3, 4, 6, 3), (7, 2, 3), True, 1000)}[name]()


def trainer(name, kind):
    """A function that does one training step of a model on a fixed batch."""
    import torch
    import torch.nn.functional as F
    net = make_model(name)
    gpt = name == "gpt"
    words = gpt or name == "lstm"
    if words:
        length = 128 if gpt else 64
        x, y = torch.randint(0, 65, (16, length)), torch.randint(0, 65, (16 * length,))
    else:
        shape = {"lenet": (64, 1, 28, 28), "resnet18": (32, 3, 32, 32), "resnet50": (4, 3, 224, 224)}[name]
        x, y = torch.randn(shape), torch.randint(0, 1000 if name == "resnet50" else 10, shape[:1])
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4 if gpt else 1e-3)

    def loss():
        out = net(x)
        return F.cross_entropy(out.flatten(0, 1) if words else out, y)

    def step():
        opt.zero_grad()
        (low(loss) if kind == "bf16" else loss()).backward()
        opt.step()
    return step


def group_h():
    for kind in ("f32", "bf16"):
        for name in ("lenet", "resnet18", "resnet50", "gpt"):
            yield f"h.{name}.{kind}", "step()", Data(step=lambda name=name, kind=kind: trainer(name, kind))
    yield "h.lstm.f32", "step()", Data(step=lambda: trainer("lstm", "f32"))


def measure(statement, names, inner, seconds):
    """us per run of each sample, runs per sample, seconds of the first run, processor time / wall time.

    A sample is a loop of at least 5 ms; samples until `seconds` or 30 of them, at least 3."""
    timer = timeit.Timer(statement, setup="import gc; gc.enable()", globals=names)
    first = one = timer.timeit(1)
    if first < 2:
        one = min(timer.timeit(1) for _ in range(3))
        start = time.perf_counter()
        while one < 0.05 and time.perf_counter() - start < 0.1:
            k = 1 if one > 1e-4 else 100
            one = min(one, timer.timeit(k) / k)
    k = inner or max(1, math.ceil(5e-3 / one))
    samples, total, cpu = [], 0.0, time.process_time()
    while len(samples) < 3 or (total < seconds and len(samples) < 30):
        t = timer.timeit(k)
        total += t
        samples.append(t / k * 1e6)
        if total > 8 and len(samples) >= 2:
            break
    return samples, k, first, (time.process_time() - cpu) / total


def read_costs():
    costs = {}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "costs.tsv")) as lines:
        for line in lines:
            if not line.startswith("#"):
                name, flops, traffic = line.split("\t")
                costs[name] = float(flops), float(traffic)
    return costs


def five(x):
    return float(f"{x:.5g}")


def run_task(peer, threads, seconds, cost, name, statement, data, options):
    import torch
    line = {"task": name, "peer": peer, "threads": threads}
    try:
        with torch.set_grad_enabled(not options.get("no_grad")):
            names = data.bind(statement)
            samples, k, first, cpu = measure(statement, names, options.get("inner"), seconds)
    except Exception as error:  # a task that cannot run must not end the others
        line["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    else:
        least = min(samples)
        extra = {"first_us": round(first * 1e6), "cpu": round(cpu, 2)}
        if cost[0] and name[0] in "fgh":
            extra["gf_s"] = five(cost[0] / least * 1e-3)
        if cost[1] and name[0] in "cde":
            extra["gb_s"] = five(cost[1] / least * 1e-3)
        line.update(min_us=five(least), median_us=five(statistics.median(samples)), n=len(samples), inner=k,
                    extra=extra)
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="letters of a to h; all without")
    parser.add_argument("--peer", choices=("torch", "torch-malloc"), default="torch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="task names start with one of these")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for the samples of one task")
    parser.add_argument("--list", action="store_true")
    o = parser.parse_args()
    only = tuple(x for x in o.only.split(",") if x)
    groups = o.groups or sorted({x[0] for x in only}) or list(GROUPS)
    for group in groups:
        if group not in list(GROUPS):
            parser.error(f"no group {group!r}; groups are a to h")
    n = str(o.threads)
    wanted = {"OMP_NUM_THREADS": n, "MKL_NUM_THREADS": n, "OPENBLAS_NUM_THREADS": n}
    if o.peer == "torch-malloc":
        wanted.update(KEPT_BLOCKS)
    if any(os.environ.get(k) != v for k, v in wanted.items()):  # read when a process starts: start again
        os.execve(sys.executable, [sys.executable, os.path.abspath(__file__), *sys.argv[1:]],
                  {**os.environ, **wanted})
    import torch
    torch.set_num_threads(o.threads)
    costs = read_costs()
    for group in groups:
        torch.manual_seed(0)
        for name, statement, data, *options in globals()[f"group_{group}"]():
            if only and not name.startswith(only):
                continue
            if o.list:
                print(name)
            else:
                run_task(o.peer, o.threads, o.seconds, costs[name], name, statement, data, *(options or [{}]))
            gc.collect()


if __name__ == "__main__":
    main()
