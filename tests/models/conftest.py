"""What tests of the zoo share with those of its command."""

from tests.zoo_folder import break_jobs, folder

__all__ = ["break_jobs", "folder"]
