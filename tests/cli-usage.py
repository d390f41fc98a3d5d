#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the command line refuses, with which words and status, and that help, lists and man pages name everything.

usage: cli-usage.py PSISIM
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time

import tap

PSISIM = os.path.abspath(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory(prefix="psisim-cli-")

MODEL = "[model]\nmodel = uniform\n"
TWO_PLANS = MODEL + "[machine]\nmachine = ideal\n[plan dp]\nworkers = 2\n[plan cdp-v2]\nworkers = 2\n"

LLAMA = "run --model llama-2-7b --machine a100 --gpus 8 "

# Faults of the command line: arguments, what the one line on stderr holds. Status 2.
USAGE = [
    ("", "no command"),
    ("rnu", "unknown command 'rnu' (did you mean 'run'?)"),
    ("qqqqqqqq", "unknown command 'qqqqqqqq'"),
    ("--json run", "options stand behind the command"),
    ("schedule", "'schedule show'"),
    ("schedule shwo", "'schedule show'"),
    ("calibrate", "calibrate needs -o FILE"),
    ("fit x", "fit needs -o FILE"),
    ("train --backend tpu", "--backend: unknown 'tpu' (one of: cuda, host)"),
    ("calibrate --verify --backend cuda", "--verify trains on CPU cores"),
    ("collective all-reduce", "collective needs --machine"),
    ("collective all-reduce --machine a100 --algorithm rign", "--algorithm: unknown algorithm 'rign' (one of: ring, "),
    ("collective all-to-all --machine a100 --algorithm tree", "--algorithm: 'tree' cannot do all-to-all on 8 GPUs"),
    ("run --timeline-ranks 0-7", "--timeline-ranks goes with --timeline FILE"),
    ("run --timeline x --timeline-ranks 7-0", "--timeline-ranks: '7-0' is not a list of ranks such as 0-7,12"),
    ("run --timeline x --timeline-ranks 0,", "--timeline-ranks: '0,' is not a list of ranks"),
    ("explain --timeline x", "--timeline is not an option of 'explain'"),
    ("list models --report x.html", "--report is not an option of 'list'"),
    ("explain --critical-path", "--critical-path is not an option of 'explain'"),
    ("explain --what-helps", "--what-helps is not an option of 'explain'"),
    ("run --critical-path=1", "--critical-path takes no value"),
    ("run --update asynchronos", "'asynchronos' is not one of synchronous, cyclic-v1, cyclic-v2, asynchronous"),
    ("run --mico-batch 2", "unknown option '--mico-batch' (did you mean '--micro-batch'?)"),
    ("run --qqqqqqqq 2", "unknown option '--qqqqqqqq'"),
    ("run -x", "unknown option '-x'"),
    ("run --answer", "--answer is not an option of 'run'"),
    ("run --plans dp,tp", "--plans is not an option of 'run'"),
    ("explain dp --tp 2", "--tp is not an option of 'explain'"),
    ("list models --csv", "--csv is not an option of 'list'"),
    ("run --json=1", "--json takes no value"),
    ("run --json --json", "--json is written twice"),
    ("run --json --csv", "--json and --csv do not go together"),
    ("run --tp 2 --tp 2", "--tp is written twice"),
    ("run --micro-batch 2 --micro_batch=2", "--micro-batch is written twice"),
    ("run --tp", "--tp needs a value"),
    ("run --tp=", "--tp needs a value"),
    ("run --tp --json", "--tp needs a value"),
    ("run --plot", "--plot needs a value"),
    ("run a b", "unexpected argument 'b'"),
    ("compare --plans dp,,tp", "--plans: 'dp,,tp' has an empty name in it"),
    ("compare --plans dp,dp", "--plans: 'dp' is written twice"),
    ("compare --plans dp,cpd-v2", "--plans: unknown plan 'cpd-v2' (did you mean 'cdp-v2'?)"),
    ("compare --plans dp --plan tp", "--plan and --plans do not go together"),
    ("run --plan dpp", "--plan: unknown plan 'dpp' (did you mean 'dp'?)"),
    ("run two.scn", "two.scn has 2 plans: pick one with --plan (one of: dp, cdp-v2)"),
    ("run two.scn --plan tp", "--plan: no plan 'tp' in two.scn (one of: dp, cdp-v2)"),
    ("list", "one of: models, machines, schedules, plans, collectives, keys"),
    ("list modles", "unknown list 'modles' (did you mean 'models'?)"),
    ("list qqqqqqqq", "one of: models, machines"),
    ("help qqqqqqqq", "unknown command 'qqqqqqqq'"),
    ("run --micro-batch two", "--micro-batch: 'two' is not a whole number"),
    ("run --recompute fulll", "--recompute: 'fulll' is not one of none, selective, full; did you mean 'full'?"),
    ("run --tied true", "--tied: 'true' is not yes or no"),
    ("run --group-order tp,dp", "--group-order: 'tp,dp' is not an order of"),
    ("run --slow-rank 3", "--slow-rank: '3' is not a list of RANK:FACTOR"),
    ("run --slow-rank 3:2,1:2,03:4", "--slow-rank: '03' is in the list twice"),
    ("run --slow-link 3:2,3:2", "--slow-link: '3' is in the list twice"),
    (LLAMA + "--lora-rank 8 --lora-targets q,v,q", "--lora-targets: 'q' is in the list twice"),
    (LLAMA + "--lora-rank 8 --lora-targets attention,v", "--lora-targets: 'v' is in the list twice"),
    (LLAMA + "--lora-rank 4097", "--lora-rank: '4097' is more than the 4096 channels of the model"),
    (LLAMA + "--offload activations --offload-layers 33", "--offload-layers: '33' is more than the 32 layers of the model"),
    (LLAMA + "--recompute full --recompute-every 33", "--recompute-every: '33' is more than the 32 layers"),
    (LLAMA + "--zero 3 --prefetch 33", "--prefetch: '33' is more than the 32 layers"),
    (LLAMA + "--loss-chunks 4097", "--loss-chunks: '4097' is more than the 4096 tokens of a micro-batch"),
    (LLAMA + "--pp 8 --schedule auto --micro-batches 12 --in-flight 13", "--in-flight: '13' is more than the 12 micro-batches"),
    (LLAMA + "--ep 4", "--ep: '4' needs experts, and 'llama-2-7b' has none (allowed: 1)"),
    (LLAMA + "--network foo", "--network: 'a100-sxm-80' has no network 'foo' (allowed: hdr200 efa"),
    (LLAMA + "--pp 8 --schedule 1f1b --vpp 2", "--schedule: schedule '1f1b' has one model part per rank, not vpp = 2"),
    ("run --model gpt2 --machine a100 --pp 4 --partition 0,0,0,12", "--partition: part 1 of '0,0,0,12' has no layer"),
    ("run --model gpt2 --machine a100 --schedule /dev/zero", "cannot read schedule '/dev/zero': larger than 64 MiB"),
]

# Keys that change nothing: arguments, the warning.
IGNORED = [
    ("run --model resnet-50 --machine a100 --sequence 44", "sequence = 44 is ignored: a trace has its shapes"),
    ("run --model resnet-50 --machine a100 --dropout 0.5", "dropout = 0.5 is ignored: a trace has its shapes"),
    ("run --model uniform --sequence 44", "sequence = 44 is ignored: stages of 'uniform' have their times and bytes"),
    ("compare --model vit-b16 --machine a100 --plans dp --sequence 44", "sequence = 44 is ignored: an image has as many tokens as patches"),
]

# The same, said under assumptions only: arguments, the lines.
IGNORED_QUIETLY = [
    ("run --model gpt2 --machine a100 --channels-last no --expert-gemm loop --expert-imbalance 2 --fused-loss yes --collective-checks yes",
     ("channels_last = no is ignored: only convolutions of a trace have a layout", "expert_gemm = loop is ignored: the model has no experts",
      "expert_imbalance = 2 is ignored: with ep 1 all tokens stay on their GPU", "fused_loss = yes is ignored: the framework has no such kernel",
      "collective_checks = yes is ignored: one GPU has no collectives")),
    ("run --model uniform --cuda-graphs step --compile yes --context 1GiB",
     ("cuda_graphs = step is ignored: stages of 'uniform' have their times and bytes", "compile = yes is ignored: stages of 'uniform'",
      "context = 1GiB is ignored: the memory of 'ideal' has no end")),
    ("run --model resnet-50 --machine a100 --attention math --fused-loss yes",
     ("attention = math is ignored: a trace has its shapes", "fused_loss = yes is ignored: a trace has its shapes")),
    ("run --model mixtral-8x7b --machine a100 --dense-ffn 4096", ("dense_ffn = 4096 is ignored: no layer is dense (dense_layers is 0)",)),
    ("run --model gpt2 --machine ideal --offload activations", ("the host takes activations in no time for each GPU",)),
]

# Files without an end, or that a parser would drown in: arguments, what the one line on stderr holds. Status 1.
HOSTILE = [
    ("run /dev/zero", "/dev/zero: larger than 16 MiB"),
    ("run pipe", "pipe: the file is empty"),
    ("train pipe", "pipe: the file is empty"),
    ("schedule check /dev/zero", "cannot read schedule '/dev/zero': larger than 64 MiB"),
    ("schedule check .", "cannot read schedule '.': Is a directory"),
    ("schedule check pipe", "pipe: the schedule is not whole"),
    ("validate /dev/zero", "/dev/zero: larger than 64 MiB"),
    ("validate loop", "loop: Too many levels of symbolic links"),
    ("fit /dev/zero -o out.json", "/dev/zero: larger than 16 MiB"),
    ("fit pipe -o out.json", "pipe: file is empty"),
    ("run --machine a100 --model /dev/zero", "/dev/zero: larger than 16 MiB"),
    ("run --machine a100 --model deep.json", "deep.json: not JSON: <data>:1:1: brackets inside more than 64 others"),
    ("run --model gpt2 --machine deep.json", "deep.json:1: not valid JSON"),
    ("collective all-reduce --machine deep.json", "deep.json:1: not valid JSON"),
    ("run --machine a100 --model large.trace", "simulated time is out of range"),
    ("run --model uniform --machine a100 --gpus 16 --stages 1 --internode 1MB/s --psi-p 60TiB --detail closed", "simulated time is out of range"),
    ("run --model uniform --machine a100 --gpus 16 --internode 1MB/s --psi-p 60TiB --detail messages", "simulated time is out of range"),
    ("run --model custom --family gpt --hidden 4096 --heads 64 --layers 350 --vocab 1407 --sequence 131072 --micro-batch 2137 --machine host",
     "simulated time is out of range"),
    ("run --model custom --family moe --hidden 16384 --heads 256 --layers 146 --vocab 75 --sequence 2097152 --micro-batch 13 --experts 128 "
     "--experts-per-token 1 --attention math --machine host", "simulated time is out of range"),
    ("run --model gpt2 --machine long.machine", "long.machine: cannot be read: larger than 16 MiB"),
    ("run --model gpt2 --machine a100 --plan accumulate --micro-batches 1000000 --jump no", "the plan is too large to follow"),
    ("run --model uniform --pp 100000", "the plan is too large to follow: 100000 ranks of a pipeline over 100000 layers"),
    ("run --model uniform --dp 40000 --stages 1 --psi-p 64TiB", "the bytes of 40000 GPUs together are more than 64-bit counts hold"),
]

# Values that no number takes, and for which kinds (a kind is named by its placeholder in the help).
BAD_NUMBERS = ["two", "-1", "-0", "nan", "inf", "1e999", "0x10", "1,5", "3 parsecs", "--"]
NUMBERS = ["N", "SIZE", "TIME", "RATE", "X"]

# Faults of a scenario file: its bytes, what the line holds. Status 1.
FILES = [
    (b"", "the file is empty"),
    (b"# nothing\n", "no group [model], [machine] or [plan]"),
    (b"\x7fELF\0\0\1", "not a text file"),
    (b"[plan]\ntp = \xff\xfe\n", "not a text file"),
    (b"[plan]\ntp\0 = 2\n", "not a text file"),
    (b"\n" * (17 << 20), "wrong.scn: larger than 16 MiB"),
    ("[plan]\n".encode("utf-16"), "not a text file"),
    (b"tp = 2\n", ":1: key 'tp' before any group; it belongs in [plan]"),
    (b"[plna]\n", ":1: unknown group 'plna'"),
    (b"[plan\n", ":1: no ']'"),
    (b"[model]\n[plan]\n[model]\n", ":3: group [model] is written twice (first in line 1)"),
    (b"[plan a]\n[plan a]\n", ":2: group [plan a] is written twice (first in line 1)"),
    (b"[plan]\nmico_batch = 2\n", ":2: [plan] unknown key 'mico_batch' (did you mean 'micro_batch'?)"),
    (b"[plan]\ntp = 2\n\ntp = 4\n", ":4: [plan] key 'tp' is written twice (first in line 2)"),
    (b"[machine]\nmicro_batch = 2\n", ":2: [machine] key 'micro_batch' belongs in [plan]"),
    (b"[plan]\ntp 2\n", ":2: no '=' in 'tp 2'"),
    (b"[plan]\n= 2\n", ":2: no key before '='"),
    (b"[plan]\ntp =\n", ":2: [plan] tp: no value"),
    (b"[plan]\nmicro_batch = two\n", ": [plan] micro_batch: 'two' is not a whole number"),
    (b"[plan]\nmicro_batch = 0\n", ": [plan] micro_batch: '0' is out of range (1 to "),
    (b"[plan]\nmicro_batch = -3\n", ": [plan] micro_batch: '-3' is out of range (1 to "),
    (b"[plan]\nmicro_batch = 1e30\n", ": [plan] micro_batch: '1e30' is out of range (1 to "),
    (b"[machine]\njitter = nan\n", ": [machine] jitter: 'nan' is not a number"),
    (b"[model]\nforward = 3 GiB\n", ": [model] forward: '3 GiB' is not a time"),
    (b"[model]\npsi_p = 3 furlongs\n", ": [model] psi_p: '3 furlongs' is not a size"),
    (b"[machine]\ninternode = 5 ms\n", ": [machine] internode: '5 ms' is not a rate"),
    (b"[plan]\nworker_batches = 6,,2\n", ": [plan] worker_batches: '' is not a whole number"),
    (b"[plan]\nplan = dpp\n", ": [plan] plan: unknown plan 'dpp' (did you mean 'dp'?)"),
    (b"[model]\nmodel = uniform\n[plan x]\nupdate = asynchronous\npp = 2\n", ": [plan x] update: 'asynchronous' goes with schedule none and"),
    (b"[model]\nmodel = uniform\n[plan async]\ncp = 2\n", ": [plan async] cp: '2' does not go with workers that do not wait for each other"),
    (b"[plan]\nplan = dp\n[plan tp]\n", ": [plan] plan: beside [plan NAME]"),
]


def psisim(*words, **kwargs):
    return subprocess.run([PSISIM, *words], cwd=FOLDER.name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, **kwargs)


def write(name, data):
    with open(os.path.join(FOLDER.name, name), "wb") as file:
        file.write(data)


def refused(words, status, part):
    """What is wrong with how `words` are refused."""
    done = psisim(*words)
    error = done.stderr.decode()
    shown = " ".join(words)[:80]
    if done.returncode != status:
        yield f"psisim {shown}: status {done.returncode}, not {status}; stderr: {error.strip()}"
    if done.stdout:
        yield f"psisim {shown}: something on stdout: {done.stdout[:80]!r}"
    if not error.startswith("psisim: ") or error.count("\n") != 1 or not error.endswith("\n"):
        yield f"psisim {shown}: not one line of error: {error!r}"
    if part not in error:
        yield f"psisim {shown}: no {part!r} in {error.strip()!r}"


def printed(*words):
    done = psisim(*words)
    if done.returncode != 0 or done.stderr:
        raise SystemExit(f"psisim {' '.join(words)}: status {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode()


def check_usage():
    for line, part in USAGE:
        yield from refused(line.split(), 2, part)
    yield from refused(["run", "--model", ""], 2, "--model needs a value")
    yield from refused(["run", "--tp", "x" * 100000], 2, "...' is not a whole number")
    yield from refused(["run", "--tp", "a\nb\x1b[31m"], 2, "'a?b?[31m' is not a whole number")


def check_ignored():
    for line, part in IGNORED:
        error = psisim(*line.split()).stderr.decode()
        if not error.startswith("psisim: warning: ") or error.count("\n") != 1 or part not in error:
            yield f"psisim {line}: {error!r}"
        if psisim(*line.split(), "--quiet").stderr:
            yield f"psisim {line} --quiet: not quiet"
    text = printed("run", "--model", "gpt2", "--machine", "a100", "--gpus", "8", "--shard-group", "4", "--prefetch", "2",
                   "--recompute-every", "3", "--reduce-every", "5", "--trials", "7", "-v")
    for key in ("shard_group = 4", "prefetch = 2", "recompute_every = 3", "reduce_every = 5", "trials = 7"):
        if f"- {key} is ignored: " not in text:
            yield f"'{key}' is not said to be ignored"
    for line, keys in IGNORED_QUIETLY:
        text = " ".join(printed(*line.split(), "-v").split())
        for key in keys:
            if f"- {key}" not in text:
                yield f"psisim {line} -v: {key!r} is not there"


def check_numbers():
    seen = set()
    for flag, kind in re.findall(r"^  (--[a-z-]+) ([A-Z]+)\b", printed("help", "run"), re.M):
        # One key of each kind takes all values, the others one each.
        for value in BAD_NUMBERS if kind not in seen else BAD_NUMBERS[:1]:
            if kind in NUMBERS:
                yield from refused(["run", f"{flag}={value}"], 2, f"{flag}: '{value}'")
        seen.add(kind)
    if not seen.issuperset(NUMBERS):
        yield f"the help of run shows only {sorted(seen)}"


def check_files():
    for data, part in FILES:
        write("wrong.scn", data)
        for command in (["run"], ["compare"], ["schedule", "show"]):
            yield from refused(command + ["wrong.scn"], 1, "psisim: wrong.scn" + part if part[0] == ":" else part)
    yield from refused(["run", "missing.scn"], 1, "cannot read 'missing.scn': No such file")
    yield from refused(["run", "."], 1, "cannot read '.': Is a directory")
    yield from refused(["run", ""], 1, "cannot read ''")
    yield from refused(["run", "--", "--tp"], 1, "cannot read '--tp'")
    yield from refused(["run", "a\nb"], 1, "cannot read 'a?b'")


LOG = b"""# nThread 1 nGpus 4
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    12.34    0.08    0.12      0    12.00    0.09    0.13      0
     1048576        262144     float     sum      -1    40.00   26.21   39.32      0    40.00   26.21   39.32      0
"""


def check_sinks():
    """What is there and no plain file, such as /dev/null, is written to, never replaced by a file of its name."""
    sink = os.path.join(FOLDER.name, "sink")
    write("log", LOG)
    write("runs.csv", b"id,source,model,machine,gpus\na,b,gpt2,a100-sxm-80,1\n")
    for line in ("fit log --op all-reduce -o sink", "validate runs.csv -o sink",
                 "run --model uniform --machine ideal --timeline sink"):
        os.mkfifo(sink)
        both_ends = os.open(sink, os.O_RDWR | os.O_NONBLOCK)  # holds what is written, up to 64 KiB
        done = psisim(*line.split())
        if done.returncode != 0:
            yield f"psisim {line}: status {done.returncode}: {done.stderr.decode()}"
        if not stat.S_ISFIFO(os.stat(sink).st_mode):
            yield f"psisim {line}: a plain file stands where the pipe was"
        os.close(both_ends)
        os.unlink(sink)
    os.mkfifo(sink)
    yield from refused(["calibrate", "--backend", "host", "--budget", "2", "-o", "sink"], 1, "not a plain file")
    if os.path.exists(sink + ".samples.jsonl"):
        yield "calibrate: samples stay after an error"


def check_hostile():
    os.mkfifo(os.path.join(FOLDER.name, "pipe"))
    os.symlink("loop", os.path.join(FOLDER.name, "loop"))
    write("deep.json", b"[" * 1000000)
    columns = ("name parameters forward_flops backward_flops forward_bytes backward_bytes saved_bytes output_bytes inputs "
               "saved_index_bytes product_outputs product_inputs product_window")
    write("large.trace", ("psisim-trace 1\nname large\nparameters 1\n" + "\t".join(columns.split()) +
                          "\na\t1\t1e24\t1e24\t8\t8\t8\t8\t-\t0\t1\t1\t1\n").encode())
    write("long.machine", b"\n" * (17 << 20))
    for line, part in HOSTILE:
        yield from refused(line.split(), 1, part)
    yield from check_sinks()
    if os.path.exists(os.path.join(FOLDER.name, "out.json")):
        yield "fit: a file stays after an error"
    text = printed("run", "--model", "gpt2", "--machine", "a100", "--plan", "zero-3", "--gpus", "8", "--shard-group", "1",
                   "--json")
    if re.search(r'"gradients_bytes": -', text):
        yield "a shard group of one: gradients below zero"
    for plan in ("cdp-single", "cdp-v1", "cdp-v2"):
        text = printed("run", "--model", "uniform", "--machine", "ideal", "--plan", plan, "--placement", "stage", "--json")
        row = json.loads(text)["plans"][0]
        if row["gpus"] != sum(rank["count"] for rank in row["memory"]["ranks"]):
            yield f"{plan}, placement stage: {row['gpus']} GPUs"


def check_defaults():
    """Every strategy runs with nothing else said, its parts of the step add up, and its schedule survives a check."""
    for row in json.loads(printed("list", "plans", "--json"))["plans"]:
        done = psisim("run", "--model", "uniform", "--machine", "ideal", "--plan", row["name"], "--json")
        if done.returncode != 0:
            yield f"{row['name']}: {done.stderr.decode()}"
            continue
        plan = json.loads(done.stdout)["plans"][0]
        if abs(sum(plan["time"].values()) - plan["step_time_s"]) > 1e-12:
            yield f"{row['name']}: {plan['time']} is not {plan['step_time_s']}"
        if plan["update"]["rule"] == "asynchronous" and plan["communication"]["by_kind"]["gradients"] > 0:
            continue  # workers that race have no order to show
        write("shown", printed("schedule", "show", "--plan", row["name"]).encode())
        printed("schedule", "check", "shown")


def check_killed():
    """What psisim starts ends with it."""
    parent = subprocess.Popen([PSISIM, "calibrate", "--backend", "host", "--budget", "60", "-o", "killed.json"],
                              cwd=FOLDER.name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = f"/proc/{parent.pid}/task/{parent.pid}/children"
    found, deadline = [], time.time() + 10
    while not found and time.time() < deadline and parent.poll() is None and os.path.exists(children):
        with open(children) as file:
            found = file.read().split()
        time.sleep(0.05)
    time.sleep(0.2)
    parent.kill()
    parent.wait()
    for child in found:
        while time.time() < deadline and state(child) not in "ZX":
            time.sleep(0.05)
        if state(child) not in "ZX":
            yield f"what psisim started goes on after it was killed: {child}"
            os.kill(int(child), 9)


def state(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def commands():
    table = printed("help").split("\nCommands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", table, re.M)


def keys():
    return re.findall(r"^([a-z_]+) +\[", printed("list", "keys"), re.M)


def check_help():
    names = commands()
    if not {"run", "compare", "explain", "schedule show", "list", "help", "complete"}.issubset(names):
        yield f"commands: {names}"
    for name in names:
        for words in (name.split() + ["--help"], ["help"] + name.split(), name.split() + ["-h", "--qqq", "x"]):
            text = printed(*words)
            if not text.startswith(f"usage: psisim {name} "):
                yield f"psisim {' '.join(words)}: {text[:60]!r}"
            for line in text.splitlines():
                if len(line) > 80:
                    yield f"psisim {' '.join(words)}: wider than 80 columns: {line}"
    if printed("--help") != printed("help"):
        yield "--help and help differ"
    if printed("schedule", "--help") != printed("help", "schedule", "show") + "\n" + printed("help", "schedule", "check"):
        yield "schedule --help is not the help of schedule show and schedule check"
    if not re.fullmatch(r"psisim \d+\.\d+\.\d+\n", printed("--version")):
        yield f"version: {printed('--version')!r}"
    for word in ("--man",):
        if re.search(rf"(?<![\w-]){word}\b", printed("help") + printed("help", "run")):
            yield f"the help names {word}"


def check_everything_named():
    pages = {
        "help run": printed("help", "run"), "help compare": printed("help", "compare"),
        "help schedule show": printed("help", "schedule", "show"),
        "psisim.1": printed("help", "--man").replace("\\-", "-").replace("Fl -", "--"),
    }
    scenario = printed("help", "--man-scenario")
    names = keys()
    if len(names) < 70:
        yield f"only {len(names)} keys"
    for key in names:
        flag = "--" + key.replace("_", "-")
        for page, text in pages.items():
            if not re.search(rf"{flag}[ \n]", text):
                yield f"{page} lacks {flag}"
        if f".It Ic {key} " not in scenario:
            yield f"psisim-scenario.5 lacks {key}"
    for name in commands():
        if f".It Cm {name} " not in pages["psisim.1"]:
            yield f"psisim.1 lacks {name}"


def check_man_pages():
    mandoc = shutil.which("mandoc")
    for option in ("--man", "--man-scenario"):
        page = printed("help", option)
        if mandoc is not None:
            lint = subprocess.run([mandoc, "-Tlint", "-W", "warning"], input=page.encode(), stdout=subprocess.PIPE)
            yield from lint.stdout.decode().splitlines()


def check_lists():
    for topic in ("models", "machines", "schedules", "plans", "collectives", "keys"):
        rows = json.loads(printed("list", topic, "--json"))[topic]
        if any(not row["summary"] for row in rows):
            yield f"list {topic}: a row without a summary"
        lines = printed("list", topic).splitlines()
        if not rows or [row["name"] for row in rows] != [line.split()[0] for line in lines]:
            yield f"list {topic}: table and JSON differ, or are empty"
    plans = [row["name"] for row in json.loads(printed("list", "plans", "--json"))["plans"]]
    for plan in ("dp", "cdp-v2", "cdp-zero", "fsdp"):
        if plan not in plans:
            yield f"list plans lacks {plan}"


def check_collective():
    listed = psisim("collective", "all-reduce", "--machine", "h100", "--algorithm", "?").stderr.decode()
    for name in listed.split("(one of: ")[1].rstrip(")\n").split(", "):
        used = []
        for op, gpus in (("all-reduce", "8"), ("all-reduce", "16"), ("all-to-all", "16")):
            done = psisim("collective", op, "--machine", "h100", "--gpus", gpus, "--algorithm", name, "--json")
            if done.returncode == 0:
                used += [row["algorithm"] for row in json.loads(done.stdout)["rows"]]
        if set(used) != {name}:
            yield f"--algorithm {name}: shown are {sorted(set(used))}"


    write("predicted.log", printed("collective", "all-reduce", "--machine", "h100", "--gpus", "8").encode())
    for log, kind in (("log", "measured"), ("predicted.log", "synthetic")):
        done = psisim("fit", log, "--op", "all-reduce", "-o", "fitted.json")
        with open(os.path.join(FOLDER.name, "fitted.json")) as file:
            got = json.load(file)["kind"]
        if got != kind or (b"is no measurement" in done.stderr) != (kind == "synthetic"):
            yield f"fit {log}: kind {got}, {done.stderr.decode()!r}"


def check_completion():
    for words, expected in [
        ([""], ["run", "list", "schedule"]), (["ru"], ["run"]), (["schedule", ""], ["show"]),
        (["run", "--micro"], ["--micro-batch", "--micro-batches"]), (["run", "--recompute", "f"], ["full"]),
        (["run", "--recompute", "=", "f"], ["full"]), (["run", "--tied", ""], ["yes", "no"]),
        (["run", "--plan", "cdp-"], ["cdp-v1", "cdp-v2"]), (["compare", "--plans", "dp,cdp-v"], ["dp,cdp-v2"]),
        (["list", "m"], ["models", "machines"]), (["help", "sch"], ["schedule"]), (["explain", "--a"], ["--answer"]),
        (["run", "--model", "unif"], ["uniform"]), (["run", "--machine", "a100"], ["a100"]),
    ]:
        got = printed("complete", "--", *words).split()
        if not set(expected).issubset(got) or any(not word.startswith(words[-1]) for word in got):
            yield f"complete {words}: {got}"
    for words in (["run", ""], ["run", "--plot", ""], ["calibrate", ""]):
        got = printed("complete", "--", *words)
        if got:
            yield f"complete {words}: {got!r}"


def check_output():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PSISIM, "list", "keys"], stdout=full, stderr=subprocess.PIPE)
    if done.returncode != 1 or b"cannot write" not in done.stderr:
        yield f"full disk: status {done.returncode}: {done.stderr.decode()}"
    done = subprocess.run(f"'{PSISIM}' list keys >&-", shell=True, stderr=subprocess.PIPE)
    if done.returncode != 1 or b"cannot write" not in done.stderr:
        yield f"closed stdout: status {done.returncode}: {done.stderr.decode()}"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([PSISIM, "list", "keys"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    if done.returncode != 1 or done.stderr:
        yield f"closed pipe: status {done.returncode}: {done.stderr.decode()}"


write("two.scn", TWO_PLANS.encode())
tap.run([
    ("usage", check_usage()), ("ignored", check_ignored()), ("numbers", check_numbers()), ("files", check_files()), ("hostile", check_hostile()),
    ("defaults", check_defaults()), ("killed", check_killed()), ("help", check_help()),
    ("everything-named", check_everything_named()), ("man-pages", check_man_pages()), ("lists", check_lists()),
    ("collective", check_collective()),
    ("completion", check_completion()), ("output", check_output()),
])
