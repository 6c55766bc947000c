"""The part of the corpus that needs PyTorch: tasks, faults and the loop that trains them."""
