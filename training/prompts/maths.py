"""Word problems: schemas with names, things and numbers, or beginnings that the target continues."""

from __future__ import annotations

import random

from training.conversation import UserTurn
from training.prompts.words import ANIMALS, ITEMS, JOBS, NAMES, PLACES, VEHICLES
from training.sets import BOXED

SCHEMAS = (
    "{n} has {b} {i}. {m} gives {n} {a} more, and then {n} loses {c}. How many {i} are left?",
    "A {p} sells {i} for ${a} each. On Monday it sold {b} of them and on Tuesday {c}. How much "
    "money did the {p} earn on both days together?",
    "{n} buys {a} packs of {i} with {b} {i} in each pack. If {n} shares them equally among {c} "
    "friends, how many does each friend get?",
    "A {v} travels at {h} miles per hour for {a} hours and then at {g} miles per hour for {c} "
    "hours. What is the total distance?",
    "{n} earns ${b} an hour as a {j}. Last week {n} worked {h} hours and spent ${g} on {i}. How "
    "much money was left?",
    "There are {h} students in a class. {t}% of them bring {i}. How many students do not bring any {i}?",
    "{n} is {a} years older than {m}. In {c} years the sum of their ages will be {h}. How old is {n} now?",
    "A box holds {a} {i}. A {p} received {b} boxes, but {c} of the {i} were broken. How many whole "
    "{i} does the {p} have?",
    "{n} read {a} pages on the first day and twice as many on the second day. The book has {h} "
    "pages. How many pages remain?",
    "A {j} needs {a} hours to finish one order of {i}. How many orders can {c} workers finish in "
    "{h} hours if they all work at the same speed?",
    "The price of a set of {i} is ${h}. {n} has a coupon for {t}% off and pays ${c} for shipping. "
    "What does {n} pay in total?",
    "{n} saves ${a} in the first week, and every week after that ${c} more than the week before. "
    "How much has {n} saved after {d} weeks?",
    "A rectangular garden is {b} meters long and {a} meters wide. {n} wants to put a fence around "
    "it that costs ${c} per meter. How much does the fence cost?",
    "A farm has {b} {x} and {h} {y}. Each of the {x} eats {c} pounds of food a day, and each of "
    "the {y} eats {a}. How many pounds of food are needed for {d} days?",
    "{n}, {m} and {o} share {h} {i}. {n} takes {b} of them, {m} takes half of what remains, and "
    "{o} gets the rest. How many {i} does {o} get?",
    "A tank contains {h} liters of water. It loses {c} liters every hour, and {n} adds {a} liters "
    "every hour. How much water is in the tank after {d} hours?",
    "{n} can plant {a} seeds in a minute while {m} can plant {c}. How many seeds can they plant "
    "together in {b} minutes?",
    "At a {p}, adult tickets cost ${b} and child tickets cost ${a}. A group of {d} adults and {c} "
    "children pays with two ${h} bills. How much change does the group receive?",
    "{n} runs {a} kilometers every weekday and {b} kilometers on each day of the weekend. How many "
    "kilometers does {n} run in {d} weeks?",
    "A recipe for {d} people needs {a} cups of flour and {c} eggs. How many cups of flour and how "
    "many eggs does {n} need for {g} people?",
    "{n} had some {i}. After giving {a} to {m} and {c} to {o}, {n} had {b} left. How many {i} did "
    "{n} have at first?",
    "Half of the {h} {i} at the {p} are red, a quarter of them are blue, and the rest are green. "
    "How many {i} are green?",
    "{n} downloads a file of {g} gigabytes at {d} gigabytes per minute. Halfway through, the speed "
    "drops by half. How many minutes does the whole download take?",
    "Each day the {p} uses {b} kilograms of sugar. It has {g} kilograms and gets a delivery of {h} "
    "kilograms at the end of the week. For how many days will all of the sugar last?",
    "A {j} charges ${h} per visit plus ${b} for every hour. How much does a visit of {d} hours "
    "cost, and how much do {c} such visits cost?",
    "{n} bought {b} {i} for ${a} each and sold all of them for ${g} each. What was the profit?",
    "The sum of two numbers is {h} and one of them is {b} more than the other. What are the two numbers?",
    "If {a} {i} cost ${b}, how much do {g} {i} cost?",
    "{n} has {b} coins, all of them dimes and quarters. {a} of them are quarters. How much money "
    "does {n} have?",
    "A {v} uses {a} liters of fuel for every {h} kilometers. Fuel costs ${d} a liter. How much "
    "does a trip of {k} kilometers cost?",
    "{n} sleeps {d} hours a night, {m} sleeps {c} hours more, and {o} sleeps as long as the average "
    "of the two. How many hours does {o} sleep in a week?",
    "A theater has {b} rows with {h} seats each. {t}% of the seats are taken. How many seats are empty?",
    "What is {t}% of {k}, and how much is left when it is taken away from {k}?",
    "Solve for x: {a}x + {b} = {k}.",
    "The perimeter of a square is {k} centimeters. What is its area?",
    "A bag contains {a} red, {b} blue and {c} green {i}. What is the probability of drawing a red "
    "one, and what is the probability of drawing one that is not green?",
    "A triangle has a base of {b} cm and a height of {h} cm. What is its area?",
    "Compute ({a} + {b}) * {c} - {h} / {d}.",
    "{n} invests ${k} at {d}% simple interest per year. How much is the investment worth after {c} years?",
    "The {p} opened with {h} visitors. Every hour {b} visitors arrive and {a} leave. How many "
    "visitors are there after {d} hours?",
)
OPENINGS = (
    "{n} has {b} {i}.",
    "{n} buys {b} {i} at the {p} for ${a} each.",
    "A {j} makes {a} {i} every day.",
    "A {p} has {h} {i}.",
    "{n} and {m} want to share {h} {i}.",
    "{n} works as a {j} and earns ${b} per hour.",
    "A {v} drives {h} miles",
    "There are {h} {x} and {b} {y} on a farm.",
    "{n} is training for a race. On Monday",
    "A school orders {b} boxes of {i}.",
    "{n} wants to save ${k} for a new {v}.",
    "At the {p}, {i} cost ${a} each.",
    "The {p} sold {h} {i} in the morning and",
    "{n} spends {d} hours a day",
    "In a class of {h} students,",
    "{n} is {g} years old.",
    "Every week, {n}",
    "A garden has {b} rows of",
    "{n} baked {h} {i} for the party.",
    "If a {v} goes {h} kilometers in {d} hours,",
    "{m} is twice as old as {n}.",
    "A box of {i} weighs {b} pounds.",
    "Find the value of",
    "How many",
    "{n} reads",
    "A company has",
)
ENDINGS = (BOXED,) * 6 + ("", "", "\nShow your work.", " Explain each step.", "\nAnswer:")


def fill(template: str, rng: random.Random) -> str:
    """Put names, things and numbers into a schema."""
    n, m, o = rng.sample(NAMES, 3)
    x, y = rng.sample(ANIMALS, 2)
    return template.format(
        n=n, m=m, o=o, x=x, y=y,
        i=rng.choice(ITEMS),
        p=rng.choice(PLACES),
        j=rng.choice(JOBS),
        v=rng.choice(VEHICLES),
        a=rng.randint(2, 12),
        b=rng.randint(6, 36),
        c=rng.randint(2, 9),
        d=rng.randint(2, 8),
        g=rng.randint(8, 60),
        h=rng.choice((rng.randint(20, 99), 10 * rng.randint(3, 50))),
        k=rng.choice((50, 100, 10)) * rng.randint(2, 40),
        t=5 * rng.randint(1, 18),
    )  # fmt: skip


def maths_turn(rng: random.Random) -> UserTurn:
    """A word problem, written out or begun; most ask for a boxed answer."""
    ending = rng.choice(ENDINGS)
    if rng.random() < 0.45:
        return UserTurn("maths", fill(rng.choice(SCHEMAS), rng) + ending)
    return UserTurn("maths", fill(rng.choice(OPENINGS), rng), rng.choice((50, 80, 110)), ending)
