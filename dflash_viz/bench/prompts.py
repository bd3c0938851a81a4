"""Thirty prompts written for this product, ten of each kind; they need no download."""

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
)

KINDS = {"maths": MATHS, "code": CODE, "chat": CHAT}
