"""One thing people want done each: config, model, loss, prediction, evaluation."""
