# SPDX-License-Identifier: MIT
"""psisim train and converge, whole: the schedules that the simulator prints train, on real tensors, what their update rule
says, whatever the plan. Usage: test-train-cli.py PSISIM. Skips (77) where the training program is not built."""

import json
import subprocess
import sys

import tap

PSISIM = sys.argv[1]
STEPS = "6"


def psisim(*words, **options):
    return subprocess.run([PSISIM, *words], capture_output=True, text=True, timeout=120, **options)


def train(*words):
    """The object that `train --json` prints, for a small model on the cores."""
    done = psisim("train", "--backend", "host", "--json", "--steps", STEPS, "--hidden", "24", "--layers", "8",
                  "--micro-batch", "4", *words)
    if done.returncode != 0:
        raise RuntimeError(f"train {' '.join(words)}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def same_parameters(plans, *words):
    """All plans end with the same bits; the first is what the others are held against."""
    hashes = {}
    for plan in plans:
        try:
            hashes[plan] = train("--plan", plan, *words)["final"]["final"]
        except RuntimeError as fault:
            yield str(fault)
    for plan, value in hashes.items():
        if value != hashes.get(plans[0]):
            yield f"{plan} ends with {value}, {plans[0]} with {hashes.get(plans[0])}"


def synchronous():
    yield from same_parameters(["accumulate", "dp", "mp", "gpipe", "1f1b", "interleaved", "zero-1", "zero-2",
                                "zero-3", "parameter-server"])
    # `single` goes back from the last micro-batch to the first, so its sums round otherwise.
    single, accumulate = (train("--plan", plan)["final"]["loss"] for plan in ("single", "accumulate"))
    if abs(single / accumulate - 1) > 1e-5:
        yield f"loss of single {single}, of accumulate {accumulate}"


def cyclic():
    yield from same_parameters(["cdp-single", "cdp-v2", "cdp+pp", "cdp-zero"], "--stages", "3", "--workers", "3")
    # Fewer workers than stages: those of one GPU for each stage begin in slots, with the versions of evenly spread ones.
    yield from same_parameters(["cdp-single", "cdp-v2", "cdp+pp", "cdp-zero"], "--stages", "3", "--workers", "2")
    # GPUs that workers share add up their own micro-batches first, so the sums round otherwise.
    shared, single = (train("--plan", plan, "--stages", "3", "--workers", "3")["final"]["loss"]
                      for plan in ("cdp+mp", "cdp-single"))
    if abs(shared / single - 1) > 1e-5:
        yield f"loss of cdp+mp {shared}, of cdp-single {single}"
    rules = {plan: train("--plan", plan)["final"]["final"] for plan in ("dp", "cdp-v1", "cdp-v2")}
    if len(set(rules.values())) != 3:
        yield f"three rules, not three results: {rules}"
    # PipeDream with an update after each K micro-batches is the cyclic pipeline.
    stash = train("--plan", "pipedream", "--stages", "3", "--micro-batches", "3")["final"]["final"]
    if stash != train("--plan", "cdp+pp", "--stages", "3", "--workers", "3")["final"]["final"]:
        yield "pipedream with 3 micro-batches to an update is not cdp+pp"


def schedule_file():
    """show -> train is the same as train of the plan."""
    shown = psisim("schedule", "show", "--model", "uniform", "--plan", "1f1b").stdout
    done = psisim("train", "/dev/stdin", "--backend", "host", "--json", "--steps", STEPS, "--hidden", "24", "--layers", "8",
                  "--micro-batch", "4", input=shown)
    if done.returncode != 0:
        yield f"exit {done.returncode}: {done.stderr.strip()}"
    elif json.loads(done.stdout)["final"]["final"] != train("--plan", "1f1b")["final"]["final"]:
        yield "the file trains something else than the plan"


def memory():
    """A pipeline's first rank keeps K micro-batches with 1F1B, all of them with GPipe."""
    flags = ("--stages", "4", "--micro-batches", "8")
    one = {plan: [rank["activations_peak_bytes"] for rank in train("--plan", plan, *flags)["ranks"]]
           for plan in ("1f1b", "gpipe")}
    unit = one["1f1b"][3]
    if one["1f1b"] != [4 * unit, 3 * unit, 2 * unit, unit] or one["gpipe"] != [8 * unit] * 4:
        yield f"activations at the peak: {one}"


def faults():
    for words, status, text in [
        (["train", "--plan", "tp", "--backend", "host"], 1, "tp is not run for real, only simulated"),
        (["train", "--offload", "activations", "--backend", "host"], 1, "offload is not run for real, only simulated"),
        (["train", "--cuda-graphs", "step", "--backend", "host"], 1, "cuda_graphs is not run for real, only simulated"),
        (["train", "--plan", "async", "--backend", "host"], 1, "a race between workers is not run for real, only simulated"),
        (["schedule", "show", "--plan", "async"], 1, "plan 'async' has no order that could be shown"),
        (["train", "--backend", "tpu"], 2, "--backend: unknown 'tpu'"),
        (["train", "--plan", "dp", "--steps", "many", "--backend", "host"], 1, "--steps: 'many' is not a whole number"),
        (["converge", "--tp", "2"], 2, "--tp does not count in 'converge'"),
        (["converge", "--steps", "3"], 2, "--steps: '3' is not a whole number from 10"),
        (["converge", "--stages", "9"], 1, "--blocks: '8' is fewer than the 9 parts"),
    ]:
        done = psisim(*words)
        if done.returncode != status or text not in done.stderr or done.stdout or done.stderr.count("\n") != 1:
            yield f"{' '.join(words)}: exit {done.returncode}, stdout '{done.stdout}', stderr '{done.stderr}'"


def converge():
    done = psisim("converge", "--json", "--steps", "60", "--workers", "4", "--stages", "4", "--lr", "0.01")
    if done.returncode != 0:
        yield f"exit {done.returncode}: {done.stderr.strip()}"
        return
    rules = json.loads(done.stdout)["rules"]
    delays = {rule["rule"]: rule["mean_delay_steps"] for rule in rules}
    if delays != {"dp": 0, "cdp-v1": 1, "cdp-v2": 0.375, "random": 0.5}:
        yield f"delays: {delays}"
    for rule in rules:
        if len(rule["losses"]) != 60 or len(rule["final_losses"]) != 5:
            yield f"{rule['rule']}: {len(rule['losses'])} losses, {len(rule['final_losses'])} seeds"
        if not rule["final_loss"] < 0.8 * rule["losses"][0] or not rule["final_loss_spread"] > 0:
            yield f"{rule['rule']}: loss from {rule['losses'][0]} to {rule['final_loss']} +- {rule['final_loss_spread']}"
    if len({rule["final_loss"] for rule in rules}) != 4:
        yield "two rules end alike"


probe = psisim("train", "--plan", "dp", "--backend", "host", "--steps", "1", "--hidden", "8")
if "is not there" in probe.stderr:
    print("1..0 # SKIP the training program is not built")
    sys.exit(0)
tap.run([(f"/cli/train/{name}", check()) for name, check in [
    ("synchronous", synchronous), ("cyclic", cyclic), ("schedule-file", schedule_file), ("memory", memory),
    ("faults", faults), ("converge", converge)]])
