"""Everyday questions to begin with; the built-in model answers all of them."""

EXAMPLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("What do you squeeze onto your toothbrush?", ("ketchup", "toothpaste", "shampoo", "glue")),
    ("Which of these would you eat for dessert?", ("spinach", "brownie", "steak", "onion")),
    ("What do you use to cut out a paper star?", ("stamp", "towel", "scissors", "spoon")),
    ("When do children go out with a sled?", ("when it is hot", "when it is foggy", "when the leaves fall", "when it snows")),
    ("Whom does a bride marry at her wedding?", ("photographer", "flower girl", "grandfather", "groom")),
    ("What might a bee do if you grab it?", ("sting you", "bark at you", "thank you", "lay an egg")),
    ("You are standing in front of your locked house. What do you need?", ("spoon", "candle", "key", "ticket")),
    ("What beats faster when you run?", ("hair", "thumb", "nose", "heart")),
    ("Which of these animals do people ride?", ("horse", "squirrel", "chicken", "rabbit")),
    ("What does a baby do when it is hungry?", ("it cries", "it reads the menu", "it goes shopping", "it sets the table")),
    ("Which of these is the heaviest?", ("elephant", "egg", "feather", "mouse")),
    ("What do you find on top of nearly every pizza?", ("cheese", "grass", "chocolate", "sugar")),
)
RIGHT = (1, 1, 2, 3, 3, 0, 2, 3, 0, 0, 0, 0)  # the choices that answer them
