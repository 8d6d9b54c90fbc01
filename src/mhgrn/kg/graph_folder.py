"""The folder of a knowledge graph: its arrays, their checks, and how they are written."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.io.arrays import are_rows_sorted
from mhgrn.io.atomic import write_text
from mhgrn.io.fingerprint import array_length, fingerprint
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_marker
from mhgrn.io.stored import NO_GUARD, StoredArray, StoredFolder, read_folder
from mhgrn.kg.labels import ARRAYS as LABELS
from mhgrn.kg.labels import read_labels
from mhgrn.kg.provenance import ARRAYS as PROVENANCE
from mhgrn.kg.provenance import read_provenance
from mhgrn.kg.schema import Schema
from mhgrn.kg.strings import stored_texts
from mhgrn.progress import say

MARKER = "graph.json"
FORMAT = 2
FEATURES = "features"  # sub-folder: node features
INDEX = "index"  # sub-folder: the concept index
HOLDS = ("*.npy", "schema.yaml", FEATURES, INDEX)

ARRAYS = (
    *("head_ptr", "tail", "relation", "weight"),
    *("neighbour_ptr", "neighbour"),
    *("name_ptr", "name_bytes", "name_slots"),
    *PROVENANCE,
    *LABELS,
)
OPTIONAL = ("weight", *PROVENANCE, *LABELS)
# A graph's fingerprint is made of its schema and of these.
_IDENTITY = ("name_bytes", "name_ptr", "head_ptr", "tail", "relation", "weight")
KEYS = {"arrays": dict, "schema": dict, "names": str, "fingerprint": str, "concepts": int, "facts": int}


def read_arrays(stored: StoredFolder) -> tuple[dict[str, Any], dict[str, StoredArray]]:
    """Return the description and the arrays of the graph in a folder. Arrays that are too large to check now are guarded."""
    # folders written before the concept index had its own folder list its arrays and its lemmatiser too
    about = {key: value for key, value in stored.about.items() if key not in ("lemmatiser", "listed_words")}
    about["arrays"] = {name: length for name, length in about["arrays"].items() if name in ARRAYS}
    marker = stored.path / MARKER
    if missing := [name for name in ARRAYS if name not in about["arrays"] and name not in OPTIONAL]:
        raise UserError(f"{marker} is damaged (no array {missing[0]}); build the graph again.")
    concepts, facts = about["concepts"], about["facts"]
    if not (0 <= concepts < 2**31 and 0 <= facts < 2**62):
        raise UserError(f"{marker} is damaged (the number of concepts or facts); build the graph again.")
    try:
        relations = len(Schema.from_dict(about["schema"]))
    except UserError as error:
        raise UserError(f"{marker} is damaged ({error}); build the graph again.") from None
    neighbor = stored.array("neighbour", "int32", high=concepts - 1)
    ends = {"head_ptr": facts, "neighbour_ptr": len(neighbor.values)}
    label = "uint8" if relations <= 256 else "uint16"
    arrays = {
        **{name: stored.array(name, "int64", concepts + 1, high=end, is_pointer=True) for name, end in ends.items()},
        "tail": stored.array("tail", "int32", facts, high=concepts - 1),
        "relation": stored.array("relation", label, facts, high=relations - 1),
        **({"weight": stored.array("weight", "float32", facts)} if "weight" in about["arrays"] else {}),
        "neighbour": neighbor,
        **stored_texts(stored, "name", concepts),
        **(read_provenance(stored, facts) if set(PROVENANCE) <= about["arrays"].keys() else {}),
        **(read_labels(stored, concepts) if "labels" in about else {}),
    }
    for pointer, name in (("head_ptr", "tail"), ("neighbour_ptr", "neighbour")):
        if arrays[pointer].guard is arrays[name].guard is NO_GUARD and not are_rows_sorted(
            arrays[pointer].values, arrays[name].values
        ):
            raise not_sorted(arrays[name])
    return about, {name: arrays[name] for name in ARRAYS if name in arrays}


def description(
    arrays: Mapping[str, NDArray[Any] | Path], schema: Schema, source: dict[str, Any], languages: list[str] | None
) -> dict[str, Any]:
    """Return what ``graph.json`` says of a graph.

    Args:
        arrays: Its arrays by name, or the files that hold them.
        schema: Its relations.
        source: What it was made of.
        languages: The languages of its labels; None if it has none.
    """
    labelled = () if languages is None else (languages, *(arrays[name] for name in LABELS))
    identity = (arrays[name] for name in _IDENTITY if name in arrays)
    return {
        "format": FORMAT,
        "concepts": array_length(arrays["head_ptr"]) - 1,
        "facts": array_length(arrays["tail"]),
        "schema": schema.to_dict(),
        "source": source,
        "names": fingerprint(arrays["name_bytes"], arrays["name_ptr"], *labelled),
        "fingerprint": fingerprint(schema.identity(), *identity, *labelled),
        "arrays": {name: array_length(array) for name, array in arrays.items()},
        **({} if languages is None else {"labels": {"languages": languages}}),
    }


def write(
    folder: Path, about: dict[str, Any], schema: Schema, fill: Callable[[Path], None], keep: Sequence[str] = (FEATURES, INDEX)
) -> None:
    """Write a graph to a folder, completely or not at all.

    Args:
        folder: The folder. A graph that is there already is replaced.
        about: The graph's description.
        schema: Its relations.
        fill: Writes the arrays into a folder.
        keep: Sub-folders that stay if the concepts are the same.
    """
    has_same_names = fingerprint_at(folder, "names") == about["names"]
    with new_folder(folder, MARKER, HOLDS, keep=keep if has_same_names else ()) as partial:
        fill(partial)
        write_text(partial / "schema.yaml", schema.to_yaml())  # a copy to edit and build another graph with
        write_marker(partial / MARKER, about)
        if not has_same_names and (folder / FEATURES).is_dir():
            say(f"{folder / FEATURES}: deleting the node features of the graph that was here before, which had other concepts.")


def not_sorted(stored: StoredArray) -> UserError:
    """Return the error for an array whose rows are not sorted."""
    return UserError(f"{stored.path} is damaged (its rows are not sorted); build the graph again.")


def fingerprint_at(folder: Path, of: Literal["fingerprint", "names"] = "fingerprint") -> str | None:
    """Return the fingerprint of the graph in a folder, or of its concepts; None if there is no readable one."""
    try:
        return read_folder(folder, MARKER, "knowledge graph", FORMAT, lambda stored: str(stored.about[of]), {of: str})
    except (UserError, OSError):
        return None
