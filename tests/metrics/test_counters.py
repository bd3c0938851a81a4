"""The counters and the load, read from what a server says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_viz.trace.counters import Counters, Load, read_load, read_prometheus

LABELS = 'engine="0",model_name="target"'


def said(engine: int, tokens: str, running: str, waiting: str) -> str:
    """What one engine of a server says, with its neighbours in the list."""
    labels = f'{{engine="{engine}",model_name="target"}}'
    return (
        "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
        "# TYPE vllm:num_requests_running gauge\n"
        f"vllm:num_requests_running{labels} {running}\n"
        f"vllm:num_requests_waiting{labels} {waiting}\n"
        f"vllm:num_requests_waiting_by_reason{labels} 77.0\n"
        f"vllm:prompt_tokens_total{labels} 5000.0\n"
        f"vllm:generation_tokens_total{labels} {tokens}\n"
        f"vllm:generation_tokens_created{labels} 1.7e+09\n"
        f'vllm:request_generation_tokens_bucket{{le="5.0",{labels[1:]} 3.0\n'
    )


def test_the_load_of_one_engine() -> None:
    assert read_load(said(0, "1234.0", "3.0", "2.0")) == Load(output_tokens=1234, running=3, waiting=2)


def test_the_load_is_summed_over_engines() -> None:
    text = said(0, "1000.0", "3.0", "0.0") + said(1, "234.0", "1.0", "5.0")
    assert read_load(text) == Load(1234, 4, 5)


def test_large_counts_come_in_scientific_notation() -> None:
    assert read_load(said(0, "1.234567e+06", "0.0", "0.0")).output_tokens == 1_234_567


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# HELP vllm:generation_tokens_total Number of generation tokens processed.\n",
        "vllm:generation_tokens_total 5.0\n",
        f"other:generation_tokens_total{{{LABELS}}} 5.0\n",
        f"# vllm:generation_tokens_total{{{LABELS}}} 5.0\n",
    ],
)
def test_where_a_server_says_nothing_the_load_is_zero(text: str) -> None:
    assert read_load(text) == Load(0, 0, 0)


def test_the_counters_are_read_from_the_same_text() -> None:
    text = said(0, "50.0", "1.0", "0.0") + (
        f"vllm:spec_decode_num_drafts_total{{{LABELS}}} 10.0\n"
        f"vllm:spec_decode_num_draft_tokens_total{{{LABELS}}} 30.0\n"
        f"vllm:spec_decode_num_accepted_tokens_total{{{LABELS}}} 12.0\n"
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{LABELS},position="0"}} 8.0\n'
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{LABELS},position="2"}} 4.0\n'
    )
    assert read_prometheus(text) == Counters(10, 30, 12, (8, 0, 4))
    assert read_load(text) == Load(50, 1, 0)


# What vLLM 0.32 (CPU build) says with --data-parallel-size 2 and as many server processes.
RECORDED = (Path(__file__).parent / "data_parallel.txt").read_text()


def of_engine(engine: int) -> str:
    lines = RECORDED.splitlines(keepends=True)
    return "".join(line for line in lines if f'engine="{engine}"' in line)


def test_a_data_parallel_servers_counts_are_those_of_its_engines() -> None:
    first, second = (read_prometheus(of_engine(engine)) for engine in (0, 1))
    assert first == Counters(224, 1120, 510, (166, 122, 94, 72, 56))
    assert second == Counters(178, 890, 441, (138, 108, 82, 64, 49))
    assert read_prometheus(RECORDED) == first + second
    assert read_load(RECORDED) == Load(715 + 611, 0, 0)
