"""The page: the only package of ours, beside app.py, that imports gradio."""

import os

# Before gradio is imported: the page asks nothing of anybody outside.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from dflash_viz.ui.page import create_app
from dflash_viz.ui.serve import launch

__all__ = ["create_app", "launch"]
