#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rules of the house that no compiler checks: who may use whom, names, lengths, licence lines, comments.

usage: layers-check.py SOURCE-DIR [REGISTERED-TEST ...]

Each rule is one TAP test; the lines that break it go to stderr. REGISTERED-TEST names every file of tests/
that tests/meson.build runs: a test that is written but never run is an error too.
"""

import os
import re
import sys

import tap

# Bottom to top: a folder may use itself and what stands above it in this list.
LAYERS = ["engine", "traces", "hwmodel", "sim/settings", "sim/workload", "sim/plan", "sim", "sim/cli"]
LINES_MAX = 600
SCHEDULE_LINES_MAX = 150
READERS = {f"sim/plan/schedule-{name}.c" for name in ("check", "parse", "text")}  # of schedule files; no schedules
CODE = (".c", ".h", ".cu", ".cuh")
LICENSED = CODE + (".py", ".sh", ".gp", "meson.build", "meson_options.txt", "bootstrap", ".ci/run")
NO_MARKS = CODE + (".py", ".sh", ".gp", ".md", "meson.build", "meson_options.txt", "bootstrap", ".ci/run")
SHARED_NAMES = {"meson.build", "README.md", ".gitignore"}
MARKS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
BROKEN_LIST = re.compile(r"^ \*  +\S[^\n]*\n \* (?=[a-z])", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.M)
LITERAL_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)


def source_files(top):
    """Every file of the tree, as a path from its top; build directories (build*, _*) and hidden ones but .ci left out."""
    paths = []
    for folder, folders, names in os.walk(top):
        at_top = folder == top
        folders[:] = [f for f in folders
                      if (not f.startswith(".") or f == ".ci") and f != "__pycache__"
                      and not (at_top and (f.startswith("build") or f.startswith("_")))]
        paths += [os.path.relpath(os.path.join(folder, name), top) for name in names]
    return sorted(paths)


def layer_of(path):
    folder = os.path.dirname(path)
    while folder:
        if folder in LAYERS or folder in ("kernels", "tests"):
            return folder
        folder = os.path.dirname(folder)
    return None


def line_at(text, offset):
    return text.count("\n", 0, offset) + 1


def check_directions(texts):
    owner = {}
    for path in texts:
        if path.endswith((".h", ".cuh")):
            owner[os.path.basename(path)] = layer_of(path)
    for path, text in texts.items():
        layer = layer_of(path)
        if not path.endswith(CODE) or layer in (None, "tests"):
            continue
        for match in INCLUDE.finditer(text):
            name = match.group(1)
            where = f"{path}:{line_at(text, match.start())}: "
            used = owner.get(os.path.basename(name))
            if layer == "kernels":
                if used not in (None, "kernels") or name.startswith(("glib", "gio", "json-glib")):
                    yield where + f"kernels stand alone and may not use '{name}'"
            elif used in ("kernels", "tests"):
                yield where + f"{layer} may not use '{name}' of {used}"
            elif used is not None and LAYERS.index(used) > LAYERS.index(layer):
                yield where + f"{layer} may not use '{name}' of {used}, which stands above it"
            if used is not None and "/" in name:
                yield where + f"'{name}' is included with its folder: write '{os.path.basename(name)}'"


def check_circles(texts):
    """Files of the engine, X.c and X.h as one, include one way: nobody what includes it, however far round."""
    uses = {}
    for path, text in texts.items():
        if layer_of(path) == "engine" and path.endswith(CODE):
            unit = uses.setdefault(unit_of(path), set())
            unit.update(unit_of(name) for name in INCLUDE.findall(text) if f"engine/{name}" in texts)
            unit.discard(unit_of(path))
    while uses:
        lowest = [unit for unit in uses if not uses[unit] & uses.keys()]
        if not lowest:
            yield f"engine: these include each other in a circle: {', '.join(sorted(uses))}"
            return
        for unit in lowest:
            del uses[unit]


def unit_of(path):
    return os.path.splitext(os.path.basename(path))[0].removesuffix("-private")


def check_names(texts):
    seen = {}
    for path in texts:
        name = os.path.basename(path)
        if path.startswith("tests/frozen/"):
            continue  # copies on purpose
        if name not in SHARED_NAMES and name in seen:
            yield f"{path}: the same file name as {seen[name]}"
        seen.setdefault(name, path)


def check_lengths(texts):
    for path, text in texts.items():
        lines = text.count("\n")
        if path.endswith(CODE) and lines > LINES_MAX:
            yield f"{path}: {lines} lines, at most {LINES_MAX} are allowed"


def check_schedules(texts):
    for path, text in texts.items():
        lines = text.count("\n")
        if (re.fullmatch(r"sim/plan/schedule-[^/]*\.c", path) and path not in READERS
                and lines > SCHEDULE_LINES_MAX):
            yield f"{path}: {lines} lines, a schedule has at most {SCHEDULE_LINES_MAX}"


def check_licences(texts):
    for path, text in texts.items():
        if path.endswith(LICENSED) and not any("SPDX-License-Identifier: MIT" in line for line in text.split("\n")[:2]):
            yield f"{path}:1: no line 'SPDX-License-Identifier: MIT'"


def check_comments(texts):
    for path, text in texts.items():
        if not path.endswith(CODE):
            continue
        for match in LITERAL_OR_COMMENT.finditer(text):
            if match.group().startswith("//"):
                yield f"{path}:{line_at(text, match.start())}: a // comment: write /* */"


def check_lists(texts):
    """The formatter breaks a line of a list that is too long, and what it breaks off stands at the margin."""
    for path, text in texts.items():
        if path.endswith(CODE):
            for match in BROKEN_LIST.finditer(text):
                yield f"{path}:{line_at(text, match.end())}: the row of a list goes on at the margin"


def check_marks(texts):
    for path, text in texts.items():
        if path.endswith(NO_MARKS):
            for match in MARKS.finditer(text):
                yield f"{path}:{line_at(text, match.start())}: unfinished work: '{match.group()}'"


def check_registered(texts, registered):
    for path in texts:
        folder, name = os.path.split(path)
        if folder == "tests" and name.endswith((".c", ".py", ".sh")) and name not in registered:
            yield f"{path}: no row in tests/meson.build runs it"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    top = os.path.abspath(sys.argv[1])
    registered = set(sys.argv[2:])
    texts = {}
    for path in source_files(top):
        with open(os.path.join(top, path), encoding="utf-8", errors="replace") as file:
            texts[path] = file.read()
    tap.run([
        ("a folder uses only what stands below it", check_directions(texts)),
        ("the engine's files include one way", check_circles(texts)),
        ("file names are unique in the tree", check_names(texts)),
        ("no source file is too long", check_lengths(texts)),
        ("no schedule file is too long", check_schedules(texts)),
        ("every source file names its licence", check_licences(texts)),
        ("comments are /* */", check_comments(texts)),
        ("lists in comments keep their columns", check_lists(texts)),
        ("no marks of unfinished work", check_marks(texts)),
        ("every test is registered", check_registered(texts, registered)),
    ])


main()
