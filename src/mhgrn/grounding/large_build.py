"""Build a graph's folder, with its concept index, in bounded memory."""

import os
import re
import shutil
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.grounding.index import MARKER as INDEX_MARKER
from mhgrn.grounding.large_index import write_index
from mhgrn.grounding.lemmas import LEMMATIZER
from mhgrn.io.folders import check_replaceable, link
from mhgrn.io.stages import Stages, delete_stages, stages_done
from mhgrn.kg.building import Inputs
from mhgrn.kg.fact_table import ImportReport
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.graph_folder import FEATURES, HOLDS, INDEX, MARKER, fingerprint_at, write
from mhgrn.kg.large import LargeBuild, loaded_report, stored_report
from mhgrn.kg.reader import ImportOptions
from mhgrn.kg.schema import Schema
from mhgrn.kg.spilled_texts import PARTS, Paths
from mhgrn.printing import printable
from mhgrn.progress import say

LEAST = 1_000_000_000  # bytes of memory
BASE = 500_000_000  # bytes of memory that the interpreter, compiled code, the dictionary and the reader of files need
DISK_PER_BYTE = 2.0  # bytes of disk per byte of the files, at most
PACKED = 6  # times larger is a compressed file when it is read
_PACKED = (".gz", ".bz2", ".xz", ".parquet")
_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def build_folder(
    output: str | Path,
    paths: str | Path | Iterable[str | Path],
    memory: str | int,
    schema: str | None = None,
    options: ImportOptions = ImportOptions(),
    concepts: str | Path | None = None,
    labels: str | Path | Iterable[str | Path] | None = None,
    force: bool = False,
) -> tuple[KnowledgeGraph, ImportReport]:
    """Build a graph of more facts than fit in memory, and its concept index, and write both to a folder.

    The folder has the bytes that :func:`mhgrn.build` and :meth:`KnowledgeGraph.save` give. Temporary files are in a folder beside
    it, whose name begins with a dot. If the process is killed, the same call goes on after the last stage that was done. A call
    with other arguments begins anew.

    Args:
        output: The folder to write.
        paths: As for :func:`mhgrn.build`.
        memory: The most memory that the process takes, as ``"4GB"`` or in bytes; at least 1 GB.
        schema: As for :func:`mhgrn.build`.
        options: The rules of import.
        concepts: As for :func:`mhgrn.build`.
        labels: As for :func:`mhgrn.build`. Labels, aliases and ids are held in memory, in addition to ``memory``.
        force: Replace a graph that is there already.

    Returns:
        The graph, memory-mapped, and counts of the rows by outcome.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "facts.tsv"
    ...     _ = file.write_text("desk\\tAtLocation\\tclassroom\\nchild\\tAtLocation\\tclassroom\\n")
    ...     graph, report = build_folder(Path(folder) / "graph", file, memory="1GB")
    >>> graph.fact_count, report.rows
    (2, 2)
    """
    room = memory_of(memory) - BASE
    return build_within(Path(output), Inputs.of(paths, schema, options, concepts, labels), options, room, force)


def build_within(
    output: Path, inputs: Inputs, options: ImportOptions, room: int, force: bool = False, parts: int = PARTS
) -> tuple[KnowledgeGraph, ImportReport]:
    """Build a graph's folder with so many bytes of memory for tables and buffers; see :func:`build_folder`.

    Args:
        output: The folder to write.
        inputs: What the graph is built from.
        options: The rules of import.
        room: Bytes of memory.
        force: Replace a graph that is there already.
        parts: Into so many parts texts are put aside.
    """
    identity = _identity(inputs, options)
    done = stages_done(output, identity)
    graph = done.get("graph")
    if graph and fingerprint_at(output) == graph["about"]["fingerprint"] and (output / INDEX / INDEX_MARKER).is_file():
        delete_stages(output)  # it was killed when all was in place
        return KnowledgeGraph.load(output), loaded_report(graph["report"])
    check_replaceable(output, MARKER, HOLDS, force)
    if "read" not in done:
        _check_disk(output, inputs)
    stages = Stages(output, identity)
    try:
        report = _run(output, stages, LargeBuild(stages, inputs, options, room, parts), room, parts)
    except UserError:
        stages.delete()
        raise
    except KeyboardInterrupt:
        say(f"What is done is kept in {stages.folder}; the same command goes on from there.")
        raise
    else:
        stages.delete()
    finally:
        stages.release()
    return KnowledgeGraph.load(output), report


def _run(output: Path, stages: Stages, build: LargeBuild, room: int, parts: int) -> ImportReport:
    build.run()

    def describe(folder: Path) -> dict[str, Any]:
        report, arrays, about = build.described()
        return {"report": stored_report(report), "arrays": {name: str(path) for name, path in arrays.items()}, "about": about}

    graph = stages.run("graph", describe)
    arrays, about = {name: Path(path) for name, path in graph["arrays"].items()}, graph["about"]

    def index(folder: Path) -> None:
        (folder / "work").mkdir()
        kind = "surface" if "surface_ptr" in arrays else "name"
        texts = Paths(arrays[f"{kind}_ptr"], arrays[f"{kind}_bytes"])
        write_index(folder / INDEX, folder / "work", texts, about["arrays"][f"{kind}_ptr"] - 1, about["names"], room, parts)
        shutil.rmtree(folder / "work")

    stages.run("index", index)

    def fill(partial: Path) -> None:
        for path in arrays.values():
            link(str(path), str(partial / path.name))
        shutil.copytree(stages.folder / "index" / INDEX, partial / INDEX, copy_function=link)

    write(output, about, Schema.from_dict(about["schema"]), fill, (FEATURES,))
    return loaded_report(graph["report"])


def memory_of(given: str | int) -> int:
    """Return the bytes of a size such as 4GB; refuse a size that is too small, or larger than the memory of this machine.

    >>> memory_of("1.5GB")
    1500000000
    """
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)\s*([KMGT]I?B)", str(given).strip().upper())
    if isinstance(given, int):
        size = given
    elif match is None or match[2] not in _UNITS:
        raise UserError(f"--memory {printable(given)[:100]}: write a size such as 4GB or 1500MB.")
    else:
        size = int(float(match[1]) * _UNITS[match[2]])
    if size < LEAST:
        raise UserError(f"--memory {printable(str(given))[:100]} is too little; give at least {LEAST / 1e9:.0f}GB.")
    if size > (there := os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else size):
        raise UserError(f"--memory {printable(str(given))[:100]} is more than this machine has ({there / 1e9:.1f} GB); give less.")
    return size


def disk_needed(inputs: Inputs) -> int:
    """Return an estimate of the bytes of disk that a build takes at its peak, the graph included."""
    sizes = ((path, path.stat().st_size) for path in inputs.files)
    return int(DISK_PER_BYTE * sum(size * (PACKED if path.suffix in _PACKED else 1) for path, size in sizes))


def _check_disk(output: Path, inputs: Inputs) -> None:
    place = next(folder for folder in output.resolve().parents if folder.exists())
    free, needed = shutil.disk_usage(place).free, disk_needed(inputs)
    if needed > free:
        files = ", ".join(path.name for path in inputs.files)
        raise UserError(
            f"{place} has {free / 1e9:,.1f} GB of free disk, but building a graph of {files} may need {needed / 1e9:,.1f} GB; free"
            " some, or name a folder on another disk."
        )
    if needed > 10**9:
        say(f"The build may need {needed / 1e9:,.0f} GB of disk beside {output} ({free / 1e9:,.0f} GB are free).")


def _identity(inputs: Inputs, options: ImportOptions) -> dict[str, Any]:
    """Return what makes two builds the same."""
    files = [*inputs.files, *([inputs.concepts] if inputs.concepts is not None else []), *inputs.label_files]
    stats = [(str(path.resolve()), path.stat()) for path in files if path.exists()]
    return {
        "version": version("mhgrn"),
        "lemmatizer": LEMMATIZER,
        "files": [[path, found.st_size, found.st_mtime_ns] for path, found in stats],
        "labels": len(inputs.label_files),
        "schema": None if inputs.schema is None else inputs.schema.to_dict(),
        "options": options.stored() | {"columns": None if options.columns is None else dict(options.columns)},
    }
