"""tests/bench/run --evidence: the fixed tasks and a random sweep (sweep/) under every setting, as one table."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "sweep"))
from sweep import Sweep, describe, make_cases  # noqa: E402
from tables import print_summary, print_sweep  # noqa: E402

# What each side is told so that it uses no more than the level's instructions.
LEVELS = {"v4": ({}, {}),
          "v3": ({"TYCHO_CPU_LEVEL": "v3", "ONEDNN_MAX_CPU_ISA": "AVX2"},
                 {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"})}
NEEDS = {"v4": "avx512dq", "v3": "avx2"}  # the flag of a processor that has it


def say(text):
    print(f"# {text}", file=sys.stderr, flush=True)


def task_ratios(session, threads, level, groups, kept, only, busy):
    """Family -> ratios of the fixed tasks: the faster PyTorch's time by Tycho's."""
    before, session.best = session.best, {}
    ours, theirs = LEVELS[level]
    for group in groups:
        session.run_tycho([group], threads, only, ours, level=level, busy=busy)
        for peer in ("torch", "torch-malloc") if group in kept else ("torch",):
            session.run_torch(peer, [group], threads, only, theirs, level=level, busy=busy)
    ratios = {}
    for task, peer, _ in list(session.best):
        peers = [t for t in (session.us(task, p, threads) for p in ("torch", "torch-malloc")) if t]
        if peer == "tycho" and peers:
            ratios.setdefault("tasks " + task[0], []).append(min(peers) / session.us(task, peer, threads))
    session.best = before
    return ratios


def evidence(session, o, tasks, kept, flags):
    """One table: by family, the geometric mean of the ratios and the share below 1, a column per setting."""
    cases = make_cases(o.evidence, o.families, o.more)
    levels = [level for level in LEVELS if level in o.levels.split(",") and NEEDS[level] in flags]
    tasks = [] if o.families else tasks
    columns = {}
    for level in levels:
        for busy in (0, o.busy) if o.busy else (0,):
            loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(busy)]
            try:
                for threads in o.threads:
                    name = f"{level}, {threads} thread{'s' if threads > 1 else ''}{', busy' if busy else ''}"
                    say(name)
                    families = task_ratios(session, threads, level, tasks, kept, o.only, busy)
                    sweep = Sweep(cases, session.tycho, session.python, threads, *LEVELS[level], say)
                    with tempfile.TemporaryDirectory() as work:
                        rows = sweep.measure(work)
                    for ratio, case, *_ in rows:
                        families.setdefault(sweep.cases[case]["family"], []).append(ratio)
                    session.write({"setting": name, "seed": o.evidence, "ratios": {r[1]: round(r[0], 3) for r in rows}})
                    columns[name] = families
                    print_sweep(sweep, rows, name, describe)
            finally:
                for loop in loops:
                    loop.terminate()
                    loop.wait()
    print_summary(columns, session.head, o.evidence)
