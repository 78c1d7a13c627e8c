"""Object stores and web servers on this machine, started by tests and benchmarks, with every request counted."""
