"""What is installed beside the programs: files for operators, the shim for containers, completion, manual pages."""
