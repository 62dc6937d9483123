"""What a model takes and gives: shapes, outputs, gears, sizes."""
