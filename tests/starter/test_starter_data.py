from mhgrn.runs import Run
from mhgrn.starter import HERE, starter_data, starter_run
from mhgrn.training.evaluation import require_same_graph


def test_the_hand_written_questions_are_prepared_once_for_the_starter_model() -> None:
    data = starter_data()
    for split in ("dev", "test"):
        assert len(data.split(split)) == len((HERE / f"{split}.jsonl").read_text(encoding="utf-8").splitlines())
    require_same_graph(Run.load(starter_run()), data)
    assert starter_data().fingerprint == data.fingerprint
