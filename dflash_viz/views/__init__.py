"""What is shown: text, figures and page lines, each a pure function. No engine, no gradio."""
