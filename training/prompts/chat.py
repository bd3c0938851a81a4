"""Everyday requests: writing, roleplay, reasoning, extraction, science and the humanities."""

from __future__ import annotations

import random

from training.conversation import UserTurn
from training.prompts.words import ANIMALS, CITIES, ITEMS, JOBS, NAMES, PLACES, TOPICS

WRITING = (
    "Write a short {form} about {t}.",
    "Write a {form} about {t} for {who}. Keep it {style}.",
    "Write an email to {n} about {t}. The tone should be {style}.",
    "Draft a message to my landlord about a {thing} that has been broken for {k} days.",
    "Write the opening paragraph of a novel that begins in {city} and involves {t}.",
    "Describe a {p} in {city} at dawn so that a reader can smell and hear it.",
    "Write a {k}-sentence product description for a {thing}.",
    "Write a speech of about one minute for {n}'s {event}.",
    "Rewrite this sentence so that it sounds {style}: '{n} said that the {p} would close early "
    "because of {t}.'",
    "Compose a {form} in which a {j} from {city} discovers {t}.",
    "Write a review of a {p} in {city} that has wonderful {i} but slow service.",
    "Suggest {k} titles for a {form} about {t}, and say in one line what each promises.",
    "Write a dialogue between a {j} and a customer who is unhappy about the {i}.",
    "Plan a weekend in {city} for {who} on a small budget.",
    "Write instructions for {who}: how to take care of {a}.",
)
ROLEPLAY = (
    "You are a {j} in {city}. A visitor asks you about {t}. What do you say?",
    "Pretend to be a {style} {j} and explain {t} to {who}.",
    "Act as an interviewer and ask me {k} questions about {t}.",
    "Imagine you are one of the {a} in a zoo. Tell me about your day.",
    "You are a time traveler who has just arrived in {city}. Describe your first hour.",
    "Play the role of a coach who helps me to get better at {t}.",
    "Speak as a detective. A box of {i} vanished from the {p}. Whom do you suspect, and why?",
    "Let's play a game: you are a {j} and I am your new apprentice. Give me my first lesson.",
    "You are a tour guide in {city}. Greet a group of {who} and introduce the three best sights.",
    "Answer as a pirate would: what do you think of {t}?",
)
REASONING = (
    "{n} is taller than {m}, and {m} is taller than {o}. Who is the shortest, and how do you know?",
    "Which of these does not belong with the others: {i}, {i2}, {a}, {i3}? Explain your choice.",
    "If all {a} at the {p} are friendly, and {n} met one of them, what can you conclude?",
    "{n} left home before {m} but arrived after {m}. Give {k} possible explanations.",
    "What are the advantages and disadvantages of {t}?",
    "Is it better to learn about {t} or about {t2} first? Give reasons for both views.",
    "A {j} says that {t} is more important than {t2}. How would you argue against that?",
    "Three boxes hold {i}, {i2} and {i3}, and every label is wrong. How can you sort them out?",
    "{n} faces north, turns right twice and then left once. Which way does {n} face now?",
    "Yesterday was the day before {day}. What day will it be in {k} days?",
    "What would happen if there were no {a} in the world?",
)
KNOWLEDGE = (
    "Explain {t} in simple terms.",
    "What is {t}, and why does it matter?",
    "How does {t} relate to {t2}?",
    "Give me {k} facts about {t}.",
    "Explain {t} to {who} with an example from daily life.",
    "What are the main causes and effects of {t}?",
    "Compare {t} and {t2}. What do they have in common, and how do they differ?",
    "Describe the history of {t} in a few paragraphs.",
    "What are common misconceptions about {t}?",
    "Who are the most important people in the history of {t}, and what did they contribute?",
    "Design a lesson plan about {t} for {who}.",
    "What questions about {t} are still open?",
    "Summarize {t} in {k} bullet points.",
    "What are some tips for {t}?",
    "List {k} steps to get started with {t}.",
    "Outline an experiment that shows something about {t}. What would you measure?",
    "How has {t} changed over the last hundred years?",
    "Create a table of {k} terms about {t} and their meanings.",
)
RECORDS = (
    "{n} from {city} ordered {x} {i} on {day} and paid ${y}.",
    "On {day}, {n} visited the {p} in {city} with {m} and spent ${y} on {i}.",
    "{n}, a {j} aged {x}, moved to {city} after {y} years at the {p}.",
    "The {p} in {city} sold {y} {i} last {day}, {x} more than planned.",
    "{n} rated the {p} {k} out of 10, praised its {i} and complained about the noise.",
)
EXTRACTION = (
    "Extract all names and places from this text and return them as JSON: {text}",
    "Read the following text and list the people, the amounts and the days in it.\n\n{text}",
    "Turn these notes into a table with the columns name, place and amount.\n{text}",
    "{text}\n\nAnswer with one line per person: what did each of them do?",
    "Summarize this text in one sentence: {text}",
    "Classify each sentence as positive, neutral or negative.\n{text}",
    "From the text below, find the largest number and say what it counts.\n\n{text}",
    "Translate the following notes into a short report in the past tense. {text}",
)
BEGINNINGS = (
    "Write a", "Write a short story about", "Write an email", "Can you explain", "What is",
    "What are the", "How do I", "How can I", "Why do", "I want to", "I need help with",
    "Imagine you are", "You are a", "Pretend to be", "Create a list of", "Summarize the following",
    "Give me", "Describe", "Compare", "Explain", "Tell me about", "Suggest", "Which", "Is it true "
    "that", "Help me", "Please", "Rewrite the following", "Translate", "Draft", "Design", "Discuss",
    "Analyze", "Provide", "My friend", "I have been", "Suppose", "Who", "When did", "Where",
    "Identify", "Extract", "Given the following", "Edit the following paragraph", "Compose",
    "Act as", "Take on the role of", "Evaluate", "Outline", "In the field of", "Convert", "Let's",
    "Hello", "I'm feeling", "Do you", "Should", "As a {j},", "{n} is", "What would happen if",
    "In {city},", "Tell me a story about {n}, a {j} who", "Explain {t}", "Discuss how {t}",
    "What do you think about {t}", "Write a {form} about {t}", "Describe how {t}",
)  # fmt: skip
FORMS = (
    "poem|story|essay|blog post|letter|song|fable|news article|diary entry|haiku|limerick|scene|"
    "speech|article|advertisement|social media post|summary|fairy tale|script"
).split("|")
AUDIENCES = (
    "children|beginners|a ten-year-old|college students|retired people|busy parents|my boss|"
    "tourists|my grandmother|engineers|a class of teenagers|new employees"
).split("|")
STYLES = (
    "formal|funny|short and simple|friendly|serious|dramatic|polite|persuasive|calm|enthusiastic|"
    "old-fashioned|poetic"
).split("|")
THINGS = (
    "lamp|heater|window|backpack|coffee machine|washing machine|bicycle|desk|phone|umbrella|door|"
    "water bottle|alarm clock|guitar|chair|camera"
).split("|")
EVENTS = "wedding|graduation|birthday|retirement|promotion|farewell party|housewarming".split("|")
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
WRITTEN = (WRITING, ROLEPLAY, REASONING, KNOWLEDGE, EXTRACTION)
WRITTEN_SHARES = (0.27, 0.15, 0.13, 0.30, 0.15)


def fill(template: str, rng: random.Random, text: str = "") -> str:
    """Put topics, people and things into a template."""
    n, m, o = rng.sample(NAMES, 3)
    t, t2 = rng.sample(TOPICS, 2)
    i, i2, i3 = rng.sample(ITEMS, 3)
    return template.format(
        n=n, m=m, o=o, t=t, t2=t2, i=i, i2=i2, i3=i3, text=text,
        a=rng.choice(ANIMALS),
        p=rng.choice(PLACES),
        j=rng.choice(JOBS),
        city=rng.choice(CITIES),
        form=rng.choice(FORMS),
        who=rng.choice(AUDIENCES),
        style=rng.choice(STYLES),
        thing=rng.choice(THINGS),
        event=rng.choice(EVENTS),
        day=rng.choice(DAYS),
        k=rng.randint(3, 10),
        x=rng.randint(12, 70),
        y=rng.randint(5, 900),
    )  # fmt: skip


def passage(rng: random.Random) -> str:
    """A few sentences with names, places and numbers in them."""
    return " ".join(fill(rng.choice(RECORDS), rng) for _ in range(rng.randint(2, 5)))


def chat_turn(rng: random.Random) -> UserTurn:
    """A request written out, or the beginning of one."""
    if rng.random() < 0.5:
        return UserTurn("chat", fill(rng.choice(BEGINNINGS), rng), rng.choice((20, 40, 80)))
    templates = rng.choices(WRITTEN, WRITTEN_SHARES)[0]
    return UserTurn("chat", fill(rng.choice(templates), rng, passage(rng)))
