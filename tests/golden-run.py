#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every scenario gives the numbers that were agreed on: SCENARIO-DIR/NAME.golden, byte for byte.

usage: golden-run.py [--renew] PROGRAM SCENARIO-DIR [NAME ...]

A golden file is the report of `psisim compare NAME.scn` as a table: one row per number of the report, one column per
plan, four significant digits, `-` where something does not apply, `.` where a plan has no such row. Prose, digests
and what only an option asks for are left out. Machines come from tests/frozen where it has them, so that better presets do not change golden files.
--renew writes the golden files instead of comparing them; read the diff before committing it.
"""

import difflib
import json
import os
import subprocess
import sys

import tap

FROZEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frozen")
LEFT_OUT = {"name", "assumptions", "digest", "critical_path", "what_helps"}


def flatten(value, path, rows):
    """Append ("memory.ranks[0].peak_bytes", "1.5e+09") for every number and word below `value`."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in LEFT_OUT:
                flatten(item, f"{path}.{key}" if path else key, rows)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            flatten(item, f"{path}[{index}]", rows)
    elif value is None:
        rows.append((path, "-"))
    elif isinstance(value, bool):
        rows.append((path, "yes" if value else "no"))
    elif isinstance(value, (int, float)):
        rows.append((path, f"{value:.4g}"))
    else:
        rows.append((path, str(value)))


def table(report):
    columns = []
    order = []
    for plan in report["plans"]:
        rows = []
        flatten(plan, "", rows)
        columns.append(dict(rows))
        # Keep the order of the report; a row that only this plan has goes behind the row before it.
        at = 0
        for key, _ in rows:
            if key in order:
                at = order.index(key) + 1
            else:
                order.insert(at, key)
                at += 1
    lines = ["\t".join(["plan"] + [plan["name"] for plan in report["plans"]])]
    lines += ["\t".join([key] + [column.get(key, ".") for column in columns]) for key in order]
    return "".join(line + "\n" for line in lines)


def run(program, folder, name):
    done = subprocess.run([program, "compare", name + ".scn", "--json", "--quiet"], cwd=folder, env=dict(os.environ, LC_ALL="C", PSISIM_DATA=FROZEN),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        return None, [f"exit {done.returncode}"] + done.stderr.splitlines()
    try:
        return table(json.loads(done.stdout)), []
    except (ValueError, KeyError, TypeError) as problem:
        return None, [f"not a report: {problem!r}"]


def compare(text, path):
    if not os.path.exists(path):
        yield f"there is no {os.path.basename(path)} yet: write it with --renew"
        return
    with open(path, encoding="utf-8") as file:
        golden = file.read()
    yield from difflib.unified_diff(golden.splitlines(), text.splitlines(), "golden", "now", lineterm="", n=0)


def complain(program, folder, name, renew):
    golden = os.path.join(folder, name + ".golden")
    if not os.path.exists(os.path.join(folder, name + ".scn")):
        if renew:
            os.remove(golden)
        else:
            yield f"{name}.golden has no scenario"
        return
    text, complaints = run(program, folder, name)
    if text is None:
        yield from complaints
    elif renew:
        with open(golden, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        yield from compare(text, golden)


def main():
    words = [word for word in sys.argv[1:] if word != "--renew"]
    renew = "--renew" in sys.argv[1:]
    if len(words) < 2:
        sys.exit(__doc__)
    program, folder = os.path.abspath(words[0]), os.path.abspath(words[1])
    found = {os.path.splitext(name)[0] for name in os.listdir(folder) if name.endswith((".scn", ".golden"))}
    tap.run((name, complain(program, folder, name, renew)) for name in words[2:] or sorted(found))


main()
