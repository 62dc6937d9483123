"""Helpers beside the graph."""

from dataflow.utils.deploy_template import generate_deploy_template

__all__ = ["generate_deploy_template"]
