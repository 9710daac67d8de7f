"""A finished model for others: plain JSON, scikit-learn, ONNX, a card for people, the fields of the
public registry of deployments, and events for other accountants."""
