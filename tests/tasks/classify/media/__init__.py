"""Tests of the classifiers of pictures and sounds."""
