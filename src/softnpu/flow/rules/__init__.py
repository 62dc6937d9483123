"""What decides which messages meet, wait, batch and go where: pure rules, shared by all engines. Time is passed in."""
