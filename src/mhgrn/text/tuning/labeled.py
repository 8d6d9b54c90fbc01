"""Training pairs for a text encoder from questions with answers: each question finds its answer among its own choices."""

from collections.abc import Sequence

import numpy as np
from xxhash import xxh64

from mhgrn.errors import UserError
from mhgrn.questions.question import Question
from mhgrn.text.tuning.pairs import Ints, PairBatch

STREAM = 3  # of the random numbers of a seed; facts use others


class LabeledPairs:
    """Draws batches of questions with answers. Batch ``n`` is the same at every call.

    All questions are drawn once before one is drawn again. Only a question's own choices are wrong answers for it: the choices of
    another one may be right, for example if it asks for what does not fit.

    Args:
        questions: The questions. Those without an answer are ignored.
        seed: Of the order.

    >>> pairs = LabeledPairs([Question("q", "Where is a desk?", ("school", "sea"), answer=0)])
    >>> pairs.batch(0, 1).names
    ['school', 'sea']
    """

    def __init__(self, questions: Sequence[Question], seed: int = 0) -> None:
        self.questions = [question for question in questions if question.answer is not None]
        if not self.questions:
            raise UserError("no question to tune on has an answer.")
        self.seed = seed

    @property
    def checksum(self) -> str:
        """The XXH64 of all questions, choices and answers."""
        digest = xxh64()
        for question in self.questions:
            digest.update(repr((question.stem, question.choices, question.answer)).encode())
        return digest.hexdigest()

    def batch(self, number: int, size: int) -> PairBatch:
        """Draw a batch of ``size`` questions."""
        asked = [self.questions[place] for place in self._places(number * size, size)]
        names = [name for question in asked for name in question.choices]
        first = np.cumsum([0, *(len(question.choices) for question in asked)])
        masked = np.ones((len(asked), len(names)), dtype=bool)
        others = np.zeros((len(asked), max(len(question.choices) for question in asked) - 1), dtype=np.int64)
        answer = np.zeros(len(asked), dtype=np.int64)
        for row, question in enumerate(asked):
            start, end = int(first[row]), int(first[row + 1])
            masked[row, start:end] = False
            answer[row] = start + (question.answer or 0)
            wrong = [place for place in range(start, end) if place != answer[row]] or [answer[row]]
            others[row] = (wrong * others.shape[1])[: others.shape[1]]
        return PairBatch([question.stem for question in asked], names, answer, masked, others)

    def _places(self, start: int, size: int) -> list[int]:
        count = len(self.questions)
        orders: dict[int, Ints] = {}
        for epoch in range(start // count, (start + size - 1) // count + 1):
            orders[epoch] = np.random.default_rng([self.seed, epoch, STREAM]).permutation(count)
        return [int(orders[at // count][at % count]) for at in range(start, start + size)]


def joined(one: PairBatch, other: PairBatch) -> PairBatch:
    """A batch with the questions of both. The names of one are no answers to the questions of the other.

    >>> batch = LabeledPairs([Question("q", "Where is a desk?", ("school", "sea"), answer=0)]).batch(0, 1)
    >>> joined(batch, batch).wrong.tolist()
    [[False, True, False, False], [False, False, False, True]]
    """
    rows, columns = one.masked.shape
    masked = np.ones((rows + len(other.questions), columns + len(other.names)), dtype=bool)
    masked[:rows, :columns], masked[rows:, columns:] = one.masked, other.masked
    width = max(one.others.shape[1], other.others.shape[1])
    others = [_widened(batch, width) + shift for batch, shift in ((one, 0), (other, columns))]
    return PairBatch(
        one.questions + other.questions,
        one.names + other.names,
        np.concatenate([one.answer, other.answer + columns]),
        masked,
        np.concatenate(others),
    )


def _widened(batch: PairBatch, width: int) -> Ints:
    """The hard names of a batch, repeated to a width; the answers if there are none."""
    hard = batch.others if batch.others.shape[1] else batch.answer[:, None]
    widened: Ints = np.tile(hard, (1, -(-width // hard.shape[1])))[:, :width]
    return widened
