"""Prompts of the three evaluation sets, in the wording of the DFlash benchmark."""

from __future__ import annotations

import json
from pathlib import Path

BOXED = "\nPlease reason step by step, and put your final answer within \\boxed{}."
FUNCTION = (
    "Write a solution to the following problem and make sure that it passes the tests:\n"
    "```python\n{stub}\n```"
)


def read_set(path: Path, count: int) -> list[str]:
    """First ``count`` user turns of a JSON-lines file of GSM8K, HumanEval or MT-Bench."""
    lines = path.read_text().splitlines()[:count]
    return [user_prompt(json.loads(line)) for line in lines]


def user_prompt(record: dict[str, object]) -> str:
    """The user turn of one record; its fields tell the set."""
    if "question" in record:
        return f"{record['question']}{BOXED}"
    if "prompt" in record:
        return FUNCTION.format(stub=record["prompt"])
    turns = record["turns"]
    assert isinstance(turns, list)
    return str(turns[0])
