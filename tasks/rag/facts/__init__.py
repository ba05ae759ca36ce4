"""What a request for proposals states plainly, read without a model, with page and box; and answers made of it."""
