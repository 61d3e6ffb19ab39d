def tests(full):
    return []
