#!/usr/bin/env bash
# Creates the virtual environment with the app and a vLLM engine for the CPU, and nothing else.
# usage: scripts/install.sh VENV        (PYTHON names the interpreter, 3.11 by default)
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
    echo "Python 3.11 is needed; $python is another version. Set PYTHON to a Python 3.11." >&2
    exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || {
    # Debian ships venv apart from Python.
    rm -rf "$venv"
    apt-get update -q && apt-get install -y -q python3.11-venv && "$python" -m venv "$venv"
}
pip=("$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps)

echo "1/3  torch 2.13.0 for the CPU (190 MB)"
# The CPU build lies in no default index; uv knows where PyTorch keeps it.
"${pip[@]}" torch==2.13.0+cpu 2>/dev/null || {
    "${pip[@]}" uv
    "$venv/bin/uv" pip install -q --python "$venv/bin/python" --no-deps --torch-backend cpu torch==2.13.0
}
echo "2/3  vLLM for the CPU, gradio and what they need (700 MB)"
"${pip[@]}" -r requirements-engine-cpu.txt
echo "3/3  checking"
"$venv/bin/python" - <<'PY'
import gradio, torch, tokenizers, vllm  # noqa: F401
print(f"     torch {torch.__version__}, gradio {gradio.__version__}: ready")
PY
