"""The command line finds its commands: one file of the package each, and entry points of other packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import COMMAND, ENVIRONMENT, Command, Outcome

import mhgrn.cli
from mhgrn.cli import COMMANDS, build_app
from plugin_package import install

GREET = '''
"""A command of another package."""
import typer

app = typer.Typer(help="Say goodbye.", rich_help_panel="Politeness")
PANEL = "Politeness"


def greet(name: str, loud: bool = False) -> None:
    """Greet a person."""
    print(f"hello {name}".upper() if loud else f"hello {name}")


@app.command()
def later() -> None:
    """See you later."""
    print("see you later")


@app.command()
def never() -> None:
    """Farewell."""
'''


def run(site: Path, *args: str) -> Outcome:
    """The command in a process of its own, with the packages of ``site`` installed."""
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [COMMAND, *args], env=ENVIRONMENT | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=100, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_every_file_is_a_command() -> None:
    folder = Path(mhgrn.cli.__file__).parent
    files = {path.stem.replace("_", "-") for path in folder.glob("*.py") if not path.name.startswith("_")}
    assert set(COMMANDS.built_in()) == files
    assert set(COMMANDS.load_usable(pytest.fail)) >= files


def test_a_new_file_is_a_new_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "say_hello.py").write_text("def say_hello() -> None:\n    '''Say hello.'''\n", encoding="utf-8")
    monkeypatch.setattr(mhgrn.cli, "__path__", [*mhgrn.cli.__path__, str(tmp_path)])
    assert "say-hello" in {command.name for command in build_app(pytest.fail).registered_commands}


def test_a_command_and_a_group_of_another_package(tmp_path: Path) -> None:
    install(tmp_path, GREET, "mhgrn.commands", "greet = my_package.plugin:greet\npart = my_package.plugin")
    listed = run(tmp_path, "--help")
    assert (listed.code, listed.err) == (0, "")
    assert "Politeness" in listed.out
    assert "Greet a person." in listed.out
    assert "Say goodbye." in listed.out
    assert run(tmp_path, "greet", "Ann", "--loud") == Outcome(0, "HELLO ANN\n", "")
    assert run(tmp_path, "part", "later") == Outcome(0, "see you later\n", "")


def test_a_command_that_cannot_be_imported_does_not_break_the_others(tmp_path: Path) -> None:
    install(tmp_path, GREET, "mhgrn.commands", "greet = my_package.plugin:greet")
    points = "odd = broken.plugin:odd\nkg = broken.plugin:kg\ngreet = broken.plugin\n"
    install(tmp_path, "import nothing_of_this_name", "mhgrn.commands", points, "broken")
    done = run(tmp_path, "greet", "Ann")
    assert (done.code, done.out) == (0, "hello Ann\n")
    lines = sorted(done.err.splitlines())
    assert len(lines) == 3
    assert all(line.startswith("mhgrn: warning: ") and "broken" in line for line in lines)
    assert "ModuleNotFoundError" in lines[0]
    assert "two commands are called 'greet'" in lines[1]
    assert "two commands are called 'kg'" in lines[2]


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys; from mhgrn.cli import main; sys.argv = ['mhgrn', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'numba', 'transformers', 'pydantic'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("args", [[], ["kg"], ["data"], ["features"]], ids=str)
def test_a_bare_command_prints_its_help_and_no_error(here: Command, args: list[str]) -> None:
    outcome = here(*args)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"Usage: {' '.join(['mhgrn', *args])} " in outcome.out
    assert outcome.out.count("Usage") == 1


def test_a_message_is_escaped_and_cut(here: Command) -> None:
    outcome = here("kg", "stats", "\x1b[2J\u202e" + "x" * 100_000)
    assert outcome.code == 2
    assert outcome.err.startswith("mhgrn: ")
    assert "\\u001b[2J\\u202e" in outcome.err
    assert len(outcome.err) < 5_000
