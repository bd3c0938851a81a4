"""What runs inside vLLM's processes: the only package of ours that imports vLLM.

``wire`` (the records) imports neither vLLM nor torch, so that the client can decode them.
"""
