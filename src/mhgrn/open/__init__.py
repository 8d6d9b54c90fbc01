"""Questions without choices: walks from the concepts of a question rank all concepts that they reach."""
