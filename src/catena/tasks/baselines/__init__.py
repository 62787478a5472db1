"""Models of scikit-learn that are fitted to the data of a run and compared with its model."""
