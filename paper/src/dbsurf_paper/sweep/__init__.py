"""Many runs at once, on one machine or a cluster; a sweep can be stopped and continued."""
