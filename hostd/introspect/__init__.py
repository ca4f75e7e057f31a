"""What hostd tells people and monitoring: status, explanations, metrics."""
