"""The media system: channels by number, event waiters, strides and colour matrices."""
