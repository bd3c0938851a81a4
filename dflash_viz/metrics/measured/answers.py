"""What an answer says in the end: its final number, or whether its code is Python at all.

Texts come from models and can be anything: every pattern here takes time in proportion to the text,
and nothing is ever run.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from fractions import Fraction

MAX_CODE = 100_000
"""Characters of code that are parsed; no answer is as long, and the parser's time grows with them."""
_MAX_BOXED = 200  # characters looked through for the closing brace
_MAX_DIGITS = 60  # of a fraction's parts
_PLACES = 6  # decimal places that a fraction is rounded to

_NUMBER = (
    r"[-−$]{0,3}(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:/[0-9]+(?![0-9./]))?|\.[0-9]+)"
)
# Neither a number nor its minus begins inside a word or another number: 7-5 holds 7 and 5.
_ANY_NUMBER = re.compile(rf"(?<![\w.]){_NUMBER}")
_ANSWER_IS = re.compile(rf"answer\s{{0,9}}(?:is|:|=)[^0-9\n]{{0,40}}?(?<![\w.])({_NUMBER})", re.IGNORECASE)
# The line's rest is the number alone: after "#### Step 2: check" an answer goes on.
_HASHES = re.compile(rf"####[ \t]{{0,9}}[*_]{{0,3}}({_NUMBER})[.%$*_]{{0,4}}[ \t\r]{{0,9}}$", re.MULTILINE)
_BOXED = re.compile(r"\\boxed\s{0,9}\{")
_FRACTION = re.compile(r"([-−]?)\\[dt]?frac\s{0,9}\{([0-9]{1,40})\}\s{0,9}\{([0-9]{1,40})\}")
_WORDS = re.compile(r"\\(?:text|mathrm|textbf|mbox)\{[^{}]*\}(?:\^\{?[0-9]\}?)?")
_SEPARATORS = (("{,}", ","), ("\\,", ""), ("\\!", ""), ("\\$", "$"))
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*([\w+-]*)")
_PYTHON = ("python", "python3", "py")
_NO_PYTHON = (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError)


def final_number(text: str) -> str | None:
    r"""The number that an answer ends up with, as plain decimal digits; None if it has none.

    In this order: the last ``\boxed{}`` that holds something, the last line that ends in ``#### n``, the
    last "answer is n", the last number of all. ``1,000.50``, ``$1000.5`` and ``1000.5`` are the same;
    fractions become decimals of six places. None too when a box holds several numbers.
    """
    for old, new in _SEPARATORS:
        text = text.replace(old, new)
    for box in reversed(list(_BOXED.finditer(text))):
        if found := _numbers(_inside(text, box.end())):
            return one_spelling(found[0]) if len(found) == 1 else None
    said = _HASHES.findall(text) or _ANSWER_IS.findall(text) or _ANY_NUMBER.findall(text)
    return one_spelling(said[-1]) if said else None


def parses_as_python(text: str) -> bool:
    """Whether an answer's code is Python by its syntax; it is parsed, never run.

    The code is the longest fenced block that says it is Python, else the longest fenced block, else
    the whole text. False where there is none, and for more than ``MAX_CODE`` characters.
    """
    code = textwrap.dedent(_code(text)).strip("\n")
    if not code.strip() or len(code) > MAX_CODE:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser warns of odd escapes, and they are the model's
            ast.parse(code)
    except _NO_PYTHON:
        return False
    return True


def _inside(text: str, begin: int) -> str:
    """What stands before the brace that closes the one before ``begin``; empty if none does soon."""
    depth = 1
    for at in range(begin, min(len(text), begin + _MAX_BOXED)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[begin:at].strip()
    return ""


def _numbers(content: str) -> list[str]:
    """The numbers in a short piece of text; units are no part of them unless there is nothing else."""
    content = _FRACTION.sub(r"\1\2/\3", content)
    return _ANY_NUMBER.findall(_WORDS.sub("", content)) or _ANY_NUMBER.findall(content)


def one_spelling(number: str) -> str | None:
    """A number as it was found in a text, in one spelling; None for a fraction of nothing.

    ``number`` is digits with what may stand around and between them: signs, dollars, commas, a point, and
    a second number after a stroke.
    """
    negative = "-" in number or "−" in number
    digits = number.lstrip("-−$").replace(",", "")
    if "/" in digits:
        above, _, below = digits.partition("/")
        if len(digits) > _MAX_DIGITS or not int(below):
            return None
        scaled = round(Fraction(above) / int(below) * 10**_PLACES)
        digits = str(scaled).rjust(_PLACES + 1, "0")
        digits = f"{digits[:-_PLACES]}.{digits[-_PLACES:]}"
    whole, _, rest = digits.partition(".")
    whole, rest = whole.lstrip("0") or "0", rest.rstrip("0")
    plain = f"{whole}.{rest}" if rest else whole
    return f"-{plain}" if negative and plain != "0" else plain


def _code(text: str) -> str:
    blocks = _fenced(text)
    python = [code for language, code in blocks if language.lower() in _PYTHON]
    return max(python or [code for _, code in blocks] or [text], key=len)


def _fenced(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a text, as language and content; the last one need not be closed."""
    blocks: list[tuple[str, list[str]]] = []
    inside = False
    for line in text.split("\n"):
        if (fence := _FENCE.match(line)) is not None:
            inside = not inside
            if inside:
                blocks.append((fence[1], []))
        elif inside:
            blocks[-1][1].append(line)
    return [(language, "\n".join(lines)) for language, lines in blocks]
