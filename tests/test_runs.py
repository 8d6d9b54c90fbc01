"""Run folders of earlier versions."""

from harness import Project, edit_json

from mhgrn.runs import Run


def test_a_run_with_the_settings_of_all_encoders_loads(own: Project) -> None:
    """Earlier versions stored the sections of unused encoders too, some of whose settings have other names now."""
    before = Run.load(own.run)
    assert set(before.about["config"]) == {*type(before.config).model_fields, "mhgrn"}
    old = {"rgcn": {"normalise": "total", "removed": 1}, "edge_types": {}}
    edit_json(own.run / "run.json", lambda about: about["config"].update(old))
    assert Run.load(own.run).config == before.config
