"""`paceline bench …`"""
