"""Exceptions, and where a function is running."""

from softnpu.flow.application.template import generate_deploy_template
from softnpu.flow.errors import DfAbortException, DfException
from softnpu.flow.functions.running import get_running_device_id, get_running_instance_id, get_running_instance_num

__all__ = [
    "DfAbortException",
    "DfException",
    "generate_deploy_template",
    "get_running_device_id",
    "get_running_instance_id",
    "get_running_instance_num",
]
