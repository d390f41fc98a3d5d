#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check traces/export_torch.py on small modules whose numbers are known. Skips (exit 77) without torch."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXPORT = os.path.join(ROOT, "traces", "export_torch.py")

MODULES = '''
import torch
from torch import nn

class Two(nn.Module):
    """A residual around two layers."""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))

class Shared(nn.Module):
    """One layer used twice: its parameters count once, its FLOPs twice."""
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8, bias=False)
    def forward(self, x):
        return self.a(self.a(x))

class Frozen(nn.Module):
    """Only the second layer trains: no backward below it."""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.a.requires_grad_(False)
    def forward(self, x):
        return self.b(self.a(x))

class Attention(nn.Module):
    """Attention by functions, on token numbers, with dropout."""
    def __init__(self):
        super().__init__()
        self.e, self.q = nn.Embedding(10, 8), nn.Linear(8, 24)
    def forward(self, tokens):
        q, k, v = self.q(self.e(tokens)).split(8, dim=-1)
        scores = torch.softmax(torch.matmul(q, k.transpose(1, 2)), dim=-1)
        return torch.nn.functional.dropout(torch.matmul(scores, v), 0.5)

class Groups(nn.Module):
    """Depthwise, grouped, and grouped the other way round, 6 to 12 channels on 4 x 4 positions each."""
    def __init__(self):
        super().__init__()
        self.d, self.g = nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.Conv2d(6, 12, 1, groups=3)
        self.t = nn.ConvTranspose2d(12, 6, 1, groups=3)
    def forward(self, x):
        return self.t(self.g(self.d(x)))

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.r, self.h = nn.Conv2d(1, 4, 3), nn.Conv2d(1, 4, 3), nn.Flatten()
    def forward(self, a, b):
        return self.h(torch.cat([self.l(a), self.r(b)], 1) * 2)
'''


def trace(directory, name, *arguments):
    out = os.path.join(directory, name + ".trace")
    subprocess.run([sys.executable, EXPORT, "--module", os.path.join(directory, "modules.py") + ":" + name, "-o", out,
                    *arguments], check=True)
    with open(out, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if not line.startswith("#")]
    assert lines[0] == "psisim-trace 1", lines[0]
    assert lines[1] == "name " + name, lines[1]
    head = lines[3].split("\t")
    rows = [dict(zip(head, line.split("\t"))) for line in lines[4:]]
    return int(lines[2].split()[1]), {row["name"]: row for row in rows}, rows


def column(rows, name):
    return [int(row[name]) for row in rows]


def test_residual(directory):
    parameters, by_name, rows = trace(directory, "Two", "--input", "8")
    assert parameters == 144
    assert [row["name"] for row in rows] == ["a", "relu", "b", "add"]
    assert column(rows, "forward_flops") == [128, 0, 128, 0]
    assert column(rows, "backward_flops") == [128, 0, 256, 0]  # the network's input needs no gradient
    assert [row["inputs"] for row in rows] == ["-", "0", "1", "2"]
    assert column(rows, "saved_bytes") == [32, 32, 0, 0]       # input of a; relu's result, shared with b
    assert column(rows, "output_bytes") == [32] * 4
    assert column(rows, "backward_bytes") == [64, 96, 128, 64]  # b: two products, each reads the output's gradient
    assert [column(rows, "product_" + part) for part in ("outputs", "inputs", "window", "groups")] == \
        [[8, 0, 8, 0], [8, 0, 8, 0], [1, 0, 1, 0], [0, 0, 0, 0]]


def test_batch(directory):
    _, _, one = trace(directory, "Two", "--input", "8", "--batch", "1")
    _, _, many = trace(directory, "Two", "--input", "8", "--batch", "6")
    assert one == many


def test_shared(directory):
    parameters, _, rows = trace(directory, "Shared", "--input", "8")
    assert parameters == 64
    assert column(rows, "parameters") == [64, 0]
    assert column(rows, "forward_flops") == [128, 128]
    assert [row["name"] for row in rows] == ["a", "a_1"]


def test_frozen(directory):
    parameters, _, rows = trace(directory, "Frozen", "--input", "8")
    assert parameters == 128
    assert column(rows, "backward_flops") == [0, 128]
    assert column(rows, "saved_bytes") == [0, 32]


def test_attention(directory):
    parameters, by_name, rows = trace(directory, "Attention", "--input", "int64:5")
    assert parameters == 80 + 8 * 24 + 24
    assert by_name["matmul"]["forward_flops"] == str(2 * 5 * 5 * 8)
    assert by_name["matmul"]["backward_flops"] == str(4 * 5 * 5 * 8)
    assert by_name["e"]["saved_index_bytes"] == str(5 * 8)
    assert int(by_name["softmax"]["saved_bytes"]) == 5 * 5 * 4
    assert by_name["matmul_1"]["inputs"] == ",".join(
        str(i) for i, row in enumerate(rows) if row["name"] in ("q", "softmax"))
    assert "dropout" in by_name


def test_branches(directory):
    _, by_name, rows = trace(directory, "Pair", "--input", "1,6,6", "--input", "1,6,6")
    assert [row["inputs"] for row in rows][:3] == ["-", "-", "0,1"]
    assert column(rows, "forward_flops")[:2] == [2 * 9 * 4 * 16] * 2
    assert column(rows, "parameters")[:2] == [40, 40]
    assert [column(rows, "product_" + part)[0] for part in ("outputs", "inputs", "window", "groups")] == [4, 1, 9, 1]


def test_groups(directory):
    _, _, rows = trace(directory, "Groups", "--input", "6,4,4")
    assert [column(rows, "product_" + part) for part in ("outputs", "inputs", "window", "groups")] == \
        [[6, 12, 6], [6, 6, 12], [9, 1, 1], [6, 3, 3]]
    assert column(rows, "forward_flops") == [2 * 16 * 6 * 9, 2 * 16 * 12 * 2, 2 * 16 * 6 * 4]


def test_leaf(directory):
    _, _, rows = trace(directory, "Two", "--input", "8", "--leaf", "Two")
    assert [row["name"] for row in rows] == ["Two"]
    assert column(rows, "saved_bytes") == [64]


def test_errors(directory):
    for arguments in (["nonsense:x", "--input", "8"], ["--module", "no.py:f", "--input", "8"],
                      ["--module", os.path.join(directory, "modules.py") + ":Two", "--input", "8,x"],
                      ["--module", os.path.join(directory, "modules.py") + ":Nobody", "--input", "8"]):
        result = subprocess.run([sys.executable, EXPORT, *arguments], capture_output=True, text=True)
        assert result.returncode == 1, arguments
        assert result.stderr.startswith("export_torch.py: ") and result.stderr.count("\n") == 1, result.stderr


TESTS = [test_residual, test_batch, test_shared, test_frozen, test_attention, test_branches, test_groups, test_leaf,
         test_errors]


def main():
    try:
        import torch  # noqa: F401
    except ImportError:
        if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
            os.execv("/usr/bin/python3", ["/usr/bin/python3", os.path.abspath(__file__)])
        print("1..0 # SKIP no torch")
        sys.exit(77)
    print(f"1..{len(TESTS)}")
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "modules.py"), "w", encoding="utf-8") as file:
            file.write(MODULES)
        for number, test in enumerate(TESTS, 1):
            try:
                test(directory)
                print(f"ok {number} /traces/export-torch/{test.__name__[5:]}")
            except (AssertionError, KeyError, subprocess.CalledProcessError) as error:
                failed += 1
                print(f"# {type(error).__name__} in line {error.__traceback__.tb_lineno}: {error}")
                print(f"not ok {number} /traces/export-torch/{test.__name__[5:]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
