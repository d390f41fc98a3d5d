#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same scenario gives the same bytes, whoever compiled the program and however often it runs.

usage: same-run.py SCENARIO-DIR PROGRAM [PROGRAM ...]

Each PROGRAM (builds by other compilers, at other optimisation levels) runs `compare NAME.scn --json` three times; all
the reports must be one. The first PROGRAM also runs without its two short cuts (equal ranks as one, jumps over repeated
steps): the digests of the plans must not change. Plans of many GPUs keep the first: one by one they take minutes.
"""

import json
import os
import subprocess
import sys

import tap

RUNS = 3
LONG_WAYS = (["--collapse", "no"], ["--jump", "no"])
MOST_GPUS = 128  # for --collapse no


def report(program, folder, name, flags=()):
    done = subprocess.run([program, "compare", name + ".scn", "--json", "--quiet", *flags], cwd=folder,
                          env=dict(os.environ, LC_ALL="C"), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr}"


def digests(text):
    try:
        return {plan["name"]: plan["digest"] for plan in json.loads(text)["plans"]}
    except (ValueError, KeyError, TypeError):
        return text.strip()


def complain(folder, name, programs):
    first = report(programs[0], folder, name)
    if not isinstance(digests(first), dict):
        yield f"{programs[0]}: {digests(first)}"
        return
    for program in programs:
        for run in range(RUNS):
            text = report(program, folder, name)
            if text != first:
                yield f"{program}, run {run + 1}: not the report of {programs[0]}: {digests(text)} for {digests(first)}"
    many = max(plan["gpus"] for plan in json.loads(first)["plans"]) > MOST_GPUS
    for flags in LONG_WAYS[1:] if many else LONG_WAYS:
        long_way = digests(report(programs[0], folder, name, flags))
        if long_way != digests(first):
            yield f"{' '.join(flags)}: {long_way} for {digests(first)}"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder = os.path.abspath(sys.argv[1])
    programs = [os.path.abspath(program) for program in sys.argv[2:]]
    names = sorted(name[:-4] for name in os.listdir(folder) if name.endswith(".scn"))
    tap.run((name, complain(folder, name, programs)) for name in names)


main()
