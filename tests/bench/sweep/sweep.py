"""Random cases on Tycho and PyTorch in turns: tests/bench/run --evidence calls this.
As a program it lists the cases of a seed:  sweep.py SEED [FAMILY,...] > CASES.jsonl"""
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import cases_elementwise, cases_layers, cases_movement, cases_products, cases_programs, cases_rows  # noqa: E401, E402, F401
import frame  # noqa: E402

CHUNK = 30  # cases that one process of each side runs
KEEP = {"MALLOC_TRIM_THRESHOLD_": "-1", "MALLOC_MMAP_THRESHOLD_": "4294967296"}  # PyTorch that keeps freed blocks


def make_cases(seed, only="", more=1.0):
    frame.cases.clear()
    frame.state.update(seed=seed, more=more)
    for make in frame.families:
        if not only or make.name in only.split(","):
            make()
    return list(frame.cases)


class Sweep:
    """Times cases under one setting. `best[case, side]` is the line with the least time."""

    SIDES = ["tycho", "torch", "torch-malloc"]

    def __init__(self, cases, tycho, python, threads, tycho_env, torch_env, say):
        self.cases = {c["case"]: c for c in cases}
        self.command = {"tycho": [tycho, os.path.join(HERE, "run_lua.lua")],
                        "torch": [python, "-B", os.path.join(HERE, "run_py.py")]}
        self.command["torch-malloc"] = self.command["torch"]
        common = {**os.environ, **{f"{k}_NUM_THREADS": str(threads) for k in ("OMP", "MKL", "OPENBLAS")}}
        self.env = {"tycho": {**common, **tycho_env}, "torch": {**common, **torch_env},
                    "torch-malloc": {**common, **torch_env, **KEEP}}
        self.threads, self.say = threads, say
        self.best, self.errors = {}, {}

    def run(self, names, work):
        start = time.time()
        for i in range(0, len(names), CHUNK):
            turn = i // CHUNK
            for k in range(3):
                self.run_side(self.SIDES[(k + turn) % 3], names[i:i + CHUNK], work)
            if turn % 10 == 9:
                self.say(f"sweep: {i + CHUNK} of {len(names)} cases, {time.time() - start:.0f} s")

    def run_side(self, side, names, work):
        """A case whose process dies gets an error, and the others go on without it."""
        path = os.path.join(work, side + ".jsonl")
        names = list(names)
        while names:
            with open(path, "w") as file:
                file.writelines(json.dumps(self.cases[n]) + "\n" for n in names)
            how = ""
            try:
                done = subprocess.run([*self.command[side], path, str(self.threads)], env=self.env[side], cwd=work, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60 + 12 * len(names), errors="replace")
                out, how = done.stdout, f"status {done.returncode}"
            except subprocess.TimeoutExpired as e:
                out, how = (e.stdout or b"").decode(errors="replace"), "no end"
            for text in out.splitlines():
                if text.startswith("{") and text.endswith("}"):
                    self.keep(side, json.loads(text))
            names = [n for n in names if (n, side) not in self.best and (n, side) not in self.errors]
            if names:
                self.errors[names.pop(0), side] = f"its process died: {how}"

    def keep(self, side, line):
        key = line["case"], side
        if "error" in line:
            self.errors[key] = line["error"]
        elif key not in self.best or line["seconds"] < self.best[key]["seconds"]:
            self.best[key] = line

    def rows(self):
        """(ratio, case, Tycho's seconds, the faster PyTorch's seconds), the worst first."""
        rows = []
        for name in self.cases:
            ours = self.best.get((name, "tycho"))
            peers = [self.best[name, side]["seconds"] for side in self.SIDES[1:] if (name, side) in self.best]
            if ours and peers:
                rows.append((min(peers) / ours["seconds"], name, ours["seconds"], min(peers)))
        return sorted(rows)

    def measure(self, work):
        """All cases; those below 1 again, since a moment of the machine should not decide."""
        self.run(list(self.cases), work)
        for _ in range(2):
            self.run([r[1] for r in self.rows() if r[0] < 1.05], work)
        return self.rows()

    def differences(self):
        """Cases whose results differ from PyTorch's: a place to look, not a verdict."""
        found = []
        for name, case in self.cases.items():
            ours, theirs = self.best.get((name, "tycho")), self.best.get((name, "torch"))
            if ours and theirs and not case["nosum"]:
                what = differ(case["tol"], ours["checksum"], theirs["checksum"])
                if what:
                    found.append((name, what))
        return found


def differ(tolerance, ours, theirs):
    if len(ours) != len(theirs):
        return f"{len(ours)} results, PyTorch's {len(theirs)}"
    for a, b in zip(ours, theirs):
        for key in ("shape", "dtype", "nan", "inf"):
            if a[key] != b[key]:
                return f"{key} {a[key]}, PyTorch's {b[key]}"
        size = max(abs(a["abs"]), abs(b["abs"]), 1e-12)
        for key in ("sum", "abs", "mix"):
            if abs(a[key] - b[key]) > tolerance * size + 1e-7:
                return f"{key} {a[key]:.9g}, PyTorch's {b[key]:.9g}"
    return None


def describe(case):
    parts = [case["op"]]
    for key in ("dtype", "layout", "dim", "desc"):
        if key in case and case[key] not in ("contiguous", "contiguous,contiguous"):
            parts.append(f"{'dim ' if key == 'dim' else ''}{case[key]}")
    return " ".join(parts) + (" with backward" if case["bwd"] else "")


if __name__ == "__main__":
    for one in make_cases(int(sys.argv[1]), *sys.argv[2:3]):
        print(json.dumps(one))
