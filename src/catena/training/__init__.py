"""What knows an epoch, an optimizer and a checkpoint. The loop knows a task only by its interface."""
