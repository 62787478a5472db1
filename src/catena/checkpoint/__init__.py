"""Run and checkpoint folders: weights as safetensors, the rest as TOML and JSON, without pickle.

    runs/mr/
      config.toml   meta.json   metrics.jsonl   log.txt
      checkpoints/step-000500/
                config.toml, vocabulary …    what the task saves in addition to its weights
        model.safetensors            the weights to use
                training.safetensors         tensors for resuming: optimizer, generators
                state.json                   values for resuming: step, epoch, scores
                manifest.json                sha256 and size of every file above, and the shapes of the model
      best -> checkpoints/step-…     last -> checkpoints/step-…

A checkpoint folder is self-contained and can be moved. It is written under a temporary name and then renamed, so that
it is complete or absent. Damage is detected by the manifest. Paths are only local paths: they are never looked up on a
network.

This subpackage is independent of optimizers, epochs and tasks.

=============  ===========================================================================
``folder``     one checkpoint: write, check, read
``runs``       the checkpoints of a run: `best`, `last`, and the checkpoint for a path; one process at a time
``values``     JSON values and checks of their types
=============  ===========================================================================
"""

from catena.checkpoint.folder import (
    CONFIG,
    FORMAT_VERSION,
    MANIFEST,
    STATE,
    TRAINING,
    WEIGHTS,
    Checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from catena.checkpoint.runs import (
    BEST,
    CHECKPOINTS,
    LAST,
    LOCK,
    LOG,
    META,
    METRICS,
    RUNS,
    has,
    is_run,
    last_checkpoint,
    list_checkpoints,
    lock_run,
    open_checkpoint,
    parse_step,
    read_meta,
    read_pointer,
    write_pointer,
)
from catena.checkpoint.values import check_regular, read_stored

__all__ = [
    "BEST",
    "CHECKPOINTS",
    "CONFIG",
    "FORMAT_VERSION",
    "LAST",
    "LOCK",
    "LOG",
    "MANIFEST",
    "META",
    "METRICS",
    "RUNS",
    "STATE",
    "TRAINING",
    "WEIGHTS",
    "Checkpoint",
    "check_regular",
    "has",
    "is_run",
    "last_checkpoint",
    "list_checkpoints",
    "lock_run",
    "open_checkpoint",
    "parse_step",
    "read_checkpoint",
    "read_meta",
    "read_pointer",
    "read_stored",
    "write_checkpoint",
    "write_pointer",
]
