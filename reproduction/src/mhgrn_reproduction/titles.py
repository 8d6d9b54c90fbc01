"""Names and titles of the experiments. The command line lists them without reading their settings."""

from dataclasses import dataclass

NOT_IN_PAPER = "not in the paper"


@dataclass(frozen=True)
class About:
    """An experiment's place in the paper, and its title."""

    place: str
    title: str
    encoder: str = "minilm"  # the default of --encoder


TRAINED = {
    "csqa-inhouse": About("table 3", "all systems on CommonsenseQA's in-house split"),
    "csqa-official": About("table 4", "CommonsenseQA's official split: dev accuracy, ensembles, predictions for the leaderboard"),
    "obqa": About("table 5", "OpenBookQA without facts, with retrieved facts, and with the gold fact as an upper bound"),
    "ablation": About("table 6", "MHGRN without each of its components"),
    "training-size": About("figure 5", "accuracy by fraction of the training questions"),
    "hops": About("figure 6", "MHGRN with K = 1 … 5"),
    "learning-rates": About("tables 9 and 10", "grid search of learning rates"),
    "knowledge-tuned": About(
        NOT_IN_PAPER, "CommonsenseQA's in-house split with a text encoder that was tuned on the graph", "minilm-knowledge"
    ),
    "zero-shot": About(NOT_IN_PAPER, "CommonsenseQA and OpenBookQA without training on their questions", "minilm-knowledge"),
}
"""Experiments of several trained systems; each has a file of settings."""

PRINTED = {
    "properties": About("table 1", "properties of graph encoders, found by running them"),
    "splits": About("table 8", "numbers of questions"),
    "parameters": About("table 11", "numbers of parameters"),
    "path-counts": About("figure 2", "number of relational paths"),
    "scalability": About("table 2, figure 7", "time of a training step by hops and by nodes"),
    "breakdown": About(NOT_IN_PAPER, "accuracy of each system of an experiment by kind of question"),
    "curves": About(NOT_IN_PAPER, "training loss and dev accuracy of each system by epoch"),
    "cases": About("figure 8", "questions with the paths behind their answers"),
    "metaqa": About(NOT_IN_PAPER, "MetaQA: questions of 1 to 3 hops without choices"),
    "open-commonsense": About(NOT_IN_PAPER, "CommonsenseQA without its choices: the answer among all concepts that walks reach"),
    "open-generated": About(NOT_IN_PAPER, "questions made from relation paths of 1 to 3 facts, without choices"),
}
"""Experiments with a table of their own."""

OPEN = ("metaqa", "open-commonsense", "open-generated")
"""Experiments with open questions; each has a file of settings in settings/open."""
