"""Metrics that compare predictions with references, from plain sequences and numpy arrays."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.metrics.brackets import bracket_f1 as bracket_f1
    from catena.metrics.calibration import expected_calibration_error as expected_calibration_error
    from catena.metrics.calibration import fit_temperature as fit_temperature
    from catena.metrics.classification import accuracy as accuracy
    from catena.metrics.classification import f1 as f1
    from catena.metrics.classification import label_report as label_report
    from catena.metrics.classification import multilabel_f1 as multilabel_f1
    from catena.metrics.classification import precision as precision
    from catena.metrics.classification import recall as recall
    from catena.metrics.confusion import ConfusionTable as ConfusionTable
    from catena.metrics.confusion import confusion_table as confusion_table
    from catena.metrics.edits import edit_distance as edit_distance
    from catena.metrics.edits import symbol_error as symbol_error
    from catena.metrics.edits import word_error as word_error
    from catena.metrics.intervals import poisson_interval as poisson_interval
    from catena.metrics.intervals import wilson_interval as wilson_interval
    from catena.metrics.measure import Metric as Metric
    from catena.metrics.probabilities import brier_score as brier_score
    from catena.metrics.probabilities import log_loss as log_loss
    from catena.metrics.ranking import recall_at_k as recall_at_k
    from catena.metrics.reading import answer_f1 as answer_f1
    from catena.metrics.reading import answer_report as answer_report
    from catena.metrics.reading import exact_match as exact_match
    from catena.metrics.regression import mae as mae
    from catena.metrics.regression import r2 as r2
    from catena.metrics.regression import rmse as rmse
    from catena.metrics.rouge_scores import rouge as rouge
    from catena.metrics.significance import approximate_randomization as approximate_randomization
    from catena.metrics.significance import mcnemar as mcnemar
    from catena.metrics.significance import paired_bootstrap as paired_bootstrap
    from catena.metrics.spans import span_f1 as span_f1
    from catena.metrics.translation import bleu as bleu
    from catena.metrics.translation import chrf as chrf
    from catena.metrics.translation import ter as ter

__all__ = [
    "ConfusionTable",
    "Metric",
    "accuracy",
    "answer_f1",
    "answer_report",
    "approximate_randomization",
    "bleu",
    "bracket_f1",
    "brier_score",
    "chrf",
    "confusion_table",
    "edit_distance",
    "exact_match",
    "expected_calibration_error",
    "f1",
    "fit_temperature",
    "label_report",
    "log_loss",
    "mae",
    "mcnemar",
    "multilabel_f1",
    "paired_bootstrap",
    "poisson_interval",
    "precision",
    "r2",
    "recall",
    "recall_at_k",
    "rmse",
    "rouge",
    "span_f1",
    "symbol_error",
    "ter",
    "wilson_interval",
    "word_error",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ConfusionTable": ".confusion",
        "Metric": ".measure",
        "accuracy": ".classification",
        "answer_f1": ".reading",
        "answer_report": ".reading",
        "approximate_randomization": ".significance",
        "bleu": ".translation",
        "bracket_f1": ".brackets",
        "brier_score": ".probabilities",
        "chrf": ".translation",
        "confusion_table": ".confusion",
        "edit_distance": ".edits",
        "exact_match": ".reading",
        "expected_calibration_error": ".calibration",
        "f1": ".classification",
        "fit_temperature": ".calibration",
        "label_report": ".classification",
        "log_loss": ".probabilities",
        "mae": ".regression",
        "mcnemar": ".significance",
        "multilabel_f1": ".classification",
        "paired_bootstrap": ".significance",
        "poisson_interval": ".intervals",
        "precision": ".classification",
        "r2": ".regression",
        "recall": ".classification",
        "recall_at_k": ".ranking",
        "rmse": ".regression",
        "rouge": ".rouge_scores",
        "span_f1": ".spans",
        "symbol_error": ".edits",
        "ter": ".translation",
        "wilson_interval": ".intervals",
        "word_error": ".edits",
    },
)
