"""What a question asks for: its type, its parts, its conversation, and the documents that it means."""
