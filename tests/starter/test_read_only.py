"""The starter model answers from a cache folder that cannot be written."""

import shutil
from pathlib import Path

from harness import Command, Project

from mhgrn.compiled.jit import kernel_cache
from mhgrn.io.cache import user_cache
from mhgrn.starter import cache_folder
from read_only import make_read_only, make_writable, run_obeying_permissions

CODE = "import sys; from mhgrn.cli import main; sys.argv = ['mhgrn', *sys.argv[1:]]; main()"
QUESTION = ("ask", "starter", "Where would a child sit at a desk?", "-c", "schoolroom", "-c", "patio")


def test_a_trained_model_and_compiled_kernels_are_only_read(project: Project, here: Command, tmp_path: Path) -> None:
    assert here("ask", project.run, *QUESTION[2:]).code == 0  # compiles the kernels, if they are not there
    cache = tmp_path / "cache"
    project.copy(cache / cache_folder().name)
    shutil.copytree(kernel_cache(), cache / "kernels" / kernel_cache().name)
    for file in user_cache().glob("lemmas-*"):
        shutil.copy(file, cache)
    make_read_only(cache)
    try:
        done = run_obeying_permissions("-c", CODE, *QUESTION, environment={"MHGRN_CACHE": str(cache)})
        assert (done.returncode, done.stderr) == (0, "")
        assert "schoolroom" in done.stdout
    finally:
        make_writable(cache)


def test_a_cache_without_the_model_is_one_message(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    make_read_only(cache)
    try:
        done = run_obeying_permissions("-c", CODE, *QUESTION, environment={"MHGRN_CACHE": str(cache)})
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"mhgrn: {cache}")
        assert "Permission denied" in done.stderr
        assert done.stderr.count("\n") == 1
    finally:
        make_writable(cache)
