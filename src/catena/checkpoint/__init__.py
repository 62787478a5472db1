"""A model is a folder, and so is a run: weights as safetensors, the rest as TOML and JSON, nothing unpickled.

    runs/mr/
      config.toml   meta.json   metrics.jsonl   log.txt
      checkpoints/step-000500/
        config.toml, vocabulary …    whatever the task saves beside its weights
        model.safetensors            the weights to use
        training.safetensors         what a resumed run needs: optimizer, generators
        state.json                   its numbers: step, epoch, scores
        manifest.json                sha256 and size of every file above, and the shapes of the model
      best -> checkpoints/step-…     last -> checkpoints/step-…

A checkpoint folder is complete in itself and can be moved. It is written under a temporary name and renamed,
so that it is there whole or not at all; what was damaged later is found by the manifest and refused. A path
is a path: it is never tried as the name of anything on a network.

Knows nothing of optimizers, epochs or tasks.

=============  ===========================================================================
``files``      text files that are there whole or not at all, and their hashes
``folder``     one checkpoint: written, checked, read
``runs``       the checkpoints of a run: `best`, `last`, and the one that a path means
=============  ===========================================================================
"""

from catena.checkpoint.files import UNFINISHED, as_json, file_sha256, write_text_atomically
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
    LOG,
    META,
    METRICS,
    RUNS,
    has,
    is_run,
    last_checkpoint,
    list_checkpoints,
    open_checkpoint,
    parse_step,
    read_meta,
    read_pointer,
    write_pointer,
)

__all__ = [
    "BEST",
    "CHECKPOINTS",
    "CONFIG",
    "FORMAT_VERSION",
    "LAST",
    "LOG",
    "MANIFEST",
    "META",
    "METRICS",
    "RUNS",
    "STATE",
    "TRAINING",
    "UNFINISHED",
    "WEIGHTS",
    "Checkpoint",
    "as_json",
    "file_sha256",
    "has",
    "is_run",
    "last_checkpoint",
    "list_checkpoints",
    "open_checkpoint",
    "parse_step",
    "read_checkpoint",
    "read_meta",
    "read_pointer",
    "write_checkpoint",
    "write_pointer",
    "write_text_atomically",
]
