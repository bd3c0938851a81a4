"""Prompts of the three evaluation sets, in the wording of the DFlash benchmark."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

BOXED = "\nPlease reason step by step, and put your final answer within \\boxed{}."
FUNCTION = (
    "Write a solution to the following problem and make sure that it passes the tests:\n"
    "```python\n{stub}\n```"
)


def evaluation_parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every evaluation of a drafter on these sets has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--drafter", type=Path, required=True)
    parser.add_argument("--sets", type=Path, required=True, help="folder of JSON-lines files")
    parser.add_argument("--k", type=int, nargs="+", default=[3, 4, 5, 6, 7])
    parser.add_argument("--prompts", type=int, default=40, help="first prompts of each set")
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    return parser


def read_sets(folder: Path, count: int) -> dict[str, list[str]]:
    """First ``count`` user turns of every JSON-lines file of a folder, by the file's name."""
    return {path.stem: read_set(path, count) for path in sorted(folder.glob("*.jsonl"))}


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
