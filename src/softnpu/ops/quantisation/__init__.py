"""Between floats and integers with a scale, and products of such integers."""
