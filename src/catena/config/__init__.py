"""Configs: frozen typed values that are also a commented TOML file and command line options.

A config is a subclass of :class:`Config`. The docstring under a field is its comment in the file and its
``--help``:

    class Training(Config):
        batch_size: int = Field(50, gt=0)
        \"\"\"Examples per batch.\"\"\"

All errors are reported in one message, with the nearest known name and, for a file, the line. The package does not
depend on any task and does not import torch, so that the command line starts fast.

=====================  ===================================================================
``schema``             the classes: keys, sections, kinds
``text``               from TOML files, nested plain values and command line options to a config, and back to a file
``validation_errors``  invalid values as sentences
=====================  ===================================================================
"""

from catena.config.schema import KIND, Config, ConfigKey, get_kind, get_sections, keys
from catena.config.text import flag_table, load, override, parse, read_toml, to_toml

__all__ = [
    "KIND",
    "Config",
    "ConfigKey",
    "flag_table",
    "get_kind",
    "get_sections",
    "keys",
    "load",
    "override",
    "parse",
    "read_toml",
    "to_toml",
]
