"""What tests/test_inventory.py lists, and how it asks the program for it."""
