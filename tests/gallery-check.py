#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""GALLERY.md and README.md show what is there: scenarios, goldens, small pictures without anything from outside.

usage: gallery-check.py SOURCE-DIR
"""

import os
import re
import sys

import tap

ROOT = sys.argv[1]
LIMIT_BYTES = 150_000


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def links(name):
    for target in re.findall(r"\]\(([^)#:]+)\)", read(name)):
        if not os.path.exists(os.path.join(ROOT, target)):
            yield f"{name} names {target}, which is not there"


def scenarios():
    text = read("GALLERY.md")
    for name in sorted(os.listdir(os.path.join(ROOT, "scenarios"))):
        stem, suffix = os.path.splitext(name)
        if suffix == ".scn" and stem.startswith("gallery-"):
            if f"(scenarios/{name})" not in text:
                yield f"{name} is not in GALLERY.md"
            if not os.path.exists(os.path.join(ROOT, "scenarios", f"{stem}.golden")):
                yield f"{name} has no golden file"


def pictures():
    shown = read("GALLERY.md") + read("README.md")
    for name in sorted(os.listdir(os.path.join(ROOT, "plots", "gallery"))):
        path = f"plots/gallery/{name}"
        text = read(path)
        scenario = name.split("--")[0]
        if path not in shown:
            yield f"{name} is shown nowhere"
        if not os.path.exists(os.path.join(ROOT, "scenarios", f"{scenario}.scn")):
            yield f"{name} has no scenario"
        if not 1000 < len(text) < LIMIT_BYTES:
            yield f"{name} has {len(text)} bytes"
        if "<script" in text or re.search(r'href\s*=\s*["\'](?!#)', text):
            yield f"{name} refers to something outside"


tap.run([("gallery-links", links("GALLERY.md")), ("readme-links", links("README.md")), ("scenarios", scenarios()), ("pictures", pictures())])
