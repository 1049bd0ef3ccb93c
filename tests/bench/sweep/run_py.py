"""Times cases on PyTorch, a JSON line for each (case, seconds, checksum or error):  run_py.py CASES.jsonl THREADS"""
import json, math, sys, time, warnings
import torch
import torch.nn as nn, torch.nn.functional as F, torch.optim as optim
import torch.utils.data as data
warnings.simplefilter("ignore")
threads = int(sys.argv[2])
torch.set_num_threads(threads)
clock = time.perf_counter


def MANY(n, shape): return [torch.randn(shape) for _ in range(n)]


def PARAMS(n, shape):
    ps = [torch.randn(shape).requires_grad_() for _ in range(n)]
    for p in ps: p.grad = torch.randn(shape) * 0.1
    return ps


def flat(v):
    if isinstance(v, (list, tuple)):
        for e in v: yield from flat(e)
    else: yield v


def checksum(outs):
    sums = []
    for t in flat(outs):
        if t is None: continue
        if not isinstance(t, torch.Tensor): t = torch.tensor(float(t), dtype=torch.float64)
        t = t.detach()
        d = t.reshape(-1).to(torch.float64)
        nan, inf = int(d.isnan().sum()), int(d.isinf().sum())
        if nan or inf: d = torch.where(d.isfinite(), d, torch.zeros((), dtype=torch.float64))
        w = (torch.arange(d.numel()) % 97).to(torch.float64) * 0.01 + 0.1
        sums.append({"shape": list(t.shape), "dtype": str(t.dtype), "nan": nan, "inf": inf, "sum": float(d.sum()),
                     "abs": float(d.abs().sum()), "mix": float((d * w).sum())})
    return sums


def run(c):
    base = {"torch": torch, "nn": nn, "F": F, "optim": optim, "data": data, "MANY": MANY, "PARAMS": PARAMS, "math": math}
    torch.manual_seed(c["seed"])
    env = dict(base)
    exec(c["py_pre"], env)
    given = [k for k in env if k not in base and not k.startswith("__")]
    body = "\n".join("        " + l for l in c["py"].split("\n"))
    src = "def make(%s):\n    def f(n):\n" % ", ".join(given)
    if c["py"] and c["assigned"]:
        keep = [a for a in c["assigned"]]
        src += "".join("        %s = None\n" % a for a in keep if a not in given)
        if any(a in given for a in keep): src += "        nonlocal %s\n" % ", ".join(a for a in keep if a in given)
    src += "        for _ in range(n):\n" + "\n".join("    " + l for l in body.split("\n"))
    src += "\n        return lambda: [%s]\n    return f\n" % ", ".join(c["py_outs"])
    exec(src, base)
    f = base["make"](*[env[k] for k in given])
    torch.manual_seed(123)
    t = clock(); outs = f(1); first = clock() - t
    sums = checksum(outs()) if c["py_outs"] else []
    del outs
    t = clock(); f(1); one = clock() - t
    k = max(1, int(0.03 / max(one, 1e-7)))
    if k > 1:
        t = clock(); f(k); total = clock() - t
        if total < 0.015 or total > 0.06: k = max(1, int(k * 0.03 / total))
    best = one if k == 1 else 1e9
    for _ in range(5 if one < 1 else 2):
        t = clock(); f(k); total = clock() - t
        best = min(best, total / k)
    return best, first, k, sums


for line in open(sys.argv[1]):
    c = json.loads(line)
    try:
        s, first, k, sums = run(c)
        print(json.dumps({"case": c["case"], "seconds": s, "first": first, "runs": k, "checksum": sums}), flush=True)
    except Exception as e:
        print(json.dumps({"case": c["case"], "error": (type(e).__name__ + ": " + str(e))[:300]}), flush=True)
