"""NLP tasks, one subpackage each: config, model, loss, prediction, evaluation."""
