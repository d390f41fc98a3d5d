# SPDX-License-Identifier: MIT
"""Lessons: every strategy has one, its closed forms equal what is simulated, its grid is the published one, and its
commands run. Usage: test-explain.py PSISIM LESSONS-FOLDER"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tap

PSISIM, LESSONS = sys.argv[1:3]

# Cyclic data parallelism, N = 3, the first ten slots of Figure 1 of arXiv 2403.08837.
FIGURE_1 = {
    "stage 3": ".  .  b^ bv r^ rv y^ yv b^ bv",
    "stage 2": ".  b^ .  r^ bv y^ rv b^ yv r^",
    "stage 1": "b^ .  r^ .  y^ bv b^ rv r^ yv",
}


def psisim(*words):
    return subprocess.run([PSISIM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120)


def printed(*words):
    done = psisim(*words)
    if done.returncode != 0 or done.stderr:
        raise SystemExit(f"psisim {' '.join(words)}: status {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode()


PLANS = {row["name"]: row["summary"] for row in json.loads(printed("list", "plans", "--json"))["plans"]}
OWN = [name for name, summary in PLANS.items() if not summary.startswith("= ")]
PAGES = {name: printed("explain", name) for name in OWN}


def rows(page, label):
    """The cells of every grid line with that label."""
    return [line.split(label, 1)[1].split() for line in page.splitlines() if re.match(rf" *{label}  ", line)]


def table(page):
    """[measure, closed form, its value, simulated value, ...] for each line of the table."""
    lines = page.split("The numbers, closed form beside simulated\n")[1].split("\n\n")[0].splitlines()
    start = lines[0].index("closed form")
    for line in lines[2:]:
        cells = re.split(r"  +", line[start:])
        yield [line[:start].strip()] + (["", ""] + cells[1:] if cells[0] == "" else cells)


def value(cells):
    number, _, divisor = cells.partition("/")
    return float(number) / float(divisor or 1)


def check_pages():
    for name, page in PAGES.items():
        if not os.path.exists(os.path.join(LESSONS, name + ".lesson")):
            yield f"{name} has no lesson"
        for part in ("\nThe case: ", "\nActivations held", "\nThe numbers", "\nQuestion\n", "\nTry next\n"):
            if part not in page:
                yield f"{name}: no {part.strip()!r}"
        answer = printed("explain", name, "--answer")
        if "\nAnswer\n" in page or "\nAnswer\n" not in answer:
            yield f"{name}: the answer shows without --answer, or not with it"
        for line in answer.splitlines():
            if len(line) > 80 or not line.isascii() or line != line.rstrip():
                yield f"{name}: {line!r}"
        if "{" in answer or "}" in answer:
            yield f"{name}: a number was not put in"


def check_closed_forms():
    n_compared = 0
    for name, page in PAGES.items():
        for cells in table(page):
            if cells[1] == "":
                continue
            n_compared += 1
            if cells[2] != cells[3]:
                yield f"{name}: {cells[0]}: {cells[1]} = {cells[2]}, but simulated {cells[3]}"
    if n_compared < 150:
        yield f"only {n_compared} closed forms"


def check_figure():
    for name in ("cdp-v1", "cdp-v2", "cdp-zero", "cdp+mp"):
        for stage in (1, 2, 3):
            drawn = rows(PAGES[name], f"stage {stage}")[0]
            expected = ["."] * 22
            for step in range(3):
                for worker in range(3):
                    expected[6 * step + 2 * worker + stage - 1] = "bry"[worker] + "^"
                    expected[6 * step + 2 * worker + 6 - stage] = "bry"[worker] + "v"
            if drawn != expected or drawn[:10] != FIGURE_1[f"stage {stage}"].split():
                yield f"{name}: stage {stage}: {' '.join(drawn)}"
    if rows(PAGES["dp"], "stage 1")[0] != "bry^ . . . . bryv".split():
        yield f"dp: {rows(PAGES['dp'], 'stage 1')}"
    if rows(PAGES["gpipe"], "GPU 0")[0] != "0^ 1^ 2^ 3^ . . . . . . 0v 1v 2v 3v".split():
        yield f"gpipe: {rows(PAGES['gpipe'], 'GPU 0')}"
    if rows(PAGES["1f1b"], "GPU 3")[0] != ". . . 0^ 0v 1^ 1v 2^ 2v 3^ 3v . . .".split():
        yield f"1f1b: {rows(PAGES['1f1b'], 'GPU 3')}"
    if rows(PAGES["pipedream"], "GPU 3")[0][:9] != ". . . 0^ 0v 1^ 1v 2^ 2v".split():
        yield f"pipedream: {rows(PAGES['pipedream'], 'GPU 3')}"
    for name, legend in (("pipedream", True), ("dp", False)):
        if ("; numbers are micro-batches" in PAGES[name]) != legend:
            yield f"{name}: its legend"
    if rows(PAGES["single"], "activations")[0] != [str(min(k, 19 - k)) for k in range(1, 19)]:
        yield f"single: {rows(PAGES['single'], 'activations')}"


def shown_steps(name):
    with open(os.path.join(LESSONS, name + ".lesson"), encoding="utf-8") as text:
        found = re.search(r"^steps = (\d+)$", text.read(), re.M)
    return int(found.group(1)) if found else 1


def check_slots():
    """The lines below the grid against the table: largest sum of activations, bytes of one step."""
    for name, page in PAGES.items():
        simulated = {cells[0]: value(cells[3]) for cells in table(page)}
        stages = int(re.search(r"K = (\d+) stages", page).group(1))
        alive = sum(rows(page, "all GPUs") or rows(page, "activations"), [])
        most = max(map(int, alive))
        if abs(most / stages - simulated["all activations, Psi_A"]) > 1e-6:
            yield f"{name}: at most {most} stages of activations, but {simulated['all activations, Psi_A']} simulated"
        sent = page.split("\nSent by all GPUs")
        if len(sent) == 1:
            continue
        lines = sent[1].split("\n\nThe numbers")[0]
        steps = shown_steps(name) - 1 if "second step" in lines else 1
        updates = sum(sum(map(value, row)) for kind in ("gradients", "parameters") for row in rows(lines, kind))
        others = sum(sum(map(value, row)) for kind in ("boundary", "tensor") for row in rows(lines, kind))
        for measure, drawn in (("update traffic, Psi_P", updates / stages), ("boundary traffic, Psi_int", others)):
            if abs(drawn / steps - simulated.get(measure, 0)) > 1e-3:
                yield f"{name}: {measure}: {drawn / steps} in the slots, {simulated.get(measure, 0)} in the table"


def check_commands():
    for name, page in list(PAGES.items()) + [("contents", printed("explain"))]:
        commands = re.findall(r"^ +psisim (.*)$", page.split("\nTry next\n")[1].replace("\\\n", ""), re.M)
        if not commands:
            yield f"{name}: nothing to try"
        for command in commands:
            words = re.sub(r" --plot \S+", "", command).split()
            if words[0] in ("converge", "train"):
                continue
            done = psisim(*words)
            if done.returncode != 0 or not done.stdout:
                yield f"{name}: psisim {command}: {done.stderr.decode().strip()}"


def check_contents():
    page = printed("explain")
    named = re.findall(r"^  ([a-z0-9+-]+) +[a-zN]", page.split("\nWhat many believe")[0], re.M)
    for name in OWN:
        if named.count(name) != 1:
            yield f"the contents name {name} {named.count(name)} times"
    if "\nOthers\n" in page:
        yield "some strategy has no place in the contents"
    if named.index("dp") > named.index("cdp-v2") or named.index("mp") > named.index("gpipe"):
        yield f"order: {named}"
    for line in page.splitlines():
        if len(line) > 80 or not line.isascii():
            yield f"contents: {line!r}"
    for misconception in ("192 GB", "smaller bubble", "take turns", "halves the memory", "On one GPU"):
        if misconception not in page:
            yield f"the contents lack {misconception!r}"
    words = " ".join(PAGES["accumulate"].split())
    if "It needs 1 Psi_A, against 3 Psi_A for `single` and 5/3 Psi_A for `cdp-single`" not in words:
        yield "accumulate: the three single-GPU plans are not compared"


def check_names():
    for alias, name in (("ddp", "dp"), ("fsdp", "zero-3"), ("rpc-pipeline", "mp")):
        page = printed("explain", alias)
        if not page.startswith(f"{name} ({alias} is another name for it)\n"):
            yield f"{alias}: {page[:60]!r}"
    for words, part in ((["cpd-v2"], "unknown plan 'cpd-v2' (did you mean 'cdp-v2'?)"),
                        (["qqqqqqqq"], "unknown plan 'qqqqqqqq' (see 'psisim explain')"), ([""], "unknown plan ''"),
                        (["../models/gpt2"], "unknown plan '../models/gpt2'"), (["contents"], "unknown plan 'contents'")):
        done = psisim("explain", *words)
        if done.returncode != 2 or done.stdout or part not in done.stderr.decode():
            yield f"explain {words}: status {done.returncode}: {done.stderr.decode()}"


def check_plot():
    if shutil.which("gnuplot") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        printed("explain", "cdp-v2", "--plot", os.path.join(folder, "out"))
        files = os.listdir(os.path.join(folder, "out"))
        for wanted in ("activations.svg", "cdp-v2-timeline.png", "dp-timeline.svg"):
            if wanted not in files:
                yield f"no {wanted} among {sorted(files)}"
        # A title names the plan if it has a name.
        for words, title in ((["--plan", "gpipe"], "One step: uniform, plan gpipe"), (["--schedule", "gpipe"], "One step: uniform")):
            printed("run", "--model", "uniform", *words, "--pp", "2", "--plot", os.path.join(folder, words[1] + words[0]))
            name = "gpipe" if words[0] == "--plan" else "plan"
            with open(os.path.join(folder, words[1] + words[0], name + "-timeline.svg"), encoding="utf-8") as file:
                text = re.sub(r"<[^>]*>", "\n", file.read())
            if title not in text.split("\n"):
                yield f"{words}: no title '{title}'"


tap.run([
    ("pages", check_pages()), ("closed-forms", check_closed_forms()), ("figure", check_figure()), ("slots", check_slots()),
    ("commands", check_commands()), ("contents", check_contents()), ("names", check_names()), ("plot", check_plot()),
])
