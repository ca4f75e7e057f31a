"""Everything hostd changes in the kernel can be undone, also after hostd's death."""
