#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measuring, fitting, and what comes out of it: bench-cuda on the GPU that is none (fake-gpu.c), whose times are known,
and bench-host on the cores of this machine.

usage: calibrate-run.py PSISIM BENCH-HOST [BENCH-FAKE]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import tap


def run(argv, folder, **environment):
    return subprocess.run(argv, cwd=folder, env=dict(os.environ, LC_ALL="C", **environment), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)


def records(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def fake_time_ns(record):
    """What fake-gpu.c says, or None."""
    kind = record["record"]
    if kind == "gemm":
        tera, width = {"bf16": (800, 2), "fp16": (800, 2), "tf32": (400, 4), "fp32": (50, 4)}[record["dtype"]]
        b, m, n, k = (record[key] for key in ("batch", "m", "n", "k"))
        return 3e3 + max(2 * b * m * n * k / (tera * 1e3), width * b * (m * n + m * k + n * k) / 4e3)
    if kind == "copy":
        return {"device_copy": 2e3 + record["moved_bytes"] / 4e3, "scale": 2e3 + record["moved_bytes"] / 4e3,
                "axpy": 2e3 + record["moved_bytes"] / 4e3, "to_device": 5e3 + record["bytes"] / 50,
                "to_host": 5e3 + record["bytes"] / 50, "peer_copy": 10e3 + record["bytes"] / 350}.get(record["what"])
    if kind == "collective":
        n = record["ranks"]
        if record["op"] == "all_to_all":
            return n * 20e3 + record["bytes"] / 400
        factor = {"all_reduce": 2 * (n - 1) / n, "broadcast": 1, "send_recv": 1}.get(record["op"], (n - 1) / n)
        return 20e3 + factor * record["bytes"] / 400
    return None


def fake_measures(fake, folder):
    done = run([fake, "--quick", "--budget", "8", "-o", "fake.jsonl"], folder, FAKE_GPUS="4")
    if done.returncode != 0:
        yield f"exit {done.returncode}: {done.stderr}"
        return
    seen = {}
    for record in records(os.path.join(folder, "fake.jsonl")):
        known = fake_time_ns(record)
        if known is not None:
            seen[record["record"]] = seen.get(record["record"], 0) + 1
            if abs(record["time_ns"] / known - 1) > 1e-3:
                yield f"{record}: {known:g} ns is right"
    for kind, least in (("gemm", 15), ("copy", 20), ("collective", 60)):
        if seen.get(kind, 0) < least:
            yield f"only {seen.get(kind, 0)} records of {kind}"


def fake_fits(psisim, folder):
    done = run([psisim, "fit", "fake.jsonl", "-o", "fake.json", "--json"], folder)
    if done.returncode != 0:
        yield f"exit {done.returncode}: {done.stderr}"
        return
    profile = json.loads(done.stdout)
    with open(os.path.join(folder, "fake.json"), encoding="utf-8") as file:
        if json.load(file) != profile:
            yield "the file is not what --json printed"
    curves = {(curve["name"], curve["ranks"]): curve for curve in profile["curves"]}
    for name, ranks, alpha, per_byte in (("all_reduce", 4, 20e3, 1.5 / 400), ("all_gather", 2, 20e3, 0.5 / 400),
                                         ("device_copy", 1, 2e3, 1 / 4e3)):
        segments = curves[name, ranks]["segments"]
        if len(segments) != 1 or abs(segments[0]["alpha_ns"] / alpha - 1) > 0.01 or \
                abs(segments[0]["beta_ns_per_byte"] / per_byte - 1) > 0.01:
            yield f"{name} over {ranks}: {segments} for {alpha} ns + {per_byte} ns per byte"
    if not 0.95 < profile["compute"]["peak_flops"]["bf16"] / 800e12 <= 1:
        yield f"bf16: {profile['compute']['peak_flops']}"
    if profile["gpu"] != "Fake GPU" or profile["kind"] != "measured":
        yield f"{profile['gpu']}, {profile['kind']}"


def fake_nothing(fake, folder):
    done = run([fake, "-o", "nothing.jsonl"], folder, FAKE_GPUS="0")
    if done.returncode != 77 or done.stderr.count("\n") != 1:
        yield f"exit {done.returncode} for 77: {done.stderr}"
    if os.path.exists(os.path.join(folder, "nothing.jsonl")):
        yield "a file was left behind"


def fake_interrupted(fake, folder):
    """Ctrl-C ends it soon, and what was measured is kept."""
    process = subprocess.Popen([fake, "--budget", "60", "-o", "cut.jsonl"], cwd=folder, stderr=subprocess.DEVNULL,
                               env=dict(os.environ, FAKE_GPUS="2"))
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    try:
        status = process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        yield "does not end"
        return
    if status != 1:
        yield f"exit {status} for 1"
    if len(records(os.path.join(folder, "cut.jsonl"))) < 10:
        yield "too few records were kept"


def host_interrupted(psisim, folder):
    """A signal to psisim alone, as a script sends it, ends the measurement and keeps it."""
    process = subprocess.Popen([psisim, "calibrate", "--backend", "host", "--budget", "600", "-o", "cut.json"], cwd=folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    try:
        error = process.communicate(timeout=30)[1].decode()
    except subprocess.TimeoutExpired:
        process.kill()
        yield "does not end"
        return
    if process.returncode != 0 or "ended early; what was measured is used" not in error:
        yield f"exit {process.returncode}: {error}"
    if not os.path.exists(os.path.join(folder, "cut.json")):
        yield "no profile"
    # Before anything is measured: an error, and nothing stays.
    process = subprocess.Popen([psisim, "calibrate", "--backend", "host", "--budget", "600", "-o", "soon.json"], cwd=folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=30)[1].decode()
    left = [name for name in os.listdir(folder) if name.startswith("soon")]
    if process.returncode != 0 and left:
        yield f"exit {process.returncode}: {left} stay: {error}"


def host_calibrates(psisim, folder):
    done = run([psisim, "calibrate", "--backend", "host", "--budget", "8", "-o", "host.json"], folder)
    if done.returncode != 0:
        yield f"exit {done.returncode}: {done.stderr}"
        return
    for word in ("fp32 product", "all_reduce", "device memory"):
        if word not in done.stdout:
            yield f"no '{word}' in {done.stdout}"
    with open(os.path.join(folder, "host.json"), encoding="utf-8") as file:
        profile = json.load(file)
    if not 1e8 < profile["compute"]["peak_flops"]["fp32"] < 1e13:
        yield f"{profile['compute']['peak_flops']} FLOP/s"
    if not os.path.exists(os.path.join(folder, "host.samples.jsonl")):
        yield "the samples are not there"
    # The profile is a machine: an all-reduce that nothing hides takes what the curve says.
    words = [psisim, "run", "--machine", "host.json", "--model", "custom", "--family", "mlp", "--layers", "4", "--hidden",
             "512", "--plan", "dp", "--gpus", "2", "--precision", "fp32", "--overlap-grads", "no", "--grad-clip", "no",
             "--json"]
    done = run(words, folder)
    if done.returncode != 0:
        yield f"the profile is no machine: {done.stderr}"
        return
    flow = json.loads(done.stdout)
    if "measured" not in run([word for word in words if word != "--json"], folder).stdout:
        yield "the report does not say that the machine was measured"
    closed = json.loads(run([*words, "--detail", "closed"], folder).stdout)["plans"][0]["step_time_s"]
    table = json.loads(run([psisim, "collective", "all-reduce", "--machine", "host.json", "--gpus", "2", "--json"],
                           folder).stdout)
    wanted = [row["time_us"] * 1e-6 for row in table["rows"] if row["size_bytes"] == 4 * 2 * 512 * 512 * 4]
    exposed = flow["plans"][0]["time"]["exposed_comm_s"]
    if abs(exposed / wanted[0] - 1) > 1e-3:
        yield f"8 MiB all-reduced in {exposed} s, the table says {wanted[0]} s"
    if abs(flow["plans"][0]["step_time_s"] / closed - 1) > 1e-9:
        yield f"a step of {flow['plans'][0]['step_time_s']} s by flows, {closed} s in closed form"


def refused(psisim, folder):
    broken = os.path.join(folder, "broken.jsonl")
    with open(broken, "w", encoding="utf-8") as file:
        file.write('{"record": "start"}\n{"record": "gemm"}\n')
    for argv, status, message in (
            (["fit", "broken.jsonl", "-o", "x.json"], 1, "psisim: broken.jsonl:2: 'dtype' is missing or not a text"),
            (["fit", "broken.jsonl"], 2, "psisim: fit needs -o FILE, where the profile goes"),
            (["fit", "nowhere", "-o", "x.json"], 1, "psisim: nowhere: no such file"),
            (["calibrate", "-o", "x.json", "--backend", "tpu"], 2, "psisim: --backend: unknown 'tpu' (one of: cuda, host)"),
            (["calibrate", "-o", "x.json", "--budget", "soon"], 2,
             "psisim: --budget: 'soon' is not a number of seconds from 1 to 86400"),
            (["collective", "all-rduce", "--machine", "a100"], 2,
             "psisim: unknown collective 'all-rduce' (did you mean 'all-reduce'?)"),
            (["collective", "all-reduce", "--machine", "a100", "--gpus", "1"], 2,
             "psisim: --gpus: a collective needs at least 2"),
            (["collective", "all-reduce", "--machine", "a100", "--layers", "2"], 2,
             "psisim: --layers is not an option of 'collective'")):
        done = run([psisim, *argv], folder)
        if (done.returncode, done.stdout, done.stderr) != (status, "", message + "\n"):
            yield f"{' '.join(argv)}: exit {done.returncode}, {done.stdout}{done.stderr}"


def collective_table(psisim, folder):
    done = run([psisim, "collective", "all-reduce", "--machine", "h100", "--json"], folder)
    rows = json.loads(done.stdout)["rows"] if done.returncode == 0 else []
    if [row["size_bytes"] for row in rows] != [8 << i for i in range(28)]:
        yield f"exit {done.returncode}: sizes {[row['size_bytes'] for row in rows]} {done.stderr}"
        return
    for row in rows:
        algbw = row["size_bytes"] / row["time_us"] * 1e-3
        if abs(row["algbw_GBps"] / algbw - 1) > 1e-6 or abs(row["busbw_GBps"] / algbw / 1.75 - 1) > 1e-6:
            yield f"{row}: algbw is {algbw}"
        if not row["algorithm"] or not row["protocol"]:
            yield f"{row}: no algorithm"
    # The table reads back as a log of nccl-tests, and gives the same times.
    text = run([psisim, "collective", "all-reduce", "--machine", "h100", "--gpus", "8"], folder).stdout
    with open(os.path.join(folder, "all_reduce.txt"), "w", encoding="utf-8") as file:
        file.write(text)
    done = run([psisim, "fit", "all_reduce.txt", "-o", "table.json", "--json"], folder)
    if done.returncode != 0:
        yield f"the table does not read back: {done.stderr}"
        return
    profile = json.loads(done.stdout)
    points = profile["curves"][0]["points"]
    if profile["kind"] != "synthetic" or profile["curves"][0]["ranks"] != 8 or len(points) != 28:
        yield f"{profile['kind']}, {profile['curves'][0]['ranks']} ranks, {len(points)} points"
    for row, point in zip(rows, points):
        if abs(point[1] / row["time_us"] / 1e3 - 1) > 0.01:
            yield f"{point} for {row}"


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    psisim, host = os.path.abspath(sys.argv[1]), sys.argv[2]
    fake = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory(prefix="psisim-calibrate-") as folder:
        tests = [("refused", refused(psisim, folder)), ("collective", collective_table(psisim, folder))]
        if os.path.exists(host):
            tests += [("host", host_calibrates(psisim, folder)),
                      ("host-interrupted", host_interrupted(psisim, folder))]
        if fake:
            tests += [("fake-measures", fake_measures(fake, folder)), ("fake-fits", fake_fits(psisim, folder)),
                      ("fake-nothing", fake_nothing(fake, folder)),
                      ("fake-interrupted", fake_interrupted(fake, folder))]
        tap.run(tests)


if __name__ == "__main__":
    main()
