#!/bin/sh
# SPDX-License-Identifier: MIT
# Measure the GPUs of this machine in one go: build bench-cuda with one cc line, run it within a budget, leave samples
# and log in a directory. For machines that are there for minutes only: no meson, no GLib, nothing to install. Each
# part writes as it goes, so an early end loses nothing.
#
#   kernels/measure-gpu.sh [DIRECTORY [SECONDS]]     default: $OUT or ./gpu-samples, 240 s
#
# Afterwards, anywhere:  psisim fit DIRECTORY/samples.jsonl -o gpu.json
# Exit status: 0 done, 77 no GPU, else the first failure.
set -u

here=$(cd "$(dirname "$0")" && pwd)
out=${1:-${OUT:-gpu-samples}}
budget=${2:-240}
cuda=${CUDA_HOME:-/usr/local/cuda}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
log=$out/log.txt
: >"$log"

say() { printf '%s\n' "$*" | tee -a "$log"; }

# Compile one program, without NCCL where it is missing. build NAME SOURCES...
build() {
  name=$1
  shift
  flags="-O2 -std=gnu11 -Wall -I$cuda/include -L$cuda/lib64 -Wl,-rpath,$cuda/lib64"
  # shellcheck disable=SC2086
  cc $flags -o "$out/$name" "$@" -lcudart -lcublas -lnccl -ldl -lm 2>>"$log" && return 0
  say "$name: no NCCL, building without collectives"
  # shellcheck disable=SC2086
  cc $flags -DBENCH_WITHOUT_NCCL -o "$out/$name" "$@" -lcudart -lcublas -ldl -lm 2>>"$log"
}

say "measure-gpu: $(date -u +%Y-%m-%dT%H:%M:%SZ), $budget s into $out"
nvidia-smi >>"$log" 2>&1
nvidia-smi topo -m >>"$log" 2>&1

cd "$here" || exit 1
build bench-cuda bench-cuda.c bench-cuda-gemm.c bench-cuda-memory.c bench-cuda-nccl.c bench-cuda-group.c \
  bench-nvml.c bench-common.c || { say "bench-cuda does not build, see $log"; exit 1; }
{
  "$out/bench-cuda" --budget "$budget" -o "$out/samples.jsonl"
  echo $? >"$out/status"
} 2>&1 | tee -a "$log"
status=$(cat "$out/status")
rm -f "$out/bench-cuda" "$out/status"
[ -f "$out/samples.jsonl" ] && say "$(wc -l <"$out/samples.jsonl") records in $out/samples.jsonl"
say "bench-cuda: exit status $status"
exit "$status"
