"""Pre-training of the miniature models on the string world."""
