#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train for real and compare with the prediction: psisim calibrate --verify. TAP on stdout.

usage: verify-run.py PSISIM

CPU time is compared, since tests share their machine; psisim itself tries three times. A wrong model fails: memory is
counted to the byte on both sides, and the parameters must be those of one process, bit for bit.
"""
import json
import os
import subprocess
import sys
import tempfile

import tap

BLOCKS, WIDTH, ROWS = 6, 512, 64
PARAMETERS = BLOCKS * 2 * WIDTH * WIDTH * 4  # bytes
KEPT = 2 * ROWS * WIDTH * 4  # of a block and micro-batch
PLANS = ("dp", "gpipe", "1f1b", "cdp-single")


def tensors(plan):
    """Parameters, gradients, momentum, and what the busiest process keeps, by hand; boundary tensors come on top."""
    return {"dp": 3 * PARAMETERS + BLOCKS * KEPT,
            "gpipe": 3 * PARAMETERS / 2 + 4 * BLOCKS / 2 * KEPT,
            "1f1b": 3 * PARAMETERS / 2 + 2 * BLOCKS / 2 * KEPT,
            "cdp-single": 3.5 * PARAMETERS + BLOCKS * KEPT}[plan]


def agrees(row):
    for key in ("predicted_bytes", "measured_bytes"):
        if not 0 <= row[key] - tensors(row["plan"]) <= 5 * KEPT:
            yield f"{key} is {row[key]}, by hand {tensors(row['plan']):.0f}"
    memory = row["predicted_bytes"] / row["measured_bytes"] - 1
    if abs(memory) > 0.03:
        yield f"memory is {memory:+.1%} off"
    cpu = row["predicted_cpu_s"] / row["measured_cpu_s"] - 1
    if abs(cpu) > 0.2:
        yield f"CPU time is {cpu:+.1%} off"
    if len(row["parameters_sha"]) != 64 or row["parameters_sha"] != row["reference_sha"]:
        yield f"parameters {row['parameters_sha']}, on one process {row['reference_sha']}"


def orders(rows):
    """What no calibration can hide: more work takes more time, a pipeline keeps less with 1f1b."""
    by = {row["plan"]: row for row in rows}
    for key in ("predicted_cpu_s", "measured_cpu_s"):
        if not by["gpipe"][key] > 1.2 * by["dp"][key]:
            yield f"{key}: gpipe, twice the products, {by['gpipe'][key]} against {by['dp'][key]} of dp"
    for key in ("predicted_bytes", "measured_bytes"):
        if not by["1f1b"][key] < by["gpipe"][key] < by["dp"][key] < by["cdp-single"][key]:
            yield f"{key} are not in order"
    if by["gpipe"]["parameters_sha"] != by["1f1b"]["parameters_sha"]:
        yield "gpipe and 1f1b train different parameters"
    if by["cdp-single"]["parameters_sha"] == by["dp"]["parameters_sha"]:
        yield "a delay changes nothing"


def ends(done):
    if done.returncode != 0:
        yield f"exit {done.returncode}: {done.stderr}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    psisim = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="psisim-verify-") as folder:
        done = subprocess.run([psisim, "calibrate", "--verify", "--budget", "8", "--json"], cwd=folder, text=True,
                              capture_output=True, check=False, timeout=280)
        left = os.listdir(folder)
    rows = json.loads(done.stdout)["verify"] if done.stdout else []
    if not rows and "was not built" in done.stderr:
        print("1..0 # SKIP train-host was not built")
        return
    tests = [("ends", ends(done)),
             ("plans", [] if tuple(row["plan"] for row in rows) == PLANS else [f"plans {rows}"]),
             ("nothing-left", [f"{name} is left" for name in left])]
    tests += [(row["plan"], agrees(row)) for row in rows]
    if len(rows) == len(PLANS):
        tests.append(("order", orders(rows)))
    tap.run(tests)


if __name__ == "__main__":
    main()
