"""Training on open questions: the best epoch on dev is kept."""

import json
from pathlib import Path

import numpy as np
import torch
import yaml

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.features import NoFeatures
from mhgrn.io.atomic import append_text, write_text
from mhgrn.io.checksums import seal
from mhgrn.io.folders import begin_folder, check_replaceable, delete_partial, replace_folder
from mhgrn.io.locks import locked
from mhgrn.io.markers import write_marker
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.open.data import OpenData
from mhgrn.open.evaluation import evaluate_open
from mhgrn.open.model import OpenModel, answer_losses
from mhgrn.open.run import OpenRun
from mhgrn.progress import bar, say
from mhgrn.runs import CONFIG, MARKER, describe, read_about
from mhgrn.text.loading import load_text_encoder

METRICS = "metrics.jsonl"


def train_open(
    data: OpenData,
    config: Config,
    folder: str | Path,
    graph: KnowledgeGraph | None = None,
    force: bool = False,
    encoder: str | Path | None = None,
    allow_download: bool = False,
    allow_pickle: bool = False,
) -> OpenRun:
    """Train a model of open questions and keep its best epoch on dev by hits@1, then by mean reciprocal rank.

    The text encoder is not trained. Ctrl-C keeps the best epoch so far.

    Args:
        data: Prepared open questions with the splits train and dev.
        config: The settings, with ``task="open"``.
        folder: The folder of the run.
        graph: The graph of the data. By default it is loaded.
        force: Replace a run in the folder.
        encoder: The place of the text encoder, if it is not where ``text.encoder`` says.
        allow_download: Download the text encoder if it is not on this machine.
        allow_pickle: Load a text encoder whose weights are a pickle file, which can run code.
    """
    folder = check_replaceable(Path(folder), MARKER)
    train, _ = data.answered_split("train"), data.answered_split("dev")
    if config.text.frozen_epochs is not None:
        raise UserError("task=open does not train the text encoder; set text.frozen_epochs=null.")
    if (folder / MARKER).is_file() and not force:
        state = "a trained run" if read_about(folder).get("finished") else "an unfinished run"
        raise UserError(f"{folder} contains {state}; name another folder, or replace it with --force.")
    busy = f"another process is training in {folder}; wait for it, or name another folder."
    with locked(folder.with_name(f".{folder.name}.lock"), busy=busy):
        graph = graph or data.load_graph()
        torch.manual_seed(config.seed)
        text = load_text_encoder(config.text, encoder, allow_download, allow_pickle)
        model = OpenModel(config.open, text.width, 2 * len(graph.schema))
        sets = config.open.loss == "logistic" or (config.open.loss == "auto" and any(len(data.answers[q]) > 1 for q in train))
        source = {"folder": str(data.folder.absolute()), "fingerprint": data.fingerprint, "marks": data.marks, "sets": sets}
        about = describe(config, graph, text, NoFeatures(), source, folder)
        partial = begin_folder(folder, MARKER)
        try:
            run = OpenRun(partial, about, config, graph, text, model)
            write_text(partial / CONFIG, yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True))
            before = torch.get_num_threads()
            torch.set_num_threads(config.training.threads or before)
            try:
                _fit(run, data, np.array(train), sets)
            finally:
                torch.set_num_threads(before)
            metrics = run.about.pop("metrics")
            write_marker(partial / MARKER, run.about | {"metrics": metrics, "finished": True})
            replace_folder(partial, folder)
        finally:
            delete_partial(partial)
        seal(folder)
    return OpenRun.load(folder, graph.folder, encoder, allow_download, allow_pickle)


def _fit(run: OpenRun, data: OpenData, train: np.ndarray, sets: bool) -> None:
    """Train until dev is not better for ``patience`` epochs, and keep the best epoch."""
    settings, model = run.config.training, run.model
    numbers = np.array([q for q in train if len(data.answers[q]) and len(data.topics[q])])
    if not len(numbers):
        raise UserError(f"no training question of {data.folder} has a topic and an answer in the graph.")
    if settings.max_questions is not None or settings.train_fraction < 1:
        most = max(1, int(min(settings.max_questions or len(numbers), settings.train_fraction * len(numbers))))
        numbers = np.sort(np.random.default_rng([run.config.seed, 1]).permutation(numbers)[:most])
    run.vectors([data.texts[q] for q in numbers], keep=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    best, waited, shuffler = (-1.0, -1.0), 0, np.random.default_rng(run.config.seed)
    steps = 0
    try:
        for epoch in range(1, settings.epochs + 1):
            model.train()
            order, total, unreached = shuffler.permutation(numbers), 0.0, 0
            with bar(f"epoch {epoch}", len(order)) as advance:
                for start in range(0, len(order), settings.batch_size):
                    batch = order[start : start + settings.batch_size].tolist()
                    vectors = run.vectors([data.texts[q] for q in batch])
                    ranked = model.rank(run.walker, [data.topics[q] for q in batch], vectors, run.nodes)
                    losses = answer_losses(ranked, [data.answers[q] for q in batch], model.bias if sets else None)
                    optimizer.zero_grad()
                    losses.mean().backward()  # type: ignore[no-untyped-call]
                    torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
                    optimizer.step()
                    total += float(losses.detach().sum())
                    unreached += int((losses == 0).sum())
                    steps += 1
                    advance(start + len(batch), f"epoch {epoch}, loss {total / (start + len(batch)):.3f}")
                    if steps == settings.max_steps:
                        break
            found = evaluate_open(run, data, "dev", "dev")
            row = {"epoch": epoch, "loss": total / len(order), "dev_accuracy": found["hits_at_1"]}
            row |= {f"dev_{name}": found[name] for name in ("hits_at_10", "mrr", "set_f1")}
            append_text(run.folder / METRICS, json.dumps(row) + "\n")
            say(f"epoch {epoch}: loss {row['loss']:.3f}, dev hits@1 {found['hits_at_1']:.1%}, MRR {found['mrr']:.3f}")
            if (found["hits_at_1"], found["mrr"]) > best:
                best, waited = (found["hits_at_1"], found["mrr"]), 0
                run.save(row)
                run.about["metrics"] = row
            else:
                waited += 1
            if waited >= settings.patience or steps == settings.max_steps:
                return
    except KeyboardInterrupt:
        if "metrics" not in run.about:
            raise
        say(f"stopped; the best epoch so far, {run.about['metrics']['epoch']}, is kept.")
