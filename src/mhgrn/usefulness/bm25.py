"""BM25 over many short texts, in arrays."""

import re
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mhgrn.grounding.lemmas import lemma

K1, B = 1.2, 0.75  # the usual values
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The lemmas of the words of a text.

    >>> words("Children ride bikes.")
    ['child', 'ride', 'bike']
    """
    return [_lemma(word) for word in _WORD.findall(text.lower())]


@lru_cache(1 << 18)
def _lemma(word: str) -> str:
    return lemma(word)


class BM25:
    """Ranks texts for a query (Robertson and Zaragoza 2009), with the inverse document frequency that is never negative.

    Args:
        texts: The texts, numbered from 0.

    >>> index = BM25(["a child is found in a school", "a fish is found in the sea", "the sea is deep"])
    >>> index.best("Where do fish live in the sea?", 2).tolist()
    [1, 2]
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._terms: dict[str, int] = {}
        parts: list[NDArray[np.int32]] = []
        lengths: list[int] = []
        for text in texts:
            numbers = [self._terms.setdefault(word, len(self._terms)) for word in words(text)]
            parts.append(np.array(numbers, dtype=np.int32))
            lengths.append(len(numbers))
        self.size = len(lengths)
        length = np.array(lengths, dtype=np.float64)
        term = np.concatenate([np.zeros(0, dtype=np.int32), *parts])
        owner = np.repeat(np.arange(self.size), lengths)
        key, frequency = np.unique(term.astype(np.int64) * max(self.size, 1) + owner, return_counts=True)
        of_key, self._text = np.divmod(key, max(self.size, 1))  # the term and the text of each posting
        self._ptr = np.searchsorted(of_key, np.arange(len(self._terms) + 1))
        df = np.diff(self._ptr)
        idf = np.log1p((self.size - df + 0.5) / (df + 0.5))
        average = float(length.mean()) if self.size else 1.0
        normalized = K1 * (1 - B + B * length[self._text] / max(average, 1e-9))
        self._weight = (idf[of_key] * frequency * (K1 + 1) / (frequency + normalized)).astype(np.float32)

    def scores(self, query: str) -> NDArray[np.float64]:
        """[texts] the score of each text; a word counts as often as the query has it."""
        total = np.zeros(self.size)
        for word in words(query):
            number = self._terms.get(word)
            if number is not None:
                mine = slice(self._ptr[number], self._ptr[number + 1])
                total[self._text[mine]] += self._weight[mine]
        return total

    def best(self, query: str, count: int) -> NDArray[np.int64]:
        """The texts with the highest scores above 0, best first; of equal ones the first."""
        scores = np.round(self.scores(query), 6)
        if 0 < count < self.size:
            least = np.partition(scores, self.size - count)[self.size - count]
            chosen = np.flatnonzero(scores >= max(least, 1e-9))
        else:
            chosen = np.flatnonzero(scores > 0)
        order: NDArray[np.int64] = chosen[np.lexsort((chosen, -scores[chosen]))][:count]
        return order
