"""What carries a state from step to step: LSTM, GRU, linear attention."""
