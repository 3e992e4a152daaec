"""What runs a model: our own forward on a CPU, transformers on any device, or ONNX Runtime."""
