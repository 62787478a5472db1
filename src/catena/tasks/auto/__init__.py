"""``catena train FILE --max-time T``: a search for the best model that the data and the time allow.

The candidates of each task are listed in ``candidates/TASK.toml``, the simplest first, with the number of examples for
which each is known to work. All are trained for a short time, the better ones are resumed for longer, and the best one
on dev becomes the run. Nothing here knows a task other than by its name and config.

==============  ===========================================================================
``table``       reads the candidates for a task and a number of examples
``default``     the model that is trained without a time limit
``ranges``      candidates from ranges of options, for ``catena tune``
``trials``      trains a candidate for some time in a process of its own
``variations``  variations of the best candidate, for the time that is left
``budget``      how much time each part of a search gets
``search``      the search: from a config without a model to a run
``record``      what was tried, stored as ``search.json`` in the run
==============  ===========================================================================

Only ``trials`` imports torch.
"""
