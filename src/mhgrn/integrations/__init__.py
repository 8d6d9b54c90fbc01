"""Other libraries: a scikit-learn estimator, and datasets of Hugging Face. Each is imported when it is used."""
