"""Golden cases of the passes, and what every pass keeps."""
