"""The pages, in a browser and without."""
