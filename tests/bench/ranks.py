"""Group l of the benchmark on PyTorch, over gloo: the tasks of ranks.lua, in lines of the same form.

  python ranks.py WORLD            python ranks.py spawn WORLD
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def emit(task, world, samples, inner):
    samples.sort()
    print(json.dumps({"task": "l." + task, "peer": "torch", "threads": world, "min_us": samples[0],
                      "median_us": samples[len(samples) // 2], "n": len(samples), "inner": inner}), flush=True)


def measure(task, world, rank, samples, inner, run):
    times = []
    for i in range(samples + 1):
        if world > 1:
            dist.barrier()
        began = time.perf_counter()
        for _ in range(inner):
            run()
        times.append((time.perf_counter() - began) / inner * 1e6)
    if rank == 0:
        emit(task, world, times[1:], inner)


def join(rank, world, address):
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world)


def first_sum(rank, world, address):
    join(rank, world, address)
    dist.all_reduce(torch.zeros(1))
    dist.destroy_process_group()


def nets():
    yield "mlp", (784,), nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), 100
    yield "cnn", (1, 28, 28), nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10)), 20


def tasks(rank, world, address):
    if world > 1:
        torch.set_num_threads(1)
        join(rank, world, address)
        for name, n, inner in (("4B", 1, 200), ("1KB", 256, 200), ("1MB", 1 << 18, 20), ("64MB", 1 << 24, 1)):
            t = torch.zeros(n)
            measure("all_reduce_" + name, world, rank, 8, inner, lambda: dist.all_reduce(t))
    batch = 64 // world
    torch.manual_seed(0)
    for name, shape, net, inner in nets():
        model = nn.parallel.DistributedDataParallel(net) if world > 1 else net
        opt = torch.optim.SGD(model.parameters(), lr=0.01)
        x, y = torch.randn(batch, *shape), torch.randint(0, 10, (batch,))

        def step():
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
        measure("train_" + name, world, rank, 12, inner, step)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    address = f"file:///tmp/ranks-{os.getpid()}"  # made, and taken away, by the group
    if sys.argv[1] == "spawn":
        world = int(sys.argv[2])
        began = time.perf_counter()
        torch.multiprocessing.spawn(first_sum, (world, address), nprocs=world)
        emit("spawn", world, [(time.perf_counter() - began) * 1e6], 1)
    elif int(sys.argv[1]) > 1:
        torch.multiprocessing.spawn(tasks, (int(sys.argv[1]), address), nprocs=int(sys.argv[1]))
    else:
        tasks(0, 1, None)
