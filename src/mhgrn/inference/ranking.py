"""Rankings: the answers of questions without choices."""

from typing import Any, NamedTuple

from mhgrn.explain import ReasoningPath
from mhgrn.kg.sentences import label
from mhgrn.printing import printable

WIDEST = 60  # characters of the column of answers


class RankedAnswer(NamedTuple):
    """One of the best answers of a question without choices."""

    concept: str
    probability: float
    paths: list[ReasoningPath]  # the best walks into it


class Ranking(list[RankedAnswer]):
    """The best answers, best first.

    Args:
        answers: The answers.
        candidates: How many concepts were ranked.
        shared: The relation path that the answers share, in words; None if none was looked for.
        full: The concepts that the model gives as the complete set of answers; None if it only ranks.
    """

    def __init__(
        self, answers: list[RankedAnswer], candidates: int, shared: str | None = None, full: list[str] | None = None
    ) -> None:
        super().__init__(answers)
        self.candidates, self.shared, self.full = candidates, shared, full

    def to_dict(self) -> dict[str, Any]:
        """The ranking as JSON values."""
        rows = [
            {
                "concept": one.concept,
                "probability": one.probability,
                "paths": [_path(path) for path in one.paths],
            }
            for one in self
        ]
        found: dict[str, Any] = {"answers": rows, "candidates": self.candidates}
        return found | ({"shared_path": self.shared} if self.shared else {}) | ({"set": self.full} if self.full is not None else {})

    def lines(self, abstained: bool = False, most: int = 1) -> list[str]:
        """The ranking as lines of text: each answer with its best path, marked with ``?`` if it is not sure enough.

        Args:
            abstained: Whether the answer is not sure enough.
            most: Paths to show for each answer.
        """
        names = [printable(label(one.concept)) for one in self]
        width = min(max(map(len, names), default=0), WIDEST)
        lines, answers = [], set([one.concept for one in self[:1]] if self.full is None else self.full)
        for number, (name, one) in enumerate(zip(names, self, strict=True), start=1):
            share = f"{one.probability:.1%}" if one.probability >= 0.0005 else "under 0.1%"
            mark = " " if one.concept not in answers else "?" if abstained else "→"
            lines.append(f"  {mark} {number:>2}. {name:<{width}}  {share:>6}")
            lines += [f"          because {printable(str(path))}" for path in one.paths[:most] if path.facts]
        if self.full is not None and len(self.full) > len(self):
            lines.append(f"      … {len(self.full):,} answers in all")
        if self.shared:
            lines.append(f"    path: {printable(self.shared)}")
        lines.append(f"    {self.candidates:,} candidates")
        return lines


def _path(path: ReasoningPath) -> dict[str, Any]:
    return {
        "text": str(path),
        "facts": [list(fact) for fact in path.facts],
        "share": path.probability,
        "sentences": path.sentences,
        "without": path.without,
        "without_path": path.without_path,
    }
