"""DFlash Viz: see speculative decoding happen, step by step, on a real vLLM engine."""

__version__ = "0.1.0"
