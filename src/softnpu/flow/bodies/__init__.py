"""What nodes do: functions, UDF objects, models, torch modules."""
