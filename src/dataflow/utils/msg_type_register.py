"""Message types of the program's own classes."""

from softnpu.flow.values.register import MsgTypeRegister, msg_type_register

__all__ = ["MsgTypeRegister", "msg_type_register"]
