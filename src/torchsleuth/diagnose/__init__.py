"""What is known of a failure, and what backs it."""
