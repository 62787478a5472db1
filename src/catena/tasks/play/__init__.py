"""The task play: agents of :mod:`catena.agents` behind the interface of tasks."""
