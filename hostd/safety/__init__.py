"""Everything we change in the kernel can be undone, also after our death."""
