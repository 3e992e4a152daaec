def print_table1(study):
    pass


def print_figure1(study):
    pass
