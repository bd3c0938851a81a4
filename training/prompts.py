"""User turns (stub)."""
import random
from training.conversation import UserTurn
def user_turn(rng: random.Random) -> UserTurn:
    return UserTurn("maths", "What is 2 + 3?")
