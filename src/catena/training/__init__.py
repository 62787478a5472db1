"""What knows an epoch, an optimiser and a checkpoint. The loop knows a task only by its interface."""
