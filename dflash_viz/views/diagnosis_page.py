"""What the rules found in the traces of one lane, each with its evidence and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dflash_viz.metrics import RULES, Finding, MixedTracesError, diagnose
from dflash_viz.trace import Trace
from dflash_viz.views.markup import all_named, heading, items, page, paragraph, table

LABEL = "Diagnosis"


def diagnosis_html(traces: Sequence[Trace], plain: Sequence[Trace] = ()) -> str:
    """The whole page for the traces of one lane; one sentence if they are of several or there are none.

    ``plain`` are runs of the same prompts without speculation, if there are any.
    """
    if not traces:
        return page(LABEL, paragraph("Choose a trace.", "note"))
    try:
        findings = diagnose(traces, plain)
    except MixedTracesError as error:
        return page(LABEL, paragraph(str(error), "problem"))
    return page(LABEL, paragraph(_summary(traces, findings)), *map(_article, findings), *_asked(findings))


def _summary(traces: Sequence[Trace], findings: Sequence[Finding]) -> str:
    found = (
        f"{len(findings)} of {len(RULES)} rules found something."
        if findings
        else "No rule found anything. That is no proof: a rule that has too little to judge by keeps silent."
    )
    return f"{all_named(traces)}. {found}"


def _article(finding: Finding) -> str:
    return (
        f'<article class="dv-finding" data-rule="{escape(finding.rule)}">'
        f'<h3><span aria-hidden="true">⚠</span> {escape(finding.title)}</h3>{paragraph(finding.meaning)}'
        f"<h4>Evidence</h4>{items(finding.evidence)}<h4>What to do</h4>{paragraph(finding.action)}</article>"
    )


def _asked(findings: Sequence[Finding]) -> tuple[str, str]:
    found = {finding.rule for finding in findings}
    rows = [
        (rule.question, "⚠ yes" if rule.key in found else "– nothing found", rule.needs) for rule in RULES
    ]
    return heading("What was asked"), table("All rules", ("question", "answer", "needs at least"), rows)
