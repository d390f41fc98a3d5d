# SPDX-License-Identifier: MIT
"""Schedules from end to end: what `schedule show` prints is sound, `schedule = FILE` runs it as the plan runs, and what is
not sound is refused. Usage: schedule-run.py PSISIM."""

import json
import os
import re
import subprocess
import sys
import tempfile

import tap

PSISIM = sys.argv[1]
UNIFORM = ["--model", "uniform", "--psi-p", "4 GiB", "--psi-a", "4 GiB", "--forward", "3ms", "--backward", "5ms",
           "--backward-weight", "2ms"]
TIMES = ["--forward", "3ms", "--backward", "5ms", "--backward-weight", "2ms"]
# A plan, and what has to be written beside the file because no file says it.
PLANS = [
    ("--plan gpipe --stages 4", ""),
    ("--plan 1f1b --stages 4 --micro-batches 8", ""),
    ("--plan 1f1b --stages 2 --dp 2", "--dp 2"),
    ("--plan mp --stages 3", ""),
    ("--plan interleaved --stages 8 --micro-batches 8", ""),
    ("--schedule breadth-first --pp 4 --micro-batches 6", ""),
    ("--plan zb-h1 --stages 4 --micro-batches 8", ""),
    ("--plan zb-h2 --stages 4 --micro-batches 9", ""),
    ("--plan zb-v --stages 8 --micro-batches 9", ""),
    ("--schedule v-half --pp 4 --micro-batches 9", ""),
    ("--schedule v-min --pp 4 --micro-batches 9", ""),
    ("--plan dualpipe-v --stages 8", ""),
    ("--schedule dualpipe --pp 4 --micro-batches 8", ""),
    ("--schedule auto --pp 4 --micro-batches 9", ""),
    ("--schedule auto --pp 4 --micro-batches 9 --in-flight 7", ""),
    ("--schedule pipedream-2bw --pp 4 --micro-batches 6", ""),
    ("--plan pipedream --stages 4", ""),
    ("--plan pipedream --stages 5 --micro-batches 2", ""),
    ("--plan pipedream --stages 3 --micro-batches 7", ""),
    ("--plan dp --dp 4 --stages 1 --micro-batches 2", ""),
    ("--plan dp", ""),
    ("--plan dp --dp 3 --stages 5 --micro-batches 2", ""),
    ("--plan zero-1 --dp 3", "--zero 1"),
    ("--plan zero-3 --dp 3", "--zero 3"),
    ("--plan single --workers 3", ""),
    ("--plan accumulate --micro-batches 3", ""),
    ("--plan cdp-v1 --workers 3 --stages 5", ""),
    ("--plan cdp-v2 --workers 4", ""),
    ("--plan cdp-v2 --workers 4 --stages 2 --micro-batches 2", ""),
    ("--plan cdp-single --workers 3", ""),
    ("--plan cdp-single --workers 4", ""),
    ("--plan cdp+pp --workers 4", ""),
    ("--plan cdp+pp --workers 4 --micro-batches 2", ""),
    ("--plan cdp+mp --workers 3", ""),
    ("--plan cdp+mp --workers 4 --stages 3 --micro-batches 2", ""),
    ("--plan cdp+mp --workers 4 --update cyclic-v1", ""),
    ("--plan cdp-zero --workers 4", "--zero 3"),
]


def psisim(*words):
    return subprocess.run([PSISIM, *words], capture_output=True, text=True, timeout=120)


def report(*words):
    done = psisim("run", "--json", *words)
    if done.returncode != 0:
        raise RuntimeError(f"run {' '.join(words)}: exit {done.returncode}: {done.stderr.strip()}")
    plan = json.loads(done.stdout)["plans"][0]
    return {"step_time_s": plan["step_time_s"], "bubble_fraction": plan["bubble_fraction"], "gpus": plan["gpus"],
            "peak_bytes": max(rank["peak_bytes"] for rank in plan["memory"]["ranks"]),
            "activation_total_peak_bytes": plan["memory"]["activation_total_peak_bytes"],
            "total_bytes": plan["communication"]["total_bytes"],
            "sequential_steps": plan["communication"]["sequential_steps"], "delay_mean": plan["update"]["delay_mean"]}


def seconds(text):
    number, unit = re.search(r"^period +([0-9.]+) (s|ms|us|ns) a step$", text, re.M).groups()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


def round_trip(folder, plan, beside):
    """show -> check -> run: the same period and bytes as the plan itself, on free links and on real ones."""
    file = os.path.join(folder, "shown.sched")
    for machine in ("ideal", "a100-sxm-80"):
        words = [*UNIFORM, "--machine", machine, *plan.split()]
        shown = psisim("schedule", "show", *words)
        if shown.returncode != 0:
            yield f"show: {shown.stderr.strip()}"
            return
        with open(file, "w", encoding="utf-8") as text:
            text.write(shown.stdout)
        plain = report(*words)
        filed = report(*UNIFORM, "--machine", machine, "--schedule", file, *beside.split())
        for key, value in plain.items():
            if filed[key] != value:
                yield f"{machine}: {key} is {filed[key]} from the file, {value} from the plan"
        again = psisim("schedule", "show", *UNIFORM, "--machine", machine, "--schedule", file, *beside.split())
        if again.returncode != 0:
            yield f"show of the file: {again.stderr.strip()}"
        checked = psisim("schedule", "check", file, *TIMES)
        if checked.returncode != 0:
            yield f"check: {checked.stderr.strip()}"
        elif machine == "ideal" and abs(seconds(checked.stdout) / plain["step_time_s"] - 1) > 1e-3:
            yield f"check says {seconds(checked.stdout)} s, run {plain['step_time_s']} s"


def refused(folder):
    """Exit 1 and one line that names what is wrong, from check and from run."""
    cases = [("ranks 2\nmicro_batches 2\nrank 0: F0 B0 F1 B1\nrank 1: F1 F0 B0 B1\n", "deadlock: rank 0 at B0"),
             ("ranks 1\nmicro_batches 2\nrank 0: F0 B0 F1\n", "missing op: no rank does B or I of micro-batch 1"),
             ("ranks 1\nmicro_batches 1\nrank 0: F0 B0 F0\n", "doubled op: rank 0 does F0"),
             ("ranks 1\nmicro_batches 1\nrank 0: F0 X0\n", ":4: unknown word 'X0'")]
    file = os.path.join(folder, "wrong.sched")
    for text, words in cases:
        with open(file, "w", encoding="utf-8") as out:
            out.write("psisim-schedule 1\n" + text)
        for command in (["schedule", "check", file], ["run", "--model", "uniform", "--schedule", file]):
            done = psisim(*command)
            if done.stdout or words not in done.stderr or done.stderr.count("\n") != 1:
                yield f"{command[0]}: no '{words}' in {done.stderr!r}, stdout {done.stdout!r}"
            if done.returncode == 0 or (command[0] == "schedule" and done.returncode != 1):
                yield f"{command[0]}: exit {done.returncode}"


def late(folder):
    """Words that look back further than a step are followed, but not lists that begin far ahead of themselves."""
    file = os.path.join(folder, "late.sched")
    head = "psisim-schedule 1\nranks 2\nmicro_batches 1\n"
    with open(file, "w", encoding="utf-8") as out:
        out.write(head + "rank 0: F0@-2 F1@-2 F2@-2\nrank 1: F0 B0 U F1\nrepeat\n"
                  "rank 0: B0@-2 U F3@-2\nrank 1: B1 U F2\n")
    plan = json.loads(psisim("run", "--json", *UNIFORM, "--schedule", file).stdout)["plans"][0]
    if plan["update"] != {"rule": "asynchronous", "delay_mean": 1, "delay_p90": 2, "delay_max": 2, "parameter_versions": 3}:
        yield f"update {plan['update']}"
    if abs(plan["step_time_s"] - 8e-3) > 1e-12:
        yield f"step {plan['step_time_s']}"
    ahead = " ".join(f"F{n}@-255" for n in range(200))
    with open(file, "w", encoding="utf-8") as out:
        out.write(head + f"rank 0: {ahead}\nrank 1: F0 B0 U\nrepeat\nrank 0: B0@-255 U F200@-255\nrank 1: F1 B1 U\n")
    done = psisim("run", *UNIFORM, "--schedule", file)
    if done.returncode == 0 or "lists that begin 200 steps ahead can be checked and trained" not in done.stderr:
        yield f"exit {done.returncode}: {done.stderr.strip()}"


def written_keys(folder):
    """A key that says something else than the file is an error; one that says the same is none."""
    file = os.path.join(folder, "four.sched")
    with open(file, "w", encoding="utf-8") as out:
        out.write(psisim("schedule", "show", "--plan", "1f1b", "--stages", "4", "--micro-batches", "6").stdout)
    for words in ("--pp 4", "--stages 4", "--vpp 1", "--micro-batches 6", "--gpus 8", "--dp 2 --gpus 8"):
        done = psisim("run", "--model", "uniform", "--schedule", file, *words.split())
        if done.returncode != 0:
            yield f"{words}: {done.stderr.strip()}"
    for words in ("--pp 2", "--stages 5", "--vpp 2", "--micro-batches 4", "--gpus 6", "--update cyclic-v2"):
        done = psisim("run", "--model", "uniform", "--schedule", file, *words.split())
        if done.returncode == 0 or words.split()[0] not in done.stderr:
            yield f"{words}: exit {done.returncode}: {done.stderr.strip()}"


def tests():
    with tempfile.TemporaryDirectory() as folder:
        for plan, beside in PLANS:
            yield f"round trip of {plan}", round_trip(folder, plan, beside)
        yield "what is not sound is refused", refused(folder)
        yield "late", late(folder)
        yield "written keys", written_keys(folder)


tap.run(tests())
