"""The tables that tests/bench/run prints. A session has `best` and `errors` by (task, peer, threads)."""
import math
import sys


def show(us):
    return "-" if us is None else f"{us:.3g}" if us < 1000 else f"{us:,.0f}"


def show_line(line):
    """A time; ~ marks a busy machine or a task that allocates: the middle sample is far above the best."""
    if not line:
        return "-"
    return show(line["min_us"]) + ("~" if line.get("median_us", 0) > 1.3 * line["min_us"] else "")


def print_tasks(session, group, threads, only):
    prefixes = tuple(x for x in only.split(",") if x)
    print(f"\n## {group}, {threads} thread{'s' if threads > 1 else ''} (us, the least per run)\n")
    print("| task | Tycho | PyTorch | PyTorch with kept blocks | ratio | limit |\n|---|---:|---:|---:|---:|---:|")
    tasks = []
    for task in session.costs:
        if task[0] != group or (prefixes and not task.startswith(prefixes)):
            continue
        tasks.append(task)
        us = {peer: session.us(task, peer, threads) for peer in ("tycho", "torch", "torch-malloc")}
        cells = [show_line(session.best.get((task, peer, threads))) for peer in us]
        ratio = " / ".join(f"{us[p] / us['tycho']:.2f}" for p in ("torch", "torch-malloc") if us[p] and us["tycho"])
        limit = session.limit(task, threads)
        shown = show(limit) if limit and limit > 0.05 else ""
        if shown and us["tycho"]:
            shown += f" ({us['tycho'] / limit:.1f}x)"
        print(f"| {task} | {' | '.join(cells)} | {ratio} | {shown} |")
    print_failures(session, tasks, threads)


def print_failures(session, tasks, threads):
    gap = "\n"
    for task in tasks:
        if (task, "tycho", threads) not in session.best and (task, "tycho", threads) in session.errors:
            print(f"{gap}no figure for {task}: {session.errors[task, 'tycho', threads]}")
            gap = ""
    sys.stdout.flush()


def print_products(session, threads):
    rows = [(task, session.us(task, "tycho", threads), session.us(task, "onednn", threads),
             session.us(task, "onednn-packed", threads)) for task in session.costs]
    rows = [row for row in rows if row[2]]
    if not rows:
        return
    print(f"\n## Products against oneDNN alone with held primitives, {threads} thread{'s' if threads > 1 else ''}\n")
    print("| task | Tycho | oneDNN | oneDNN, packed weights | oneDNN / Tycho |\n|---|---:|---:|---:|---:|")
    for task, ours, plain, packed in rows:
        print(f"| {task} | {show(ours)} | {show(plain)} | {show(packed)} | {f'{plain / ours:.2f}' if ours else ''} |")


def print_processes(session, group):
    print("\n## " + {"i": "i: start", "j": "j: memory"}[group] + " (ms of a whole process, peak resident MB)\n")
    print("| task | Tycho | PyTorch | ratio | Tycho, MB | PyTorch, MB |\n|---|---:|---:|---:|---:|---:|")
    tasks = list(dict.fromkeys(key[0] for key in [*session.best, *session.errors] if key[0].startswith(group + ".")))
    for task in tasks:
        lines = [session.best.get((task, peer, 1)) for peer in ("tycho", "torch")]
        ms = [f"{x['min_us'] / 1000:.3g}" if x else "-" for x in lines]
        mb = [str(x["extra"]["peak_rss_mb"]) if x else "-" for x in lines]
        ratio = f"{lines[1]['min_us'] / lines[0]['min_us']:.1f}" if all(lines) else ""
        print(f"| {task} | {' | '.join(ms)} | {ratio} | {' | '.join(mb)} |")
    print_failures(session, tasks, 1)


def print_ranks(session):
    """Several processes, and what a step of 2 ranks costs beside one of one process with all cores."""
    print("\n## l: several processes (us)\n\n| task | ranks | Tycho | PyTorch, gloo | ratio |\n|---|---:|---:|---:|---:|")
    tasks = sorted({key[::2] for key in [*session.best, *session.errors] if key[0].startswith("l.")})
    for task, world in tasks:
        us = [session.us(task, peer, world) for peer in ("tycho", "torch")]
        ratio = f"{us[1] / us[0]:.1f}" if all(us) else ""
        print(f"| {task} | {world} | {' | '.join(map(show, us))} | {ratio} |")
    for task in sorted({task for task, _ in tasks if task.startswith("l.train_")}):
        for peer in ("tycho", "torch"):
            one, two = (session.us(task, peer, world) for world in (1, 2))
            if one and two:
                print(f"\n{task}, {peer}: 2 ranks at {one / two:.2f} of the speed of one process with all cores")


def geometric(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def print_sweep(sweep, rows, name, describe, worst=40):
    """The worst cases of one setting, and what went wrong."""
    print(f"\n## {name}: the slowest of {len(rows)} random cases\n\n| PyTorch / Tycho | PyTorch, us | Tycho, us | case |\n|---:|---:|---:|---|")
    for ratio, case, ours, theirs in rows[:worst]:
        print(f"| {ratio:.2f} | {show(theirs * 1e6)} | {show(ours * 1e6)} | {describe(sweep.cases[case])} |")
    for case, what in sweep.differences():
        print(f"\nanother result: {describe(sweep.cases[case])}: {what}")
    for (case, side), text in sweep.errors.items():
        if side == "tycho":
            print(f"\nno figure for {describe(sweep.cases[case])}: {text}")
    sys.stdout.flush()


def print_summary(columns, head, seed):
    """Families down, settings across: the geometric mean of PyTorch's time by Tycho's, and how many cases are below 1."""
    print(f"\n## PyTorch's time by Tycho's, the faster PyTorch of two; {head['machine']}, seed {seed}\n")
    print("| family | cases |" + "".join(f" {name} | <1 |" for name in columns))
    print("|---|---:|" + "---:|---:|" * len(columns))
    families = list(dict.fromkeys(f for column in columns.values() for f in column))
    for family in [*families, "sweep", "all"]:
        cells, count = "", 0
        for column in columns.values():
            chosen = [r for f, ratios in column.items() for r in ratios
                      if family in (f, "all") or family == "sweep" and not f.startswith("tasks ")]
            below = sum(r < 1 for r in chosen) / max(1, len(chosen))
            cells += f" {geometric(chosen):.2f} | {100 * below:.0f} % |" if chosen else " | |"
            count = max(count, len(chosen))
        print(f"| {family} | {count} |{cells}")
