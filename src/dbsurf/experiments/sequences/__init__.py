"""Groups of sequences: an exact study of their gradients, and a study of training with them."""
