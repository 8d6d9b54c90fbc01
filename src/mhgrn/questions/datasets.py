"""Dataset declarations in YAML: files of the splits, field names, and how statements are built."""

from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, ValidationError, field_validator

from mhgrn.errors import UserError, did_you_mean
from mhgrn.printing import shortened
from mhgrn.questions.fields import FieldNames, as_list
from mhgrn.questions.reader import READERS, QuestionReader, endings, format_of
from mhgrn.settings import Settings, read_yaml, validation_message

BEGINNINGS = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}
INHOUSE_IDS = "inhouse_split_qids.txt"
Files = Annotated[tuple[Path, ...], BeforeValidator(as_list)]


class SplitFiles(Settings):
    """The files of each split, relative to the declaration or to the folder it is applied to."""

    train: Files = ()
    dev: Files = ()
    test: Files = ()


class Dataset(Settings):
    """A dataset declaration. The default reads any file with the usual field names.

    >>> Dataset.named("commonsenseqa").number_of_choices
    5
    >>> Dataset.named("comonsenseqa")
    Traceback (most recent call last):
    mhgrn.errors.UserError: 'comonsenseqa' is neither a YAML file nor a known dataset. Did you mean commonsenseqa?
    """

    name: str = "generic"
    splits: SplitFiles = SplitFiles()
    inhouse_ids: Path | None = Field(
        None, description="a file of ids; training questions that it does not list become the test split"
    )
    format: str = Field("auto", description="the name of a question format; auto: by the endings of files")
    delimiter: str | None = Field(None, pattern=r'^[^"\r\n]$', description="delimiter of CSV; null: comma, or tab for TSV")
    fields: FieldNames = FieldNames()
    statement: Literal["auto", "fill-in-the-blank", "append"] = "auto"
    number_of_choices: Annotated[int, Field(ge=2)] | Literal["any"] = "any"

    @field_validator("format")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name != "auto":
            try:
                READERS.check(name)
            except UserError:
                raise ValueError(f"input should be auto or one of {', '.join(READERS.names())}") from None
        return name

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        try:
            made = cls.model_validate(given)
        except ValidationError as error:
            raise UserError(validation_message(error, cls, "key")) from None
        if made.inhouse_ids and made.splits.test:
            raise UserError("inhouse_ids and splits.test both define the test split; keep one of them.")
        if made.inhouse_ids and not made.splits.train:
            raise UserError("inhouse_ids divides the training questions; declare their file under splits.train.")
        return made

    @classmethod
    def named(cls, dataset: str | Path) -> Self:
        """The declaration in a YAML file, or a built-in one by its name."""
        if _is_yaml(Path(dataset)):
            given = {"name": Path(dataset).stem} | read_yaml(Path(dataset), "declarations")
            try:
                return cls.of(given)
            except UserError as error:
                raise UserError(f"{dataset}: {error}") from None
        built_in = {Path(file.name).stem: file for file in resources.files("mhgrn.questions").joinpath("declared").iterdir()}
        if str(dataset) not in built_in:
            near = did_you_mean(str(dataset), built_in)
            raise UserError(f"{shortened(str(dataset))} is neither a YAML file nor a known dataset.{near}")
        return cls.of(yaml.safe_load(built_in[str(dataset)].read_text(encoding="utf-8")))

    @classmethod
    def find(cls, source: str | Path, dataset: str | Path | None = None) -> Self:
        """The dataset at ``source``, with the paths of its files.

        Args:
            source: A YAML file that declares a dataset, a folder with train, dev and test files, or one file (split ``test``).
            dataset: A built-in declaration or a YAML file that applies to a folder or a file.
        """
        source = Path(source)
        if not source.exists():
            kinds = "a file of questions, a folder with train*, dev* and test* files, or a YAML file that declares a dataset"
            raise UserError(f"{source} does not exist; name {kinds}.")
        if _is_yaml(source) and dataset is not None:
            raise UserError(f"{source} declares a dataset, and so does --dataset {dataset}; give one of them.")
        declaration = source if _is_yaml(source) else dataset
        found = cls() if declaration is None else cls.named(declaration)
        if not source.is_dir() and not _is_yaml(source):
            return found.model_copy(update={"splits": SplitFiles(test=(source,)), "inhouse_ids": None})
        folder = source if source.is_dir() else source.parent
        if not any(files for _, files in found.splits):
            found = found._with_files_of(folder)
        placed = {split: tuple(folder / file for file in files) for split, files in found.splits}
        ids = folder / found.inhouse_ids if found.inhouse_ids else None
        return found.model_copy(update={"splits": SplitFiles(**placed), "inhouse_ids": ids})

    def _with_files_of(self, folder: Path) -> Self:
        """This declaration with the files of ``folder`` whose names begin like a split.

        If CommonsenseQA's list of ids is there too, the splits are the in-house ones.
        """
        splits: dict[str, Path] = {}
        for split, beginnings in BEGINNINGS.items():
            files = [p for p in sorted(folder.iterdir()) if p.name.startswith(beginnings) and format_of(p) and p.is_file()]
            files = [p for p in files if not p.name.partition(".")[0].endswith("_complete")]  # OpenBookQA's files with gold facts
            if len(files) > 1:
                names = ", ".join(p.name for p in files)
                raise UserError(f"{folder} has {len(files)} files for {split} ({names}); keep one, or declare `splits` in YAML.")
            if files:
                splits[split] = Path(files[0].name)
        if not splits:
            raise UserError(f"{folder} contains no train*, dev* or test* file ({', '.join(endings())}).")
        inhouse = "train" in splits and (folder / INHOUSE_IDS).is_file()
        if inhouse:
            splits.pop("test", None)
        found = SplitFiles(**{split: (file,) for split, file in splits.items()})
        return self.model_copy(update={"splits": found, "inhouse_ids": Path(INHOUSE_IDS) if inhouse else None})

    def reader_of(self, path: Path) -> QuestionReader:
        """The reader of one of its files. A file name without an ending means JSON lines."""
        name = format_of(path) if self.format == "auto" else self.format
        if name is None and path.suffix:
            known = ", ".join(endings())
            raise UserError(f"{path}: unknown ending; known are {known} (text files also .gz). Declare its `format` in YAML.")
        return READERS.load(name or "jsonl")(self.delimiter)


def _is_yaml(path: Path) -> bool:
    return path.suffix.lower() in (".yaml", ".yml") and not path.is_dir()
