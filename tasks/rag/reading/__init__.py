"""Reads answers off pages: lists every answer that the found tables and sentences could give, and scores them."""
