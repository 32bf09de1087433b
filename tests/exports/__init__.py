"""Models as people export them; these need what the extra ``export`` installs."""
