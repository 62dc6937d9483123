"""A deployment file to start from."""

from softnpu.flow.application.template import generate_deploy_template

__all__ = ["generate_deploy_template"]
