"""The sampler and the toy problem, exactly: the paper's sections 2 and 4.1."""
