"""analytic-eq5: the model of Ada-SRSF (§III, §IV) as events; engine.py has its law."""
