"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated, Literal

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
GraphFolder = Annotated[
    Path, typer.Argument(metavar="GRAPH", help="Folder of a built graph, or its URL (s3://bucket/graph).", show_default=False)
]
Prepared = Annotated[Path, typer.Argument(metavar="PREPARED", help="Folder of a prepared dataset, or its URL.", show_default=False)]
Questions = Annotated[
    Path,
    typer.Argument(help="A dataset's YAML file, a folder with train*, dev* and test* files, or one file.", show_default=False),
]
Dataset = Annotated[
    str | None,
    typer.Option("--dataset", help="How to read the questions: a known dataset's name or a YAML file.", show_default=False),
]
NamedRun = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="Folder of a trained run, its URL (s3://bucket/run), or `starter` or `commonsense`.", show_default=False
    ),
]
RunGraph = Annotated[
    Path | None,
    typer.Option("--kg", help="The run's graph, if it has moved, or another graph of the same schema.", show_default=False),
]
DataGraph = Annotated[Path | None, typer.Option("--kg", help="The data's graph, if it has moved.", show_default=False)]
RunFeatures = Annotated[
    str | None,
    typer.Option(
        "--features", help="Node features: names, random, a .npy file or a features folder. Unset: as trained.", show_default=False
    ),
]
RunEncoder = Annotated[
    str | None,
    typer.Option("--encoder", help="The text encoder, if it has moved: a folder or a hub name.", show_default=False),
]
AllowDownload = Annotated[
    bool,
    typer.Option("--allow-download", help="Download a text encoder that is not on this machine. Otherwise no network is used."),
]
AllowPickle = Annotated[
    bool,
    typer.Option("--allow-pickle", help="Load text encoder weights in a pickle file (.bin), which can run code."),
]
RunData = Annotated[
    Path | None,
    typer.Option("--data", help="Prepared data. Unset: the data that the run was trained on.", show_default=False),
]
Store = Annotated[bool, typer.Option("--store", help="Store the result with the run, for its model card.")]
Split = Annotated[str, typer.Option("--split", help="train, dev or test.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML file of settings.", show_default=False)]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, for example mhgrn.hops=3. May be repeated.", show_default=False),
]

EngineName = Annotated[
    str, typer.Option("--engine", metavar="NAME", help="Where to compute: local (this machine) or ray (a Ray cluster).")
]
Address = Annotated[
    str | None,
    typer.Option("--address", help="With --engine ray: auto, HOST:PORT or ray://HOST:PORT. Unset: auto.", show_default=False),
]


def folder_to_write(text: str) -> Path:
    """The folder that ``-o`` names."""
    if not text.strip():
        raise typer.BadParameter("it is empty; name a folder to write to.")
    if text == "-":
        raise typer.BadParameter("standard output cannot hold a folder; name a folder to write to.")
    return _refused_url(text)


def file_to_write(text: str) -> Path:
    """The file that ``-o`` names; ``-`` is standard output."""
    if not text.strip():
        raise typer.BadParameter("it is empty; name a file to write to, or - for standard output.")
    return _refused_url(text)


def _refused_url(text: str) -> Path:
    from mhgrn.errors import UserError
    from mhgrn.io.remote import refuse_url

    try:
        refuse_url(text)
    except UserError as error:
        raise typer.BadParameter(str(error)) from None
    return Path(text)


Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", parser=folder_to_write, help="Folder to write.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace what exists at the place to write.")]
PredictionFormat = Annotated[
    Literal["jsonl", "csv"] | None,
    typer.Option("--format", help="JSON lines or CSV. Unset: by the name of the file, JSON lines by default.", show_default=False),
]
Image = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        parser=file_to_write,
        help="Image to write, .svg or .png; - writes SVG to standard output.",
        show_default=False,
    ),
]
MaxNodes = Annotated[int, typer.Option("--max-nodes", min=1, help="Largest number of nodes.")]
MaxArrows = Annotated[
    int, typer.Option("--max-arrows", min=1, help="Largest number of arrows. One arrow stands for all relations of its ends.")
]
AbstainBelow = Annotated[
    float | None,
    typer.Option(
        "--abstain-below",
        metavar="P",
        help="Say `not sure enough` below this probability; 0: never. Unset: below that of `mhgrn calibrate --accuracy`, if any.",
        show_default=False,
    ),
]
Coverage = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        metavar="P",
        help="Add the choices that contain the right one with this probability, for example 0.9.",
        show_default=False,
    ),
]
By = Annotated[
    Literal["evidence", "attention"],
    typer.Option("--by", help="Explain by the smallest set of facts that carries the answer, or by the paths with most attention."),
]
Device = Annotated[str, typer.Option("--device", help="Where the model computes, for example cpu or cuda.")]
TextPrecision = Annotated[
    Literal["float32", "int8"],
    typer.Option("--text-precision", help="Of the text encoder. int8 is faster on a processor and changes probabilities a little."),
]
