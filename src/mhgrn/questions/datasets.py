"""Data sets declared in YAML: their files, what their columns are called, and how their statements are built."""

from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, ValidationError

from mhgrn.errors import UserError, did_you_mean
from mhgrn.questions.fields import Fields, Section, as_list
from mhgrn.questions.tables import ENDINGS, Format, format_of
from mhgrn.settings import read_yaml, validation_message

BEGINNINGS = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}
INHOUSE_IDS = "inhouse_split_qids.txt"
Files = Annotated[tuple[Path, ...], BeforeValidator(as_list)]


class Splits(Section):
    """The file or files of each split, relative to the declaration or to the folder it is applied to."""

    train: Files = ()
    dev: Files = ()
    test: Files = ()


class Dataset(Section):
    """A declared data set; without anything declared, any file that keeps to the usual names.

    >>> Dataset.named("commonsenseqa").number_of_choices
    5
    >>> Dataset.named("comonsenseqa")
    Traceback (most recent call last):
    mhgrn.errors.UserError: 'comonsenseqa' is neither a YAML file nor a known data set. Did you mean commonsenseqa?
    """

    name: str = "generic"
    splits: Splits = Splits()
    inhouse_ids: Path | None = Field(None, description="a file of ids: training questions not on it are the test split")
    format: Format | Literal["auto"] = Field("auto", description="auto: by the files' endings")
    delimiter: str | None = Field(None, pattern=r'^[^"\r\n]$', description="of CSV; null: comma, or tab for TSV")
    fields: Fields = Fields()
    statement: Literal["auto", "fill-in-the-blank", "append"] = "auto"
    number_of_choices: Annotated[int, Field(ge=2)] | Literal["any"] = "any"

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        try:
            made = cls.model_validate(given)
        except ValidationError as error:
            raise UserError(validation_message(error, cls, "key")) from None
        if made.inhouse_ids and made.splits.test:
            raise UserError("inhouse_ids makes the test split, which splits.test names too; keep one of them.")
        if made.inhouse_ids and not made.splits.train:
            raise UserError("inhouse_ids divides the training questions; name their file under splits.train.")
        return made

    @classmethod
    def named(cls, dataset: str | Path) -> Self:
        """The declaration in a YAML file, or a shipped one by its name."""
        if _is_yaml(Path(dataset)):
            given = {"name": Path(dataset).stem} | read_yaml(Path(dataset), "declarations")
            try:
                return cls.of(given)
            except UserError as error:
                raise UserError(f"{dataset}: {error}") from None
        shipped = {Path(file.name).stem: file for file in resources.files("mhgrn.questions").joinpath("declared").iterdir()}
        if str(dataset) not in shipped:
            raise UserError(f"{str(dataset)!r} is neither a YAML file nor a known data set.{did_you_mean(str(dataset), shipped)}")
        return cls.of(yaml.safe_load(shipped[str(dataset)].read_text(encoding="utf-8")))

    @classmethod
    def find(cls, source: str | Path, dataset: str | Path | None = None) -> Self:
        """What ``source`` holds, every file with its place: a declaration's splits, a folder's, or one file as the test split.

        ``dataset`` names the declaration to read a file or a folder by.
        """
        source = Path(source)
        if not source.exists():
            kinds = "a file of questions, a folder with train*, dev* and test* files, or a YAML file that declares them"
            raise UserError(f"{source} does not exist; name {kinds}.")
        if _is_yaml(source) and dataset is not None:
            raise UserError(f"{source} declares a data set, and so does --dataset {dataset}; give one of them.")
        declaration = source if _is_yaml(source) else dataset
        found = cls() if declaration is None else cls.named(declaration)
        if not source.is_dir() and not _is_yaml(source):
            return found.model_copy(update={"splits": Splits(test=(source,)), "inhouse_ids": None})
        folder = source if source.is_dir() else source.parent
        if not any(files for _, files in found.splits):
            found = found._with_files_of(folder)
        placed = {split: tuple(folder / file for file in files) for split, files in found.splits}
        ids = folder / found.inhouse_ids if found.inhouse_ids else None
        return found.model_copy(update={"splits": Splits(**placed), "inhouse_ids": ids})

    def _with_files_of(self, folder: Path) -> Self:
        """The same with the files whose names begin as a split's; CommonsenseQA's list of ids makes its in-house split."""
        splits: dict[str, Path] = {}
        for split, beginnings in BEGINNINGS.items():
            files = [p for p in sorted(folder.iterdir()) if p.name.startswith(beginnings) and format_of(p) and p.is_file()]
            files = [p for p in files if not p.name.partition(".")[0].endswith("_complete")]  # OpenBookQA's with gold facts
            if len(files) > 1:
                names = ", ".join(p.name for p in files)
                raise UserError(f"{folder} has {len(files)} files for {split} ({names}); keep one, or declare `splits` in YAML.")
            if files:
                splits[split] = Path(files[0].name)
        if not splits:
            raise UserError(f"{folder} holds no train*, dev* or test* file ({', '.join(ENDINGS)}).")
        inhouse = "train" in splits and (folder / INHOUSE_IDS).is_file()
        if inhouse:
            splits.pop("test", None)
        found = Splits(**{split: (file,) for split, file in splits.items()})
        return self.model_copy(update={"splits": found, "inhouse_ids": Path(INHOUSE_IDS) if inhouse else None})

    def format_of(self, path: Path) -> Format:
        """The format of one of its files; a name without an ending is taken for JSON lines."""
        found = format_of(path) if self.format == "auto" else self.format
        if found is None and path.suffix:
            raise UserError(f"{path}: its ending is none of {', '.join(ENDINGS)} (or .gz of a text); declare its `format` in YAML.")
        return found or "jsonl"


def _is_yaml(path: Path) -> bool:
    return path.suffix.lower() in (".yaml", ".yml") and not path.is_dir()
