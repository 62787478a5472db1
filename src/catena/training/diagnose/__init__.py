"""Diagnosis of training: how gradients flow back in time, and the curvature of the loss."""
