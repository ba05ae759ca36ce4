"""What a question asks for: its kind, its parts, its conversation, and the documents that it speaks of."""
