"""A question becomes an answer with evidence: the graph, who answers, what a model is shown, and what is checked."""
