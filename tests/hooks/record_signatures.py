"""Records what the hooks rely on in vLLM's sources: ``signatures.json`` beside this file.

    python tests/hooks/record_signatures.py 0.26.0=FOLDER 0.33.0=FOLDER

FOLDER holds the unpacked wheel of that version (the folder that has ``vllm`` in it). The sources are
parsed, never imported, so that wheels for GPUs can be read anywhere.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

TABLE = Path(__file__).with_name("signatures.json")
GPU = "vllm/v1/worker/gpu"
# By file: functions and methods whose parameters, classes whose fields, classes whose constructor's
# attributes are recorded.
CALLS = {
    "vllm/v1/worker/gpu_model_runner.py": [
        "GPUModelRunner._sample",
        "GPUModelRunner.execute_model",
        "GPUModelRunner.sample_tokens",
        "GPUModelRunner.propose_draft_token_ids",
    ],
    "vllm/v1/sample/rejection_sampler.py": ["rejection_sample", "generate_uniform_probs"],
    f"{GPU}/model_runner.py": [
        "GPUModelRunner.execute_model",
        "GPUModelRunner.sample",
        "GPUModelRunner.sample_tokens",
    ],
    f"{GPU}/sample/sampler.py": ["Sampler.__call__"],
    f"{GPU}/spec_decode/rejection_sampler.py": ["RejectionSampler.__call__"],
    f"{GPU}/spec_decode/speculator.py": ["BaseSpeculator.propose"],
    f"{GPU}/spec_decode/dflash/speculator.py": ["DFlashSpeculator.propose"],
    f"{GPU}/async_utils.py": ["AsyncOutput.get_output"],
    "vllm/v1/engine/async_llm.py": ["AsyncLLM.sleep", "AsyncLLM.wake_up"],
}
FIELDS = {
    f"{GPU}/input_batch.py": ["InputBatch"],
    "vllm/v1/spec_decode/metadata.py": ["SpecDecodeMetadata"],
    "vllm/v1/core/sched/output.py": ["NewRequestData", "SchedulerOutput"],
}
ATTRIBUTES = {
    f"{GPU}/async_utils.py": ["AsyncOutput"],
    f"{GPU}/spec_decode/speculator.py": ["DraftModelSpeculator"],
}

Table = dict[str, list[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_signatures(folder: Path) -> Table:
    """What one version has: ``file:name`` -> parameters, ``file:class`` -> fields, ``file:class()`` ->
    attributes that its constructor sets. A name that is not there is left out."""
    table: Table = {}
    for file in sorted({*CALLS, *FIELDS, *ATTRIBUTES}):
        if not (folder / file).is_file():
            continue
        found = _definitions(ast.parse((folder / file).read_text()))
        for name in CALLS.get(file, ()):
            if isinstance(function := found.get(name), Function):
                table[f"{file}:{name}"] = _parameters(function)
        for name in FIELDS.get(file, ()):
            if isinstance(kind := found.get(name), ast.ClassDef):
                table[f"{file}:{name}"] = _fields(kind)
        for name in ATTRIBUTES.get(file, ()):
            if isinstance(constructor := found.get(f"{name}.__init__"), ast.FunctionDef):
                table[f"{file}:{name}()"] = _attributes(constructor)
    return table


def _definitions(module: ast.Module) -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{m.name}": m for m in node.body if isinstance(m, Function)}
    return found


def _parameters(function: Function) -> list[str]:
    given = function.args
    assert given.vararg is None
    assert given.kwarg is None
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name != "self"]


def _fields(kind: ast.ClassDef) -> list[str]:
    return [n.target.id for n in kind.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]


def _attributes(function: ast.FunctionDef) -> list[str]:
    stored = (n for n in ast.walk(function) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return sorted({n.attr for n in stored})


def main() -> None:
    """Write the table of the versions given on the command line."""
    pairs = [argument.split("=", 1) for argument in sys.argv[1:]]
    tables = {version: read_signatures(Path(folder)) for version, folder in pairs}
    TABLE.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
