"""Too few file handles or too little memory is reported as such, never as damage, a missing file or a traceback."""

import pytest
from harness import Project

from forking import Forked

LIMITED = """
import os, resource, sys
kind, amount = sys.argv.pop(1), int(sys.argv.pop(1))
if kind == "files":
    limit = len(os.listdir("/proc/self/fd")) - 1 + amount
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
else:
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + amount * 1_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
from mhgrn.cli import main
main()
"""
COMMANDS = ("kg stats GRAPH", "ask RUN what? -c child -c desk", "eval RUN", "data check QUESTIONS")


@pytest.mark.parametrize(("kind", "says", "amounts"), [
    ("files", "too many files are open", (0, 1, 3, 8)),
    ("memory", "out of memory", (0, 5, 60)),
])  # fmt: skip
@pytest.mark.parametrize("command", COMMANDS)
def test_a_shortage_is_named(project: Project, command: str, kind: str, says: str, amounts: tuple[int, ...]) -> None:
    places = {"GRAPH": project.graph, "RUN": project.run, "QUESTIONS": project.questions}
    args = [str(places.get(word, word)) for word in command.split()]
    codes = []
    for amount in amounts:
        child = Forked(LIMITED, kind, str(amount), *args)
        _, err = child.communicate()
        codes.append(child.returncode)
        if child.returncode != 0:
            message = err[err.rfind("mhgrn: ") :]
            assert child.returncode == 2, (amount, err)
            assert "Traceback" not in err, (amount, err)
            assert says in message, (amount, err)
    assert 2 in codes or (kind, command) == ("memory", COMMANDS[3])  # which needs little memory
