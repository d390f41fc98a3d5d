#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Timelines and memory snapshots as their readers take them: Python's json and pickle.

usage: timeline-file.py PSISIM
"""

import collections
import json
import os
import pickle
import pickletools
import subprocess
import sys
import tempfile

import tap

PSISIM = os.path.abspath(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory(prefix="psisim-timeline-")
UNIFORM = "--model uniform --machine ideal"
LLAMA = "--model llama-2-7b --machine a100 --micro-batch 1"
CASES = {
    "pipeline": f"{UNIFORM} --plan 1f1b --pp 4 --micro-batches 8",
    "interleaved": f"{UNIFORM} --plan interleaved --pp 2 --micro-batches 4",
    "cyclic": f"{UNIFORM} --plan cdp-v2 --workers 4 --stages 4",
    "shared": f"{UNIFORM} --plan cdp+mp --workers 3 --stages 3",
    "one-gpu": f"{UNIFORM} --plan cdp-single --workers 3 --stages 3",
    "stages": f"{UNIFORM} --plan cdp+pp --workers 3 --stages 3",
    "stages-pipedream": f"{UNIFORM} --plan pipedream --stages 4",
    "async": f"{UNIFORM} --plan async --workers 4 --stages 4",
    "async-slow": f"{UNIFORM} --plan async --workers 4 --stages 4 --slow-rank 2:1.5",
    "async-links": "--model gpt2 --machine a100-pcie-80 --plan async --gpus 4 --micro-batch 8",
    "zero": f"{LLAMA} --plan zero-3 --gpus 8",
    "critical": f"{LLAMA} --gpus 8 --pp 4 --micro-batches 8 --critical-path",
    "three": f"{LLAMA} --gpus 16 --dp 2 --tp 2 --pp 4 --micro-batches 4 --timeline-ranks 0-15",
}


def psisim(arguments):
    done = subprocess.run([PSISIM, *arguments.split()], cwd=FOLDER.name, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, LC_ALL="C"))
    return done.returncode, done.stdout, done.stderr


def report(arguments):
    status, out, err = psisim(f"run {arguments} --json --quiet")
    if status != 0:
        raise RuntimeError(err)
    return json.loads(out)["plans"][0]


def events_of(name):
    with open(os.path.join(FOLDER.name, name), encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def timeline(name, arguments):
    plan = report(f"{arguments} --timeline {name}.json")
    events = events_of(f"{name}.json")
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    slices = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event))
    window = max(end for track in slices.values() for _, end, _ in track)

    for track, spans in slices.items():
        if track not in tracks:
            yield f"track {track} has no name"
        spans.sort(key=lambda span: span[:2])
        for before, after in zip(spans, spans[1:]):
            if after[0] < before[1] - 1e-6:
                yield f"{names[track[0]]}: '{after[2]['name']}' begins in '{before[2]['name']}'"
    ends = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            ends[event["id"]].append(event)
            inside = [span for span in slices[event["pid"], event["tid"]] if span[0] <= event["ts"] < span[1]]
            if not inside:
                yield f"arrow {event['id']} is bound to nothing at {event['ts']}"
    for pair in ends.values():
        if [event["ph"] for event in pair] != ["s", "f"] or pair[0]["ts"] > pair[1]["ts"]:
            yield f"an arrow is no pair: {pair}"
    if ("pipeline" in name or "stages" in name) and not ends:
        yield "no arrows"

    # The busy time of the compute track over a step is what the report says.
    step_us = plan["step_time_s"] * 1e6
    if window < step_us * (1 - 1e-6):
        yield f"the window of {window} us is less than a step of {step_us} us"
    # The critical path has no gap.
    path = slices[1, 2]
    if ("critical" in name) != bool(path):
        yield f"the critical path has {len(path)} slices"
    if path and abs(sum(end - start for start, end, _ in path) - window) > 1e-3:
        yield f"the critical path does not fill the window of {window} us"
    counters = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            counters[event["pid"]].append(sum(event["args"].values()))
    peak = max(max(values) for values in counters.values())
    if peak != plan["memory"]["peak_bytes"]:
        yield f"the counters' peak is {peak} bytes, the report's {plan['memory']['peak_bytes']}"
    if set(counters) != set(names) - {1}:
        yield "some ranks have no memory"


def busy():
    """One step of 1F1B: every rank is busy m (F + B) of it, whatever the window begins with."""
    plan = report(f"{CASES['pipeline']} --timeline busy.json")
    step_us = plan["step_time_s"] * 1e6
    sums = collections.Counter()
    for event in events_of("busy.json"):
        if event["ph"] == "X" and event["pid"] > 1 and event["tid"] == 1:
            sums[event["pid"]] += max(min(event["ts"] + event["dur"], step_us) - event["ts"], 0)
    if sorted(sums.values()) != [24000.0] * 4:
        yield f"busy for {dict(sums)} us instead of 24000"
    names = [event["name"] for event in events_of("busy.json") if event["ph"] == "X" and event["pid"] == 2]
    if names[:6] != ["F0 stage 0", "F1 stage 0", "F2 stage 0", "F3 stage 0", "B0 stage 0", "F4 stage 0"]:
        yield f"rank 0 begins with {names[:6]}"


def late():
    """Ops of PipeDream name micro-batch and stage; asynchronous workers push, take their turn and pull, at their own pace."""
    report(f"{UNIFORM} --plan pipedream --stages 3 --micro-batches 2 --timeline late.json")
    names = {event["name"] for event in events_of("late.json") if event["ph"] == "X" and event["pid"] == 3}
    if not {"F0 stage 1", "F1 stage 1", "B0 stage 1", "B1 stage 1"} <= names:
        yield f"rank 1 of a pipedream plan does {names}"
    report(f"{CASES['async-links']} --timeline late.json")
    events = events_of("late.json")
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 3}
    if not {"compute", "gradients", "turn at the server", "parameters"} <= tracks:
        yield f"rank 1 of an async plan has {tracks}"
    plan = report(f"{CASES['async-slow']} --timeline late.json")
    sums = collections.Counter()
    events = [event for event in events_of("late.json") if event["ph"] == "X"]
    window = max(event["ts"] + event["dur"] for event in events)
    for event in events:
        if event["pid"] > 1 and event["tid"] == 1:
            sums[event["pid"]] += event["dur"]
            if event["pid"] == 4 and abs(event["dur"] / 1500 - round(event["dur"] / 1500)) > 1e-6 and event["ts"] > 0:
                yield f"rank 2 is not slower: {event}"
    if [round(sums[pid], 3) for pid in (2, 3, 4, 5)] != [round(window, 3)] * 4:
        yield f"busy for {dict(sums)} us of {window}"
    if plan["update"]["delay_mean"] != 3:
        yield f"delay {plan['update']}"


def several():
    status, _, err = psisim(f"compare {UNIFORM} --plans dp,cdp-v2 --workers 2 --timeline both.json")
    files = sorted(name for name in os.listdir(FOLDER.name) if name.startswith("both"))
    if status != 0 or files != ["both-cdp-v2.json", "both-dp.json"]:
        yield f"status {status}, files {files}: {err}"


def refused():
    for arguments, words, status in [
        (f"run {UNIFORM} --plan dp --workers 4 --timeline r.json --timeline-ranks 3-4", "there is no rank '4' (the plan has 4, from 0)", 2),
        (f"run {UNIFORM} --plan dp --timeline no/r.json", "cannot write 'no/r.json'", 1),
        (f"run {UNIFORM} --plan dp --timeline no/r.pickle", "cannot write 'no/r.pickle'", 1),
    ]:
        got, out, err = psisim(arguments)
        if got != status or words not in err or out or err.count("\n") != 1:
            yield f"{arguments}: status {got}, stdout {out!r}, stderr {err!r}"
    if os.path.exists(os.path.join(FOLDER.name, "r.json")):
        yield "a refused timeline was written"


def snapshot(name, arguments):
    """The sum of live blocks follows the simulated level: the same peak, the same bytes before and after the step."""
    plan = report(f"{arguments} --timeline {name}.pickle")
    with open(os.path.join(FOLDER.name, f"{name}.pickle"), "rb") as file:
        text = file.read()
    data = pickle.loads(text)
    # memory_viz reads only these, and no batch of tens of thousands.
    known = {"PROTO", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "SETITEMS", "APPENDS", "BINUNICODE", "BININT", "LONG1"}
    used = {opcode.name for opcode, _, _ in pickletools.genops(text)}
    if not used <= known:
        yield f"opcodes {used - known}"
    if len(data["segments"]) != len(data["device_traces"]):
        yield "segments and traces are not of the same devices"
    peaks = []
    for number, trace in enumerate(data["device_traces"]):
        segment = data["segments"][number]
        if segment["device"] != number or sum(block["size"] for block in segment["blocks"]) != segment["total_size"]:
            yield f"the blocks of device {number} do not fill its segment"
        after = {}
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                after[block["address"]] = block["size"]
        live = {}
        initial = 0
        net = peak = 0
        if "unknown" not in {event["category"] for event in trace}:
            yield "memory_viz cannot read categories without 'unknown'"
        for event in trace:
            address, size = event["addr"], event["size"]
            if event["action"] in ("snapshot", "free_requested"):
                continue
            if event["action"] == "alloc":
                if any(address < other + bytes and other < address + size for other, bytes in live.items()):
                    yield f"two blocks lie at {address}"
                live[address] = size
                net += size
            else:
                if address in live:
                    if live.pop(address) != size:
                        yield f"a block at {address} changed its size"
                else:
                    initial += size
                net -= size
            peak = max(peak, net)
        if net != 0:
            yield f"{net} bytes are left over after a step"
        if sum(after.values()) != segment["allocated_size"]:
            yield "the segment's sizes differ"
        peaks.append(segment["allocated_size"] + peak)
    if max(peaks) != plan["memory"]["peak_bytes"]:
        yield f"the largest sum of blocks is {max(peaks)}, the report's peak {plan['memory']['peak_bytes']}"


def tests():
    for name, arguments in CASES.items():
        yield name, timeline(name, arguments)
    yield "busy", busy()
    yield "late", late()
    yield "several", several()
    yield "refused", refused()
    for name, arguments in CASES.items():
        yield f"snapshot-{name}", snapshot(name, arguments)


tap.run(tests())
