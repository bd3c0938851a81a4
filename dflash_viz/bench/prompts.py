"""Sixty prompts written for this product, twenty of each kind; they need no download."""

MATHS = (
    "A baker makes 24 rolls an hour for 5 hours and sells 96 of them. How many rolls are left?",
    "What is 15% of 240? Show your work.",
    "A train travels 180 km in 3 hours. How far does it travel in 7 hours at the same speed?",
    "Solve for x: 3x + 12 = 45.",
    "Lena has twice as many stamps as Omar. Together they have 81. How many has each of them?",
    "A rectangle is 14 cm long and 9 cm wide. What are its area and its perimeter?",
    "If 6 pencils cost 4.50 dollars, how much do 10 pencils cost?",
    "What is the sum of the first 20 natural numbers?",
    "A tank holds 500 litres and loses 12 litres a day. How much is left after 3 weeks?",
    "Three friends share a bill of 87 dollars and leave a tip of 10%. How much does each of them pay?",
    "A cinema has 18 rows of 22 seats. On Friday 287 seats were taken. How many seats stayed empty?",
    "A coat costs 48 dollars. It is reduced by 25%, and a week later the new price is reduced by another "
    "10%. What does the coat cost then?",
    "What is the greatest common divisor of 252 and 198?",
    "A fair coin is tossed three times. How many of the eight possible outcomes have exactly two heads?",
    "Mia reads 35 pages on Monday, and on every day after that 5 pages more than on the day before. "
    "How many pages has she read by the end of Sunday?",
    "Compute 17 * 23 - 144 / 12.",
    "A gardener plants tulips along both sides of a path that is 60 metres long. On each side the first "
    "tulip stands right at the start of the path and the last one right at its end, and neighbours are "
    "1.5 metres apart. Tulips are sold in packs of 12. How many packs does the gardener have to buy?",
    "The sum of three consecutive whole numbers is 174. What is the largest of them?",
    "Two cyclists set out at the same time from towns that are 84 km apart and ride towards each other, "
    "one at 16 km/h and the other at 12 km/h. After how many minutes do they meet?",
    "A phone plan costs 12 dollars a month and includes 200 minutes; every further minute costs 5 cents. "
    "The bill for March was 20.50 dollars. How many minutes were used in March?",
)

# The final number of each; empty where two numbers are asked for, so that neither is the answer.
MATHS_ANSWERS = (
    *("24", "36", "420", "11", "", "", "7.5", "210", "248", "31.9"),
    *("109", "32.4", "18", "3", "350", "379", "7", "59", "180", "370"),
)

CODE = (
    "Write a Python function that returns the n-th Fibonacci number.",
    "Write a Python function that counts the vowels in a string.",
    "Write a Python class for a bank account with deposit and withdraw.",
    "Write a Python function that merges two sorted lists into one sorted list.",
    "Write a Python function that reads a CSV file and prints its column names.",
    "Write a SQL query that lists the five customers with the largest total of orders.",
    "Write a JavaScript function that removes duplicates from an array.",
    "Write a Python function that checks whether a number is prime, with a docstring.",
    "Write an HTML page with a heading, a paragraph and a list of three items.",
    "Write a Python function that converts Celsius to Fahrenheit and one that converts back.",
    "Write a Python function that returns the longest word of a sentence; of several words that are "
    "equally long it returns the first.",
    "Write a bash script that renames every .txt file of a folder to .md and says how many it renamed.",
    "Write a Python generator that yields the prime factors of a whole number in rising order.",
    "This Python function returns wrong results, and fails for an empty list:\n\n"
    "def mean(values):\n    total = 0\n    for value in values:\n        total = value\n"
    "    return total / len(values)\n\nName both faults and write the corrected function.",
    "Write a Python dataclass for a book with title, author and year, and a function that sorts a list of "
    "books by year and then by title.",
    "Write a Rust function that reverses the order of the words in a string.",
    "Write a Python decorator that prints how long a function took.",
    "Write the CSS of a card with rounded corners, a soft shadow and a button that changes its colour "
    "under the mouse.",
    "Write a Python function roman(n) that turns a whole number from 1 to 3999 into a Roman numeral. It "
    "has type hints and a docstring with two examples, and raises ValueError for any other number.",
    "Write a Python program that plays rock, paper, scissors against the user until the user types quit. "
    "It counts wins, losses and draws and prints the score after every round.",
)

CHAT = (
    "Explain photosynthesis in simple words.",
    "Give me five tips for sleeping better.",
    "Write a short letter that thanks a teacher.",
    "What are the main differences between cats and dogs as pets?",
    "Describe a walk along the sea in the evening.",
    "Why do leaves change their colour in autumn?",
    "Plan a simple dinner for four people without meat.",
    "Tell a short story about a lighthouse keeper who finds a bottle.",
    "What should I think about before I adopt a puppy?",
    "Summarise what makes a good presentation.",
    "What is the difference between weather and climate?",
    "Write a poem of eight lines about the first snow of the year.",
    "Translate into French: The train leaves at seven, so we should have breakfast early.",
    "List the planets of the solar system with one sentence about each of them.",
    "My neighbour often plays loud music late at night. Write a friendly but clear note that I can put "
    "under the door. It should say that I have to get up at six, and propose a time from which it is quiet.",
    "Explain to a child of ten why the sky is blue.",
    "I have one free day in a city by the sea, no car, and rain is forecast for the afternoon. Suggest "
    "what I could do in the morning, at noon, in the afternoon and in the evening, and why.",
    "Summarise this in two sentences: For two hundred years the mill by the river ground the valley's "
    "corn. When the railway came, cheaper flour came with it, and the miller's sons moved to the city. "
    "The wheel stood still for decades, until a group of neighbours repaired it. Today it drives a small "
    "generator that lights the village hall, and on Sundays children come to see it turn.",
    "Play the part of an innkeeper in a mountain village. A tired traveller comes in from the rain and "
    "asks for news from the road. Answer in character.",
    "Compare travelling by train and by plane in a table with a row each for cost, time, comfort and "
    "effect on the climate.",
)

KINDS = {"maths": MATHS, "code": CODE, "chat": CHAT}


def asks_for_python(prompt: str) -> bool:
    """Whether a prompt of ``CODE`` wants Python, so that its answer can be checked for parsing."""
    return "Python" in prompt
