#!/usr/bin/env bash
# Runs gpu/verify.py on a GPU host without network; writes verify.log, verify.jsonl and verify.md.
# usage: bash gpu/verify.sh GGUF_FOLDER [OUTPUT_FOLDER] [options of gpu/verify.py]
# PYTHONPATH must hold vLLM and what it needs (see README.md).
set -uo pipefail
gguf=$1; out=${2:-.}; shift $(($# > 1 ? 2 : 1))
cd "$(dirname "$0")/.." || exit 1
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 TOKENIZERS_PARALLELISM=false
export DFLASH_VIZ_CACHE=${DFLASH_VIZ_CACHE:-$HOME/.cache/dflash_viz}
mkdir -p "$out"
python3 -m gpu.verify --gguf "$gguf" "$@" 2> >(tee "$out/verify.log" >&2) | tee "$out/verify.out"
status=${PIPESTATUS[0]}
grep '^{' "$out/verify.out" > "$out/verify.jsonl"
grep '^|' "$out/verify.out" > "$out/verify.md"
# What the engines said, for whoever asks why.
tail -n 40 "$DFLASH_VIZ_CACHE"/logs/*.log > "$out/engines.log" 2>/dev/null
exit "$status"
