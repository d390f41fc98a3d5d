#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The closed forms as a user sees them: through the command line and --json, and in the scenarios that come along.

usage: closed-forms-json.py PSISIM SCENARIO-DIR
"""

import json
import os
import subprocess
import sys

import tap

PSISIM, SCENARIOS = (os.path.abspath(word) for word in sys.argv[1:3])


def psisim(*words):
    done = subprocess.run([PSISIM, *map(str, words)], env=dict(os.environ, LC_ALL="C"), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return json.loads(done.stdout)["plans"]


def run(plan, n, *words):
    return psisim("run", "--json", "--quiet", "--model", "uniform", "--plan", plan, "--workers", n, "--stages", n, *words)[0]


def differs(what, value, expected, digits=1e-12):
    if abs(value - expected) > digits * max(abs(value), abs(expected)):
        yield f"{what}: {value} for {expected}"


# GPUs, activations of all GPUs (psi_a), bytes sent (psi_p; boundaries apart), longest chain, mean delay
TABLE = {
    "single": lambda n: (1, n, 0, 0, 0),
    "cdp-single": lambda n: (1, n / 2 if n % 2 == 0 else n / 2 + 1 / (2 * n), 0, 0, (n - 1) / (2 * n)),
    "dp": lambda n: (n, n, 2 * (n - 1), 2 * (n - 1), 0),
    "cdp-v1": lambda n: (n, (n + 1) / 2, 2 * (n - 1), 1, 1),
    "cdp-v2": lambda n: (n, (n + 1) / 2, 2 * (n - 1), 1, (n - 1) / (2 * n)),
    "dp+mp": lambda n: (n * n, n, 2 * (n - 1), 2 * (n - 1), 0),
    "cdp+mp": lambda n: (n * (n + 1) / 2, (n + 1) / 2, n - 1, 1, (n - 1) / (2 * n)),
    "cdp+pp": lambda n: (n, (n + 1) / 2, 0, 1, (n - 1) / (2 * n)),
    "zero-3": lambda n: (n, n, 3 * (n - 1), n - 1, 0),
    "cdp-zero": lambda n: (n, (n + 1) / 2, 3 * (n - 1) + (n - 1) / n, 1, (n - 1) / (2 * n)),
}


def check_table(plan, n):
    gpus, activations, sent, steps, delay = TABLE[plan](n)
    unit = n * n * 5040
    report = run(plan, n, "--psi-p", unit, "--psi-a", unit, "--psi-int", 1000)
    kinds = report["communication"]["by_kind"]
    yield from differs("gpus", report["gpus"], gpus)
    yield from differs("activations", report["memory"]["activation_total_peak_bytes"], activations * unit)
    yield from differs("sent", kinds["gradients"] + kinds["parameters"], sent * unit)
    yield from differs("boundaries", kinds["boundary"], 2 * n * (n - 1) * 1000 if plan[-2:] in ("mp", "pp") else 0)
    yield from differs("steps", report["communication"]["sequential_steps"], steps)
    yield from differs("delay", report["update"]["delay_mean"], delay)
    yield from differs("time", sum(report["time"].values()), report["step_time_s"])
    for rank in report["memory"]["ranks"]:
        held = sum(rank[name + "_bytes"] for name in ("parameters", "gradients", "optimizer", "activations", "boundary",
                                                      "workspace", "communication"))
        yield from differs(f"rank {rank['rank']}", held, rank["peak_bytes"])


def check_pipeline():
    for p in (2, 4, 7):
        for m in (1, 3, 8):
            report = psisim("run", "--json", "--model", "uniform", "--plan", "1f1b", "--pp", p, "--micro-batches", m)[0]
            yield from differs("step", report["step_time_s"], (m + p - 1) * 3e-3)
            yield from differs("bubble", report["bubble_fraction"], (p - 1) / (m + p - 1))


def check_saving(name, low, high):
    """Activations of all GPUs together: how much less than data parallelism."""
    plans = {plan["name"]: plan for plan in psisim("compare", "--json", os.path.join(SCENARIOS, name + ".scn"))}
    peak = {plan: report["memory"]["activation_total_peak_bytes"] for plan, report in plans.items()}
    saving = 1 - peak["cdp-v2"] / peak["dp"]
    if not low <= saving <= high:
        yield f"saving {saving:.3f}, not from {low} to {high}"
    if plans["cdp-v2"]["memory"]["peak_bytes"] > plans["dp"]["memory"]["peak_bytes"]:
        yield "no GPU alone may need more"


def check_ten_gpus():
    plans = {plan["name"]: plan for plan in psisim("compare", "--json", os.path.join(SCENARIOS, "resnet50-ten-gpus.scn"))}
    step = {name: plan["step_time_s"] for name, plan in plans.items()}
    if not step["dp"] < step["parameter-server"] < step["accumulate"] < 1.5 * step["mp"] < 2 * step["accumulate"]:
        yield f"unexpected order: {step}"
    if not 0.8 <= plans["mp"]["bubble_fraction"] <= 0.95:
        yield f"ten GPUs in turn wait nine tenths of the time, not {plans['mp']['bubble_fraction']}"


def check_llama():
    plans = {plan["name"]: plan for plan in psisim("compare", "--json", os.path.join(SCENARIOS, "llama2-7b-8xa100.scn"))}
    steady = {name: plan["memory"]["steady_bytes"] for name, plan in plans.items()}
    parameters = 6738415616
    for name, each in (("dp", 16), ("zero-1", 2 + 2 + 12 / 8), ("zero-2", 2 + 14 / 8), ("zero-3", 16 / 8)):
        yield from differs(name, steady[name], each * parameters, 2e-3)
    if plans["dp"]["verdict"] != "oom" or not plans["dp"]["advice"]:
        yield "16 bytes a parameter do not fit on one GPU, and there is advice"


def main():
    tests = [(f"table {plan} {n}", check_table(plan, n)) for plan in TABLE for n in (2, 3, 4, 9)]
    tests += [("pipeline", check_pipeline()),
              ("resnet50-cdp", check_saving("resnet50-cdp", 0.25, 0.40)),
              ("vit-b16-cdp", check_saving("vit-b16-cdp", 0.40, 0.50)),
              ("resnet50-ten-gpus", check_ten_gpus()),
              ("llama2-7b-8xa100", check_llama())]
    tap.run(tests)


main()
