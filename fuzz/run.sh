#!/usr/bin/env bash
# Builds a fuzz target with coverage instrumentation and runs it. Needs stable Rust, a C++ compiler and Python 3.
#
#   fuzz/run.sh TARGET [SECONDS]     patch, selectors, protobuf, json, soap, vapi, world, rules or config; by default 60 s
#
# The fuzzer keeps its corpus in fuzz/corpus/TARGET, beside the seeds that fuzz/seeds.py generates from files of the
# repository. It writes an input on which the target fails to fuzz/artifacts/TARGET. Copy such an input to
# tests/fuzz/TARGET of the crate that reads the bytes (sim, sim/kube/api or provider) and commit it. The fuzzer uses these inputs as
# further seeds. `cargo test` replays them for every target but patch and selectors, which have no such folder.
set -euo pipefail
cd "$(dirname "$0")"
target=${1:?"usage: fuzz/run.sh TARGET [SECONDS]"} seconds=${2:-60}
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
host=$(rustc -vV | sed -n 's/^host: //p')
python3 seeds.py
RUSTFLAGS="$coverage --cfg fuzzing -Ccodegen-units=1" ${CARGO:-cargo} build --release --target "$host" --bin "$target"
mkdir -p "corpus/$target" "artifacts/$target"
seeds=("corpus/$target")
for folder in ../{sim,sim/kube/api,provider}/tests/fuzz/"$target"; do [ ! -d "$folder" ] || seeds+=("$folder"); done
"${CARGO_TARGET_DIR:-target}/$host/release/$target" -max_total_time="$seconds" -artifact_prefix="artifacts/$target/" -dict="dictionary" \
  -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "${seeds[@]}"
