"""Many runs at once: on one machine or a cluster, stopped and started at will."""
