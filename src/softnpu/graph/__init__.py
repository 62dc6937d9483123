"""The one graph form: nodes named by CANN operator type, and the `.om` file that holds them. Needs no device."""
