"""Loggers for Weights & Biases and MLflow, beside TensorBoard. Their packages are imported when a logger is made."""

from collections.abc import Mapping
from typing import Any, Protocol

from mhgrn.errors import UserError


class MetricLogger(Protocol):
    """Receives the metrics of a training while it runs."""

    def start(self, settings: Mapping[str, Any]) -> None:
        """Called once, with the settings that differ from their defaults."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Called with the values of a step or of an epoch, by name: ``step/loss``, ``epoch/dev_accuracy``."""

    def close(self) -> None:
        """Called when training ends, also by an error."""


class WandbLogger:
    """Logs to Weights & Biases.

    Args:
        project: The project.
        arguments: Other arguments of ``wandb.init``, for example ``mode="offline"``.
    """

    def __init__(self, project: str, **arguments: Any) -> None:
        try:
            import wandb
        except ImportError:
            raise UserError("logging to Weights & Biases needs the package wandb; install it with: pip install wandb") from None
        self._wandb, self._arguments = wandb, {"project": project, **arguments}
        self._run: Any = None

    def start(self, settings: Mapping[str, Any]) -> None:
        self._run = self._wandb.init(config=dict(settings), **self._arguments)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


class MLflowLogger:
    """Logs to MLflow.

    Args:
        experiment: The experiment.
        tracking_uri: Where MLflow stores runs. None: where it is configured to.
        run_name: The name of the run.
    """

    def __init__(self, experiment: str, tracking_uri: str | None = None, run_name: str | None = None) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise UserError("logging to MLflow needs the package mlflow; install it with: pip install mlflow-skinny") from None
        self._client: Any = MlflowClient(tracking_uri)
        self._experiment, self._name = experiment, run_name
        self._run: str | None = None

    def start(self, settings: Mapping[str, Any]) -> None:
        found = self._client.get_experiment_by_name(self._experiment)
        number = self._client.create_experiment(self._experiment) if found is None else found.experiment_id
        self._run = self._client.create_run(number, run_name=self._name).info.run_id
        for name, value in settings.items():
            self._client.log_param(self._run, name, value)

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        if self._run is not None:
            self._client.set_terminated(self._run)
