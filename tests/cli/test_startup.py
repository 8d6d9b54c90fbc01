"""What a command imports. Every package of this list costs more processor time than the answer itself."""

import os
import subprocess
import sys

import pytest
from harness import Project

CHILD = """
import sys
from mhgrn.cli import main
sys.argv = ["mhgrn", *sys.argv[1:]]
try:
    main()
except SystemExit as done:
    assert done.code == 0, done.code
print("IMPORTED", *sys.modules)
"""
NEVER = {
    "transformers",
    "sentence_transformers",
    "scipy.linalg",
    "sympy",
    "torch._dynamo",
    "torch._inductor",
    "pandas",
    "polars",
    "networkx",
}
NEVER |= {"matplotlib", "sklearn", "accelerate", "huggingface_hub", "requests", "httpx", "simplemma", "pyarrow"}
ONLY_FOR_MODELS = {"torch", "numba", "numpy", "tokenizers", "safetensors"}


def imported_by(*args: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", CHILD, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("IMPORTED", 1)[1].split())


def test_ask_imports_only_what_an_answer_needs(project: Project) -> None:
    question = ["ask", str(project.run), "Where would a child sit at a desk?", "-c", "schoolroom", "-c", "patio"]
    imported_by(*question)  # compiles the kernels, if they are not there
    found = imported_by(*question)
    assert found & (NEVER | {"rich"}) == set()
    assert not {name for name in found if name.startswith(("mhgrn.training", "mhgrn_reproduction"))}


@pytest.mark.parametrize("args", [["--help"], ["kg", "--help"], ["ask", "--help"], ["--version"]], ids=" ".join)
def test_help_imports_nothing_slow(args: list[str]) -> None:
    assert imported_by(*args) & (NEVER | ONLY_FOR_MODELS) == set()


def test_the_process_ends_with_the_command_s_code_and_output() -> None:
    code = "import atexit, sys; from mhgrn.cli import run; sys.argv = ['mhgrn', *sys.argv[1:]]; {}; run()"
    say_goodbye = "atexit.register(print, 'never printed')"  # registered before: not called
    for args, status, text in ((["--version"], 0, "mhgrn "), (["nonsense"], 2, ""), (["ask", "nowhere", "q", "-c", "a"], 2, "")):
        done = subprocess.run(
            [sys.executable, "-c", code.format(say_goodbye), *args], capture_output=True, text=True, check=False, env=os.environ
        )
        assert (done.returncode, done.stdout.startswith(text), "never" in done.stdout) == (status, True, False)
        assert (status == 0) == (done.stderr == "")
