"""What watches or protects a run."""
