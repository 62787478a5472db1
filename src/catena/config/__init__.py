"""Configs: frozen typed values, a commented TOML file, and command-line flags, all from one class.

A config is a subclass of :class:`Config`. The docstring under a field is its comment in the file and its
``--help``:

    class Training(Config):
        batch_size: int = Field(50, gt=0)
        \"\"\"Examples in one batch.\"\"\"

Everything that is wrong is reported at once, with the nearest known name and, for a file, the line. Knows
nothing of any task, and imports no torch: the command line must answer at once.

==============  ==========================================================================
``schema``      the classes: keys, sections, kinds
``reading``     a TOML file, or nested plain values, to a config
``explain``     what is wrong with the values, in sentences
``flags``       command-line flags that set keys
``writing``     a config to a commented TOML file
==============  ==========================================================================
"""

from catena.config.flags import flag_table, override, split_flags
from catena.config.reading import load, parse, read_toml
from catena.config.schema import KIND, Config, ConfigKey, get_kind, get_sections, keys
from catena.config.writing import to_toml

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
    "split_flags",
    "to_toml",
]
