"""Code that kernels of all subjects use: compilation, threads, torch operators, floats."""
