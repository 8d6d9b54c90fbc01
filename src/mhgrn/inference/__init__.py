"""Answer questions with a trained run: one at a time or in batches, with paths and effects, and with changes of the graph."""

from mhgrn.inference.altered import FactMasks, score_masks
from mhgrn.inference.answer import Answer
from mhgrn.inference.answerer import QuestionAnswerer
from mhgrn.inference.asked import Asked, WrongOption
from mhgrn.inference.contrast import Contrast, ContrastFact
from mhgrn.inference.evidence import Evidence, EvidenceFact, EvidenceItem
from mhgrn.inference.evidence_set import EvidenceSet, SupportingFact
from mhgrn.inference.searching import smallest_sets

__all__ = [
    "Answer",
    "Asked",
    "Contrast",
    "ContrastFact",
    "Evidence",
    "EvidenceFact",
    "EvidenceItem",
    "EvidenceSet",
    "FactMasks",
    "QuestionAnswerer",
    "SupportingFact",
    "WrongOption",
    "score_masks",
    "smallest_sets",
]
