"""An answer without vLLM's own counts: a fault where the engine reports them, else just unchecked."""

from __future__ import annotations

import msgspec
import pytest
from tokenizers import Tokenizer, models

from dflash_viz.hooks.wire import EngineStep, Row
from dflash_viz.lanes import LaneClient
from dflash_viz.lanes.answer import Chunk
from dflash_viz.lanes.detokenize import Detokenizer
from dflash_viz.trace import Fingerprint, Message, ModelPrint, Sampling

CHUNKS = [
    {"choices": [{"delta": {"content": ""}}], "prompt_token_ids": [1, 2]},
    {"choices": [{"delta": {"content": "ab"}, "token_ids": [0, 1, 2], "finish_reason": "stop"}]},
]
ROWS = [Row("r", 0, [0], prefill=True), Row("r", 1, [1, 2], [1, 1])]


@pytest.mark.parametrize(("counts_answers", "agrees"), [(True, False), (False, None)])
def test_an_answer_without_counts(counts_answers: bool, agrees: bool | None) -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a"))
    fingerprint = Fingerprint("dflash", ModelPrint("t"))
    client = LaneClient("dflash", "http://nowhere", "token", fingerprint, Detokenizer(tokenizer), "m")
    client.counts_answers = counts_answers
    client.why_uncounted = "the server does not count"
    run = client.run([Message("user", "hi")], Sampling())
    for chunk in CHUNKS:
        run._absorb(msgspec.convert(chunk, Chunk))
    for i, row in enumerate(ROWS):
        run._absorb(EngineStep(i, float(i), i + 0.5, [row]))
    end = run._end(None)
    assert end.num_output_tokens == 3
    assert end.check.agrees is agrees, end.check
    assert end.check.message.endswith("; the server does not count") is not counts_answers
