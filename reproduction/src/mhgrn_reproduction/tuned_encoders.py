"""Text encoders that are tuned on the graph before the runs of an experiment, once in the work folder."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.errors import UserError
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.locks import locked
from mhgrn.kg import KnowledgeGraph
from mhgrn.progress import say
from mhgrn.questions.question import Question
from mhgrn_reproduction.papers import Tuning

if TYPE_CHECKING:
    from mhgrn.text.tuning import TuneOptions


@dataclass(frozen=True)
class TunedEncoder:
    """A text encoder to be tuned, or already tuned.

    Args:
        label: The name of the text encoder's settings.
        tuning: How it is tuned.
        graph: The graph.
        questions: Facts between these questions and their choices are left out.
        work: The folder of all tuned text encoders.
    """

    label: str
    tuning: Tuning
    graph: KnowledgeGraph
    questions: Sequence[Question]
    work: Path

    @property
    def name(self) -> str:
        """A name that contains a fingerprint of everything that determines the encoder: results are stored with it."""
        asked = [[question.stem, *question.choices] for question in self.questions]
        options = self.tuning.model_dump(exclude={"without"})
        return f"{self.label}-{fingerprint(options, self.graph.fingerprint, asked)[:12]}"

    @property
    def folder(self) -> Path:
        """The folder of the tuned encoder."""
        return (self.work / self.name).absolute()

    def build(self, existing: Path | None = None) -> None:
        """Tune the encoder, resume an unfinished tuning, or copy an ``existing`` encoder that was tuned in the same way."""
        from mhgrn.text.tuned import MARKER, read_about
        from mhgrn.text.tuning import tune

        with locked(self.work / f".{self.name}.build.lock", wait=True):
            if (self.folder / MARKER).is_file() and read_about(self.folder)["finished"]:
                self.check(self.folder)
            elif existing is not None:
                self._adopt(existing)
            else:
                say(f"tuning the text encoder {self.name} on the graph ({self.tuning.steps:,} steps) …")
                tune(self.graph, self.folder, self._options(), self.questions)

    def check(self, folder: Path) -> None:
        """Raise a :class:`~mhgrn.errors.UserError` if a folder does not contain this encoder."""
        from mhgrn.text.tuned import read_about

        about = read_about(folder)
        if not about["finished"]:
            raise UserError(f"{folder} contains an unfinished tuning of a text encoder; resume it with `mhgrn text tune`.")
        stored = {**about["options"], "encoder": about["options"].get("encoder", about.get("encoder")), "steps": about.get("steps")}
        options = asdict(self._options())
        wrong = [
            f"{key} {stored.get(key)} instead of {value}"
            for key, value in _flat(options).items()
            if key not in NOT_COMPARED and _flat(stored).get(key, _flat(asdict(self._defaults()))[key]) != value
        ]
        if about["graph"] != self.graph.fingerprint:
            wrong = ["another graph"]
        elif bool(about.get("left_out")) != bool(self.questions):
            wrong = ["the facts of dev and test questions " + ("included" if self.questions else "left out")]
        if wrong:
            raise UserError(f"{folder} was tuned with {wrong[0]}; name a folder that was tuned as {self.label} says.")

    def _adopt(self, existing: Path) -> None:
        from mhgrn.io.folders import new_folder
        from mhgrn.text.tuned import MARKER
        from mhgrn.text.tuning.tuning import HOLDS

        self.check(existing)
        with new_folder(self.folder, MARKER, HOLDS) as partial:
            for path in existing.iterdir():
                if path.is_dir():
                    shutil.copytree(path, partial / path.name)
                else:
                    shutil.copy(path, partial / path.name)
        say(f"{existing} is used as {self.name}.")

    def _options(self) -> "TuneOptions":
        from mhgrn.text.tuning import TuneOptions
        from mhgrn.text.tuning.pairs import PairOptions

        asked = self.tuning
        return TuneOptions(
            encoder=asked.encoder,
            steps=asked.steps,
            batch_size=asked.batch_size,
            keep=asked.keep,
            pairs=PairOptions(seed=asked.seed),
        )

    @staticmethod
    def _defaults() -> "TuneOptions":
        from mhgrn.text.tuning import TuneOptions

        return TuneOptions()


NOT_COMPARED = ("budget", "precision")  # the steps replace the budget; the precision depends on the processor


def _flat(options: dict[str, Any]) -> dict[str, Any]:
    """Nested options by dotted names."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        found |= {f"{key}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {key: value}
    return found
