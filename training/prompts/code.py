"""Programming requests: function stubs with true examples, stubs begun, and plain questions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from training.conversation import UserTurn
from training.prompts.words import ITEMS
from training.sets import FUNCTION


@dataclass(frozen=True)
class Domain:
    """Functions of one kind of list: which elements count, and what is made of them."""

    argument: str
    annotation: str
    draw: Callable[[random.Random], Any]
    filters: dict[str, tuple[str, Callable[[Any], bool]]]
    operations: dict[str, tuple[str, str, Callable[[list[Any]], Any]]]


NUMBERS = Domain(
    argument="numbers",
    annotation="List[int]",
    draw=lambda rng: rng.randint(-9, 20),
    filters={
        "even": ("the even numbers", lambda x: x % 2 == 0),
        "odd": ("the odd numbers", lambda x: x % 2 == 1),
        "positive": ("the positive numbers", lambda x: x > 0),
        "negative": ("the negative numbers", lambda x: x < 0),
        "nonzero": ("the numbers that are not zero", lambda x: x != 0),
        "small": ("the numbers below ten", lambda x: x < 10),
        "large": ("the numbers greater than five", lambda x: x > 5),
        "threes": ("the multiples of three", lambda x: x % 3 == 0),
        "single_digit": ("the numbers with a single digit", lambda x: abs(x) < 10),
        "all": ("all numbers", lambda x: True),
    },
    operations={
        "sum": ("int", "Return the sum of", sum),
        "count": ("int", "Count", len),
        "max": ("int", "Find the largest of", lambda xs: max(xs, default=0)),
        "min": ("int", "Find the smallest of", lambda xs: min(xs, default=0)),
        "sort": ("List[int]", "Return a sorted list of", sorted),
        "square": ("List[int]", "Return the squares of", lambda xs: [x * x for x in xs]),
        "double": ("List[int]", "Return a list with twice each of", lambda xs: [2 * x for x in xs]),
        "reverse": ("List[int]", "Return, in reverse order,", lambda xs: xs[::-1]),
        "unique": ("List[int]", "Remove duplicates from", lambda xs: list(dict.fromkeys(xs))),
        "total_squares": ("int", "Add up the squares of", lambda xs: sum(x * x for x in xs)),
        "first": ("int", "Return the first (or 0 if there is none) of", lambda xs: (*xs, 0)[0]),
        "average": ("float", "Compute the mean of", lambda xs: sum(xs) / len(xs) if xs else 0.0),
        "has": ("bool", "Return True if there is at least one of", bool),
    },
)
WORDS = Domain(
    argument="words",
    annotation="List[str]",
    draw=lambda rng: rng.choice([*ITEMS, "level", "noon", "a", "", "Sky", "apple", "Eve", "radar"]),
    filters={
        "short": ("the words with fewer than six letters", lambda w: len(w) < 6),
        "long": ("the words longer than five letters", lambda w: len(w) > 5),
        "vowel": ("the words that start with a vowel", lambda w: w[:1].lower() in set("aeiou")),
        "palindrome": ("the words that are palindromes", lambda w: w == w[::-1]),
        "nonempty": ("the words that are not empty", bool),
        "s_ending": ("the words that end with the letter s", lambda w: w.endswith("s")),
        "capitalized": ("the words that begin with a capital letter", lambda w: w[:1].isupper()),
        "every": ("all words", lambda w: True),
    },
    operations={
        "join": ("str", "Join with spaces", " ".join),
        "count": ("int", "Count", len),
        "upper": ("List[str]", "Return in upper case", lambda ws: [w.upper() for w in ws]),
        "lengths": ("List[int]", "Return the lengths of", lambda ws: [len(w) for w in ws]),
        "reverse": ("List[str]", "Reverse the letters of", lambda ws: [w[::-1] for w in ws]),
        "sort": ("List[str]", "Return in alphabetical order", sorted),
        "longest": ("str", "Find the longest of", lambda ws: max(ws, key=len, default="")),
        "initials": ("str", "Concatenate the first letters of", lambda ws: "".join(w[:1] for w in ws)),
        "letters": ("int", "Count the letters of", lambda ws: sum(map(len, ws))),
        "histogram": ("dict", "Count how often each occurs among", lambda ws: {w: ws.count(w) for w in ws}),
    },
)  # fmt: skip
VERBS = "get find compute make list collect extract build check count".split()
NOTES = (
    "",
    "\n    If the list is empty, return a sensible default.",
    "\n    The input list must not be changed.",
    "\n    Elements keep their original order unless sorted.",
    "\n    Assume that the input is always valid.",
    "\n    Try to solve it in a single pass.",
)
SIGNATURES = (
    "def is_{w}(n: int) -> bool:",
    "def count_{w}(text: str) -> int:",
    "def remove_{w}(text: str) -> str:",
    "def find_{w}(values: List[int]) -> int:",
    "def {w}_sum(values: List[int], k: int) -> int:",
    "def sort_by_{w}(items: List[str]) -> List[str]:",
    "def {w}_pairs(a: List[int], b: List[int]) -> List[tuple]:",
    "def largest_{w}(n: int) -> int:",
    "def split_{w}(text: str) -> List[str]:",
    "def convert_{w}(value: float) -> float:",
    "def encode_{w}(message: str, shift: int) -> str:",
    "def merge_{w}(first: dict, second: dict) -> dict:",
    "def nth_{w}(n: int) -> int:",
    "def validate_{w}(text: str) -> bool:",
    "def rotate_{w}(grid: List[List[int]]) -> List[List[int]]:",
    "def rolling_{w}(values: List[float]) -> List[float]:",
    "def common_{w}(a: str, b: str) -> str:",
    "def {w}(x, y):",
    "def {w}(lst):",
    "def {w}(s: str) -> str:",
)
SUBJECTS = (
    "prime digits vowels duplicates peaks intervals brackets words anagram power divisors factors "
    "fibonacci median mode prefix suffix spaces letters consonants squares cubes triangle matrix "
    "date time password email binary roman frequency distance average difference product gaps "
    "neighbors sequence substring palindrome temperature score balance price inventory path steps"
).split()
DOC_STARTS = (
    "Return", "Given", "Check whether", "Find the", "Count the number of", "You are given",
    "Write a function that", "Compute", "This function takes", "Create a function", "For a given",
    "Remove", "Convert", "Return True if", "Return a list of",
)  # fmt: skip
TASKS = (
    "checks if a string is a palindrome", "finds the second largest number in a list",
    "merges two sorted lists", "counts the words in a text file", "reverses a linked list",
    "computes the factorial of a number", "prints the first n Fibonacci numbers",
    "removes duplicates from a list", "finds the longest word in a sentence",
    "checks if a number is prime", "sorts a dictionary by its values", "flattens a nested list",
    "computes the greatest common divisor", "validates an email address", "reads a CSV file",
    "implements binary search", "implements a stack with push and pop", "rotates a matrix",
    "counts vowels and consonants", "converts Celsius to Fahrenheit", "generates a password",
    "finds all anagrams of a word", "computes a moving average", "checks balanced parentheses",
    "implements bubble sort", "finds the missing number in a sequence", "draws a multiplication "
    "table", "parses a date in the form YYYY-MM-DD", "computes compound interest",
    "simulates rolling two dice", "finds common elements of two lists", "computes the power set",
    "groups words by their first letter", "sums the digits of an integer", "transposes a matrix",
    "finds the maximum subarray sum", "counts inversions", "implements a queue with two stacks",
)  # fmt: skip
LANGUAGES = ("Python", "Python", "Python", "JavaScript", "Java", "C++", "SQL", "Bash", "HTML")
REQUESTS = (
    "Write a {l} function that {t}.",
    "Write a {l} program that {t}. Explain how it works.",
    "Can you show me {l} code that {t}?",
    "Implement a {l} function that {t} and give an example of its use.",
    "How do I write {l} code that {t}?",
    "What is the time complexity of an algorithm that {t}?",
    "Write unit tests for a {l} function that {t}.",
    "Explain step by step an algorithm that {t}.",
)
BEGINNINGS = (
    "Write a Python function", "Write a {l} program that", "Explain what this {l} code does:\n",
    "Fix the bug in this code:\n```python\ndef", "How do I", "What is the difference between",
    "Write a class", "Develop a {l} program", "Implement", "Create a {l} script that",
    "Write a function to find", "Given an array of", "Refactor the following code:\n```python\n",
)  # fmt: skip


def example(domain: Domain, name: str, keep: Any, make: Any, rng: random.Random) -> str:
    """A doctest line and its true result."""
    values = [domain.draw(rng) for _ in range(rng.randint(2, 6))]
    return f"    >>> {name}({values!r})\n    {make([v for v in values if keep(v)])!r}\n"


def stub(rng: random.Random) -> str:
    """A function stub whose docstring says what is wanted, with true examples."""
    domain = rng.choice((NUMBERS, WORDS))
    short, (elements, keep) = rng.choice(list(domain.filters.items()))
    verb, (result, doing, make) = rng.choice(list(domain.operations.items()))
    name = rng.choice((f"{verb}_{short}", f"{rng.choice(VERBS)}_{short}_{verb}", f"{short}_{verb}"))
    header = "from typing import List\n\n\n" if rng.random() < 0.6 else ""
    quote = rng.choice(('"""', "'''"))
    start = rng.choice((f"{quote} ", quote, f"{quote}\n    "))
    examples = "".join(example(domain, name, keep, make, rng) for _ in range(rng.randint(1, 3)))
    return (
        f"{header}def {name}({domain.argument}: {domain.annotation}) -> {result}:\n    {start}"
        f"{doing} {elements} in the given list.{rng.choice(NOTES)}\n{examples}    {quote}\n"
    )


def begun_stub(rng: random.Random) -> UserTurn:
    """A stub whose docstring the target continues."""
    signature = rng.choice(SIGNATURES).format(w=rng.choice(SUBJECTS))
    header = "from typing import List\n\n\n" if "List" in signature else ""
    opening = f'{header}{signature}\n    """ {rng.choice(DOC_STARTS)}'
    before, after = FUNCTION.split("{stub}")
    return UserTurn("code", before + opening, rng.choice((40, 70, 100)), f'\n    """\n{after}')


def code_turn(rng: random.Random) -> UserTurn:
    """A stub in the benchmark's wording, a request for code, or the beginning of one."""
    draw = rng.random()
    if draw < 0.35:
        return UserTurn("code", FUNCTION.format(stub=stub(rng)))
    if draw < 0.65:
        return begun_stub(rng)
    if draw < 0.80:
        request = rng.choice(REQUESTS)
        return UserTurn("code", request.format(l=rng.choice(LANGUAGES), t=rng.choice(TASKS)))
    beginning = rng.choice(BEGINNINGS).format(l=rng.choice(LANGUAGES))
    return UserTurn("code", beginning, rng.choice((40, 70)))
