"""The page: the only package of ours, beside app.py, that imports gradio."""

from dflash_viz.ui.page import create_app, launch

__all__ = ["create_app", "launch"]
