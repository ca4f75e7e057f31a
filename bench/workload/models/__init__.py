"""Models as published, in plain torch: real kernels and real gradients for jobs on a GPU. Data are random."""
