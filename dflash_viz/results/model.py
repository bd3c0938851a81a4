"""What a benchmark leaves behind: what was asked of which engines, every answer's counts, the course.

A result is a file of JSON lines, written as things happen, so that an interrupted benchmark keeps
what it has. All durations are seconds. Nothing that can be computed from the lines is stored in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from dflash_viz.trace import PLAIN, Check, Fingerprint

SCHEMA_VERSION = "1.0"

Turns = Literal["first", "both"]
Grader = Literal["number", "python", ""]


class DatasetPrint(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which questions were asked: the data set's name, where it came from, and how many of how many.

    ``content_hash`` is over the prompts in their order, so that two results of the same questions
    are known as such; ``skipped`` says which lines of a file were left out as unreadable.
    """

    name: str
    source: str
    num_questions: int
    num_available: int
    turns: Turns = "first"
    content_hash: str = ""
    skipped: list[str] = []


class Setting(msgspec.Struct, frozen=True):
    """One thing that is measured: a lane at one K, one temperature and one concurrency (requests that
    are answered at the same time)."""

    lane: str
    method: str
    num_speculative_tokens: int
    temperature: float
    concurrency: int

    @property
    def plain(self) -> bool:
        """Whether it drafts nothing, so that others are compared with it."""
        return self.method == PLAIN


class Plan(msgspec.Struct, frozen=True):
    """What is to be measured. ``pair`` is the preset's name; ``top_k`` the recorded probabilities."""

    pair: str
    dataset: DatasetPrint
    settings: list[Setting]
    max_tokens: int
    top_p: float = 1.0
    seed: int = 0
    top_k: int = 0


class Head(msgspec.Struct, frozen=True, tag="head", tag_field="type"):
    """The first line: what is to be measured, when it began, with which version of this program."""

    schema: str
    result_id: str
    created_at: str
    program: str
    plan: Plan


class Question(msgspec.Struct, frozen=True, omit_defaults=True, tag="question", tag_field="type"):
    """A prompt, or the turns of a conversation, in the data set's own prompt format.

    ``kind`` is its category. ``grader`` says what can be checked of the last turn's answer: a final
    number against ``reference``, or whether it is Python that parses.
    """

    id: str
    kind: str
    turns: list[str]
    grader: Grader = ""
    reference: str = ""


class Engine(msgspec.Struct, frozen=True, omit_defaults=True, tag="engine", tag_field="type"):
    """The engine that a setting ran on. ``template_options`` are what the chat template was given
    (``enable_thinking`` for example); ``options`` the server's."""

    setting: int
    fingerprint: Fingerprint
    template_options: dict[str, Any] = {}
    options: dict[str, Any] = {}


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, tag="answer", tag_field="type"):
    """One request: its counts, its times, its text.

    ``latency_s`` (from sending to the last token) and ``first_token_s`` are on the client's clock;
    ``decode_s`` on the engine's, from the end of the prompt's own step to the end of the last one, in
    which ``num_decode_tokens`` tokens were emitted by ``num_steps`` steps. ``accepted_per_position[i]``
    counts the drafts whose token i was accepted, ``drafted_per_position[i]`` those that had one.
    ``batch_size`` is the mean number of requests that shared this one's steps. ``check`` compares the
    trace with vLLM's own counts; ``trace`` is its file, relative to the result's folder.
    """

    setting: int
    question: str
    kind: str
    latency_s: float
    decode_s: float
    num_prompt_tokens: int
    num_output_tokens: int
    num_decode_tokens: int
    num_steps: int
    finish_reason: str
    text: str
    check: Check
    turn: int = 0
    first_token_s: float | None = None
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted: int = 0
    accepted_per_position: list[int] = []
    drafted_per_position: list[int] = []
    draft_s: float = 0.0
    verify_s: float = 0.0
    batch_size: float = 1.0
    trace: str = ""

    @property
    def acceptance_length(self) -> float | None:
        """This answer's own AL: 1 + accepted tokens / drafts."""
        return 1 + self.num_accepted / self.num_drafts if self.num_drafts else None


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, tag="failure", tag_field="type"):
    """A question that got no answer, or a setting whose engine did not start (``question`` empty)."""

    setting: int
    message: str
    question: str = ""
    turn: int = 0


class Sample(msgspec.Struct, frozen=True, tag="sample", tag_field="type"):
    """The difference of vLLM's own counters over one interval: from ``at`` - ``seconds`` to ``at``
    seconds after the stretch began; ``running`` and ``waiting`` are requests at its end."""

    setting: int
    at: float
    seconds: float
    output_tokens: int
    num_drafts: int
    num_draft_tokens: int
    num_accepted: int
    running: int
    waiting: int


class Stretch(msgspec.Struct, frozen=True, omit_defaults=True, tag="stretch", tag_field="type"):
    """A time in which a setting was measured without a break: an interrupted one has several.

    ``num_answers`` answers of ``answer_tokens`` tokens in all were finished in ``seconds``. The other
    counts are the differences of vLLM's own counters (``/metrics``) between its two ends; they include
    what was aborted. ``finished``: every question of the setting has been asked.
    """

    setting: int
    seconds: float
    num_answers: int
    answer_tokens: int
    output_tokens: int
    num_drafts: int
    num_draft_tokens: int
    num_accepted: int
    accepted_per_position: list[int] = []
    finished: bool = True


Line = Head | Question | Engine | Answer | Failure | Sample | Stretch


class Result(msgspec.Struct):
    """A whole result in memory. ``folder`` is where its traces lie, None when they are not at hand."""

    head: Head
    questions: dict[str, Question] = {}
    engines: dict[int, Engine] = {}
    answers: list[Answer] = []
    failures: list[Failure] = []
    samples: list[Sample] = []
    stretches: list[Stretch] = []
    notices: list[str] = []
    folder: str | None = None

    @property
    def plan(self) -> Plan:
        """What was to be measured."""
        return self.head.plan

    def add(self, line: Line) -> None:
        """Take in the next line after the head."""
        if isinstance(line, Question):
            self.questions[line.id] = line
        elif isinstance(line, Engine):
            self.engines[line.setting] = line
        elif isinstance(line, Answer):
            self.answers.append(line)
        elif isinstance(line, Failure):
            self.failures.append(line)
        elif isinstance(line, Sample):
            self.samples.append(line)
        elif isinstance(line, Stretch):
            self.stretches.append(line)

    def answers_of(self, setting: int) -> list[Answer]:
        """A setting's answers, in the order in which they ended."""
        return [answer for answer in self.answers if answer.setting == setting]

    def open_failures(self) -> list[Failure]:
        """The failures that nothing later has made good, each once: the question's answer, or an engine that
        measured its setting to the end."""
        answered = {(a.setting, a.question, a.turn) for a in self.answers}
        latest = {(one.setting, one.question, one.turn): one for one in self.failures}
        measured = {number for number in self.engines if self.finished(number)}
        return [
            one
            for key, one in latest.items()
            if key not in answered and not (one.question == "" and one.setting in measured)
        ]

    def finished(self, setting: int) -> bool:
        """Whether every question of a setting has been asked."""
        return any(one.finished for one in self.stretches if one.setting == setting)

    @property
    def complete(self) -> bool:
        """Whether all that was planned has been measured."""
        return all(self.finished(number) for number in range(len(self.plan.settings)))

    def plain_of(self, setting: int) -> int | None:
        """The setting without speculation at the same temperature and concurrency, if there is one."""
        asked = self.plan.settings[setting]
        for number, other in enumerate(self.plan.settings):
            same = (other.temperature, other.concurrency) == (asked.temperature, asked.concurrency)
            if other.plain and same:
                return number
        return None


def labels(settings: Iterable[Setting]) -> list[str]:
    """A name for each setting, as short as it can be: what is the same in all of them is left out."""
    settings = list(settings)
    ks = {(s.lane, s.num_speculative_tokens) for s in settings}
    lanes = {s.lane for s in settings}
    several_k = len(ks) > len(lanes)
    several_t = len({s.temperature for s in settings}) > 1
    several_c = len({s.concurrency for s in settings}) > 1
    names = []
    for s in settings:
        parts = [s.lane]
        if several_k and not s.plain:
            parts.append(f"K = {s.num_speculative_tokens}")
        if several_t:
            parts.append(f"temperature {s.temperature:g}")
        if several_c:
            parts.append(f"{s.concurrency} at once")
        names.append(", ".join(parts))
    return names
